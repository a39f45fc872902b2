/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: builds the programs of a whole cast, lets the symbolic machine run them, and judges what every output
 * block then holds.
 *
 *      rank 0   OUT 0: ((r1+r2)+r0) ÷        allreduce: every contribution once, finished once …
 *      rank 1   OUT 0: ((r1+r2)+r0) ÷        … and the same expression everywhere: the same bits
 *      rank 2   OUT 0: ((r1+r0)+r2) ÷  ✗     "rank 2 … reduces OUT block 0 in another order than rank 0"
 *
 * Read next: cast.c (what is expected), machine.h (how it runs), expr.h and order.h.
 */
#include "base/memory.h"
#include "program/trace.h"

#include <stdarg.h>
#include <string.h>

struct judge {
    struct machine *machine;
    const struct cast *cast;
    int32_t *leaves;   /* room for one more than twice the members */
    int32_t *seen;     /* [member]: contributions counted */
    int32_t *verified; /* [block]: the expression that was found right for these contributions; EXPR_NONE: none yet */
};

/* Names the step that stored the output. */
static bool __attribute__((format(printf, 5, 6)))
fail_output(const struct judge *j, int member, int block, int round, const char *format, ...) {
    const struct machine_cell *cell = machine_out(j->machine, round, member, block);
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    machine_fail_at(j->machine, cell->worker, cell->step, "stores to OUT block %d %s", block, what);
    j->machine->failed.round = round;
    return false;
}

/* Counts contributions: each exactly once, and of the right block. */
static bool judge_contributions(const struct judge *j, int member, int block, int round, int wanted) {
    const struct expr_store *exprs = &j->machine->exprs;
    int32_t value = machine_out(j->machine, round, member, block)->value;
    int nleaves = expr_list_leaves(exprs, value, j->leaves, 2 * j->cast->nmembers + 1);
    memset(j->seen, 0, (size_t)j->cast->nmembers * sizeof(*j->seen));
    for (int i = 0; i < nleaves; i++) {
        int of_member = j->leaves[i] / exprs->nblocks, of_block = j->leaves[i] % exprs->nblocks;
        if (of_block != wanted)
            return fail_output(j, member, block, round, "a reduction with block %d of rank %d where block %d belongs",
                               of_block, of_member, wanted);
        if (++j->seen[of_member] > 1)
            return fail_output(j, member, block, round, "a reduction in which the contribution of rank %d is doubled",
                               of_member);
    }
    for (int m = 0; m < j->cast->nmembers; m++)
        if (j->seen[m] == 0)
            return fail_output(j, member, block, round, "a reduction in which the contribution of rank %d is missing",
                               m);
    return true;
}

static bool fail_order(const struct judge *j, int member, int block, int round) {
    char text[64];
    expr_print(&j->machine->exprs, machine_out(j->machine, round, member, block)->value, text, sizeof(text));
    return fail_output(j, member, block, round, "%s, which is not in rank order, as %s_%s promises", text,
                       prog_collective_name(j->cast->algorithm->collective), j->cast->algorithm->name);
}

static bool judge_reduction(const struct judge *j, int member, int block, int round, int wanted) {
    const struct expr_store *exprs = &j->machine->exprs;
    int32_t value = machine_out(j->machine, round, member, block)->value;
    int32_t *verified = &j->verified[wanted];
    if (value == *verified)
        return true;
    if (!judge_contributions(j, member, block, round, wanted))
        return false;
    if (!expr_is_finish(exprs, value))
        return fail_output(j, member, block, round, "a reduction that was not finished");
    if (j->cast->algorithm->order == PROG_IN_RANK_ORDER && !expr_is_in_order(exprs, value))
        return fail_order(j, member, block, round);
    if (*verified != EXPR_NONE) {
        char here[64], there[64];
        expr_print(exprs, value, here, sizeof(here));
        expr_print(exprs, *verified, there, sizeof(there));
        return fail_output(j, member, block, round, "a reduction in another order than elsewhere: %s, not %s", here,
                           there);
    }
    *verified = value;
    return true;
}

static bool judge_output(const struct judge *j, int member, int block, int round) {
    struct machine *m = j->machine;
    int rank = j->cast->members[member].rank;
    int32_t value = machine_out(m, round, member, block)->value;
    struct cast_source source = cast_source_of(j->cast, member, block);
    m->failed = (struct machine_failure){member, -1, round};
    if (value == EXPR_NONE)
        return machine_fail(m, "rank %d: nothing is stored to OUT block %d in round %d", rank, block, round);
    if (source.member < 0)
        return judge_reduction(j, member, block, round, source.block);
    if (value == expr_leaf(&m->exprs, source.member, source.block))
        return true;
    return fail_output(j, member, block, round, "the IN block %d of rank %d, where block %d of rank %d belongs",
                       value % m->exprs.nblocks, j->cast->members[value / m->exprs.nblocks].rank, source.block,
                       j->cast->members[source.member].rank);
}

static bool judge_outputs(const struct judge *j) {
    const struct machine *m = j->machine;
    for (int round = 0; round < m->nrounds; round++)
        for (int member = 0; member < j->cast->nmembers; member++) {
            for (int block = 0; j->cast->members[member].has_out && block < m->nout; block++)
                if (machine_is_alive(m, block, round) && !judge_output(j, member, block, round))
                    return false;
        }
    return true;
}

static bool judge_run(struct machine *m) {
    const struct cast *cast = m->cast;
    struct judge j = {.machine = m, .cast = cast};
    struct arena arena SCOPED_ARENA = {0};
    j.leaves = arena_get(&arena, 2 * (size_t)cast->nmembers + 1, sizeof(int32_t));
    j.seen = arena_get(&arena, (size_t)cast->nmembers, sizeof(int32_t));
    j.verified = arena_get(&arena, (size_t)m->nin, sizeof(int32_t));
    if (arena.failed)
        return machine_fail(m, "no memory to verify programs");
    for (int block = 0; block < m->nin; block++)
        j.verified[block] = EXPR_NONE;
    return judge_outputs(&j);
}

bool prog_check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots, bool in_place,
                char *why, size_t why_bytes) {
    return prog_check_showing(algorithm, shape, root, nslots, in_place, NULL, why, why_bytes);
}

bool prog_check_showing(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots,
                        bool in_place, const struct prog_view *view, char *why, size_t why_bytes) {
    struct cast cast;
    struct machine machine;
    if (why_bytes > 0)
        why[0] = '\0';
    if (nslots < 1) {
        snprintf(why, why_bytes, "%d slots per connection: at least one is needed", nslots);
        return false;
    }
    if (cast_create(algorithm, shape, root, &cast) != COLLET_SUCCESS) {
        snprintf(why, why_bytes, "%s", err_last());
        return false;
    }
    bool right = machine_create(&machine, &cast, nslots, in_place, why, why_bytes) &&
                 (view == NULL || !view->turns || trace_turns(&machine, view->out)) && machine_run(&machine) &&
                 judge_run(&machine);
    if (!right && view != NULL)
        trace_failure(&machine, view->out);
    machine_destroy(&machine);
    cast_destroy(&cast);
    return right;
}
