/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/returns.h"

static int peer_of(const struct prog *prog, int entry) { return prog->peers[entry].rank; }

/* Does the step lend IN(b) to one peer? */
static bool lends(const struct prog *prog, const struct prog_step *step) {
    return step->recv_count == 0 && step->locals_count == 1 && step->send_count == 1 && step->count == 1 &&
           step->store_region == STEP_NONE && step->lends == STEP_LENDS_OPERAND &&
           prog->locals[step->locals_first].region == STEP_IN;
}

/* Does the step sum all other ranks' slices, and send the sum to all other ranks? */
static bool sums(const struct prog *prog, const struct prog_step *step) {
    return step->recv_count == prog->nranks - 1 && step->send_count == prog->nranks - 1 && step->count == 1 &&
           step->finish && step->store_region == STEP_OUT && step->lends == STEP_LENDS_RESULT;
}

/* Does the step receive from one peer into a block of OUT that no other step touches? */
static bool hears(const struct prog_step *step) {
    return step->recv_count == 1 && step->locals_count == 0 && step->send_count == 0 && step->count == 1 &&
           step->store_region == STEP_OUT && step->lands == STEP_LANDS_EARLY;
}

/* Is this block lent to the rank from which it is heard? */
static bool comes_back(const struct prog *prog, const struct prog_step *hear) {
    for (const struct prog_step *step = prog->steps; step < prog->steps + prog->nsteps; step++)
        if (lends(prog, step) && peer_of(prog, step->send_first) == peer_of(prog, hear->recv_first))
            return prog->locals[step->locals_first].run.first == hear->store.first;
    return false;
}

bool gpu_returns(const struct prog *prog) {
    int nlends = 0, nsums = 0, nhears = 0;
    if (prog->collective != PROG_ALLREDUCE || prog->nranks < 2)
        return false;
    for (const struct prog_step *step = prog->steps; step < prog->steps + prog->nsteps; step++) {
        nlends += lends(prog, step);
        nsums += sums(prog, step);
        nhears += hears(step) && comes_back(prog, step);
    }
    return nsums == 1 && nlends == prog->nranks - 1 && nhears == nlends && prog->nsteps == nlends + nsums + nhears;
}
