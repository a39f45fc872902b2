/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier: builds the programs of a whole cast, lets the rehearsal run them, and judges what every output
 * block then holds.
 *
 *      rank 0   OUT 0: ((r1+r2)+r0) ÷        allreduce: every contribution once, finished once …
 *      rank 1   OUT 0: ((r1+r2)+r0) ÷        … and the same expression everywhere: the same bits
 *      rank 2   OUT 0: ((r1+r0)+r2) ÷  ✗     "rank 2 … reduces OUT block 0 in another order than rank 0"
 *
 * The rehearsal has already checked that a finished sum is complete.
 * Read next: cast.c (what is expected), rehearsal.h (how it runs), expr.h and order.h.
 */
#include "base/memory.h"
#include "layers/verifier/rehearsal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A block of OUT in a round. */
struct output {
    struct rehearsal_place place;
    int round;
};

/* Fails, and names the step that stored the output. */
static bool __attribute__((format(printf, 3, 4)))
fail_output(struct rehearsal *m, const struct output *output, const char *format, ...) {
    const struct rehearsal_cell *cell = rehearsal_cell(m, output->round, output->place);
    char what[200];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    rehearsal_fail_at(m, cell->worker, cell->step, "stores to OUT block %d %s", output->place.block, what);
    m->failed.round = output->round;
    return false;
}

/* Judges one output. *verified is the expression that was found right for these contributions before. EXPR_NONE: none yet. */
static bool judge_reduction(struct rehearsal *m, const struct output *output, int32_t value, int wanted,
                            int32_t *verified) {
    char here[64], there[64] = "";
    int32_t leaf;
    if (value == *verified)
        return true;
    if (!expr_is_finish(&m->exprs, value))
        return fail_output(m, output, "a reduction that was not finished");
    expr_list_leaves(&m->exprs, value, &leaf, 1);
    if (leaf % m->exprs.nblocks != wanted)
        return fail_output(m, output, "a reduction of block %d, where block %d belongs", leaf % m->exprs.nblocks,
                           wanted);
    expr_print(&m->exprs, value, here, sizeof(here));
    const struct algorithm *algorithm = m->cast->algorithm;
    if (algorithm->order != PROG_ANY_ORDER && !expr_is_in_order(&m->exprs, value))
        return fail_output(m, output, "%s, which is not in rank order, as %s_%s promises", here,
                           prog_collective_name(algorithm->collective), algorithm->name);
    if (*verified != EXPR_NONE) {
        expr_print(&m->exprs, *verified, there, sizeof(there));
        return fail_output(m, output, "a reduction in another order than elsewhere: %s, not %s", here, there);
    }
    *verified = value;
    return true;
}

static bool judge_output(struct rehearsal *m, const struct output *output, int32_t *verified) {
    int member = output->place.member, block = output->place.block, nblocks = m->exprs.nblocks;
    int32_t value = rehearsal_cell(m, output->round, output->place)->value;
    struct cast_source source = cast_source_of(m->cast, member, block);
    m->failed = (struct rehearsal_failure){member, -1, output->round};
    if (value == EXPR_NONE)
        return rehearsal_fail(m, "rank %d: nothing is stored to OUT block %d in round %d",
                              m->cast->members[member].rank, block, output->round);
    if (source.member < 0)
        return judge_reduction(m, output, value, source.block, &verified[source.block]);
    return value == expr_leaf(&m->exprs, source.member, source.block) ||
           fail_output(m, output, "the IN block %d of rank %d, where block %d of rank %d belongs", value % nblocks,
                       m->cast->members[value / nblocks].rank, source.block, m->cast->members[source.member].rank);
}

static bool judge_run(struct rehearsal *m) {
    int32_t *verified = arena_get(&m->arena, (size_t)m->nin, sizeof(*verified));
    if (verified == NULL)
        return rehearsal_fail(m, "no memory to verify programs");
    memset(verified, 0xff, (size_t)m->nin * sizeof(*verified)); /* All bytes 0xff make every entry EXPR_NONE. */
    for (int round = 0; round < m->nrounds; round++)
        for (int member = 0; member < m->cast->nmembers; member++)
            for (int block = 0; m->cast->members[member].has_out && block < m->nout; block++) {
                struct output output = {{member, STEP_OUT, block}, round};
                if (rehearsal_is_alive(m, output.place, round) && !judge_output(m, &output, verified))
                    return false;
            }
    return true;
}

bool prog_check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots, bool in_place,
                char *why, size_t why_bytes) {
    struct rehearsal_rules rules = {.nslots = nslots, .in_place = in_place};
    return prog_check_by(algorithm, shape, root, &rules, why, why_bytes);
}

bool prog_check_by(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                   const struct rehearsal_rules *rules, char *why, size_t why_bytes) {
    const struct rehearsal_watcher *watcher = rules->watcher;
    struct cast cast;
    struct rehearsal rehearsal;
    snprintf(why, why_bytes, "%s", "");
    if (rules->nslots < 1) {
        snprintf(why, why_bytes, "%d slots per connection: at least one is needed", rules->nslots);
        return false;
    }
    if (cast_create(algorithm, shape, root, &cast) != COLLET_SUCCESS) {
        snprintf(why, why_bytes, "%s", err_last());
        return false;
    }
    bool right = rehearsal_create(&rehearsal, &cast, rules, why, why_bytes) && rehearsal_run(&rehearsal, watcher) &&
                 judge_run(&rehearsal);
    if (!right && watcher != NULL && watcher->failed != NULL && rehearsal.failed.member >= 0 &&
        rehearsal.nsteps_done > 0)
        watcher->failed(&rehearsal, watcher->context);
    rehearsal_destroy(&rehearsal);
    cast_destroy(&cast);
    return right;
}
