/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: builds the programs of a whole cast, lets the symbolic machine run them, and judges what every output
 * chunk then holds.
 *
 *      rank 0   OUT 0: ((r1+r2)+r0) ÷        allreduce: every contribution once, finished once …
 *      rank 1   OUT 0: ((r1+r2)+r0) ÷        … and the same expression everywhere: the same bits
 *      rank 2   OUT 0: ((r1+r0)+r2) ÷  ✗     "rank 2 … reduces OUT chunk 0 in another order than rank 0"
 *
 * Read next: cast.c (what is expected), machine.h (how it runs), expr.h and order.h.
 */
#include "base/err.h"
#include "program/machine.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct judge {
    struct machine *machine;
    const struct cast *cast;
    int32_t *leaves;   /* room for one more than twice the members */
    int32_t *seen;     /* [member]: contributions counted */
    int32_t *verified; /* [chunk]: the expression that was found right for these contributions, EXPR_NONE: none yet */
};

/* Names the step that stored the output. */
static bool __attribute__((format(printf, 5, 6)))
fail_output(const struct judge *j, int member, int chunk, int round, const char *format, ...) {
    const struct machine_cell *cell = machine_out(j->machine, round, member, chunk);
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return machine_fail_at(j->machine, cell->worker, cell->step, "stores to OUT chunk %d %s", chunk, what);
}

/* Counts contributions: each exactly once, and of the right chunk. */
static bool judge_contributions(const struct judge *j, int member, int chunk, int round, int wanted_chunk) {
    const struct expr_store *exprs = &j->machine->exprs;
    int32_t value = machine_out(j->machine, round, member, chunk)->value;
    int nleaves = expr_list_leaves(exprs, value, j->leaves, 2 * j->cast->nmembers + 1);
    memset(j->seen, 0, (size_t)j->cast->nmembers * sizeof(*j->seen));
    for (int i = 0; i < nleaves; i++) {
        int of_member = j->leaves[i] / exprs->nchunks, of_chunk = j->leaves[i] % exprs->nchunks;
        if (of_chunk != wanted_chunk)
            return fail_output(j, member, chunk, round, "a reduction with chunk %d of rank %d where chunk %d belongs",
                               of_chunk, of_member, wanted_chunk);
        if (++j->seen[of_member] > 1)
            return fail_output(j, member, chunk, round, "a reduction in which the contribution of rank %d is doubled",
                               of_member);
    }
    for (int m = 0; m < j->cast->nmembers; m++)
        if (j->seen[m] == 0)
            return fail_output(j, member, chunk, round, "a reduction in which the contribution of rank %d is missing",
                               m);
    return true;
}

static bool judge_reduction(const struct judge *j, int member, int chunk, int round, int wanted_chunk) {
    const struct expr_store *exprs = &j->machine->exprs;
    int32_t value = machine_out(j->machine, round, member, chunk)->value;
    int32_t *verified = &j->verified[wanted_chunk];
    if (value == *verified)
        return true;
    if (!judge_contributions(j, member, chunk, round, wanted_chunk))
        return false;
    if (!expr_is_finish(exprs, value))
        return fail_output(j, member, chunk, round, "a reduction that was not finished");
    if (*verified != EXPR_NONE) {
        char here[64], there[64];
        expr_print(exprs, value, here, sizeof(here));
        expr_print(exprs, *verified, there, sizeof(there));
        return fail_output(j, member, chunk, round, "a reduction in another order than elsewhere: %s, not %s", here,
                           there);
    }
    *verified = value;
    return true;
}

static bool judge_output(const struct judge *j, int member, int chunk, int round) {
    struct machine *m = j->machine;
    int rank = j->cast->members[member].rank;
    int32_t value = machine_out(m, round, member, chunk)->value;
    struct cast_source source = cast_source_of(j->cast, member, chunk);
    if (value == EXPR_NONE)
        return machine_fail(m, "rank %d: nothing is stored to OUT chunk %d in round %d", rank, chunk, round);
    if (source.member < 0)
        return judge_reduction(j, member, chunk, round, source.chunk);
    if (value == expr_leaf(&m->exprs, source.member, source.chunk))
        return true;
    return fail_output(j, member, chunk, round, "the IN chunk %d of rank %d, where chunk %d of rank %d belongs",
                       value % m->exprs.nchunks, j->cast->members[value / m->exprs.nchunks].rank, source.chunk,
                       j->cast->members[source.member].rank);
}

static bool judge_outputs(const struct judge *j) {
    const struct machine *m = j->machine;
    for (int round = 0; round < m->nrounds; round++)
        for (int member = 0; member < j->cast->nmembers; member++) {
            enum prog_layout layout = prog_out_layout(j->cast->members[member].prog->collective);
            for (int chunk = 0; j->cast->members[member].has_out && chunk < m->nout; chunk++)
                if (machine_is_alive(m, layout, chunk, round) && !judge_output(j, member, chunk, round))
                    return false;
        }
    return true;
}

static bool judge_run(struct machine *m) {
    const struct cast *cast = m->cast;
    struct judge j = {
        .machine = m,
        .cast = cast,
        .leaves = malloc((2 * (size_t)cast->nmembers + 1) * sizeof(int32_t)),
        .seen = malloc((size_t)cast->nmembers * sizeof(int32_t)),
        .verified = malloc((size_t)m->nin * sizeof(int32_t)),
    };
    bool right = false;
    if (j.leaves == NULL || j.seen == NULL || j.verified == NULL) {
        machine_fail(m, "no memory to verify programs");
    } else {
        for (int chunk = 0; chunk < m->nin; chunk++)
            j.verified[chunk] = EXPR_NONE;
        right = judge_outputs(&j);
    }
    free(j.leaves);
    free(j.seen);
    free(j.verified);
    return right;
}

bool prog_check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots, bool in_place,
                char *why, size_t why_bytes) {
    struct cast cast;
    struct machine machine;
    if (why_bytes > 0)
        why[0] = '\0';
    if (nslots < 1) {
        snprintf(why, why_bytes, "%d slots a connection: at least one is needed", nslots);
        return false;
    }
    if (cast_create(algorithm, shape, root, &cast) != COLLET_SUCCESS) {
        snprintf(why, why_bytes, "%s", err_last());
        return false;
    }
    bool right = machine_create(&machine, &cast, nslots, in_place, why, why_bytes) && machine_run(&machine) &&
                 judge_run(&machine);
    machine_destroy(&machine);
    cast_destroy(&cast);
    return right;
}
