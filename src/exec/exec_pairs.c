/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls in which only the two ranks of a pair know how much they exchange (alltoallv). Each worker serves one pair and one
 * direction, so each has its own interp_op, with these values:
 *
 *      rounds      as many as the worker's block needs
 *      signature   the signature of the call, mixed with both counts of the pair
 *      sequence    both counts, 32 bits each: for the text of an error. It is never compared
 *
 *      header of every slot from a to b:    the count that a sends to b, the count that a expects from b
 *
 * Each of the two ranks sends at least one slot, even if it has nothing to send. So both notice if they disagree about the count of
 * either direction.
 */
#include "base/err.h"
#include "base/hash.h"
#include "base/types.h"
#include "exec/exec.h"

struct pair {
    /* Numbers of elements that the sender of a slot sends to its reader, and expects from the reader. */
    uint64_t sends, expects;
};

static uint32_t pair_signature(const struct exec_call *call, struct pair pair) {
    return hash_mix(hash_mix(call->args.signature, pair.sends), pair.expects);
}

static uint64_t at_most_32_bits(uint64_t count) { return count < UINT32_MAX ? count : UINT32_MAX; }

static const struct prog_step *step_of(const struct exec_program *program, int worker) {
    const struct interp_worker *w = &program->workers[worker];
    return &program->progs[exec_channel_of(program, worker)]->steps[w->first_step];
}

/* The counts of the pair that a worker serves, as the sender sees them. */
static struct pair pair_of(const struct exec_call *call, const struct prog_step *step) {
    const struct exec_extents *extents = call->request.extents;
    uint64_t to_peer = extents->of[STEP_IN][step->about.first].count;
    uint64_t from_peer = extents->of[STEP_OUT][step->about.first].count;
    return step->recv_count > 0 ? (struct pair){from_peer, to_peer} : (struct pair){to_peer, from_peer};
}

void exec_pairs_start(const struct exec_call *call) {
    const struct exec_program *program = call->program;
    for (int k = 0; k < call->running; k++) {
        int channel = exec_channel_of(program, k);
        struct interp_op *op = &program->pair_ops[k];
        struct pair pair = pair_of(call, step_of(program, k));
        *op = program->ops[channel];
        op->geometry = geometry_of_extents(pair.sends, op->args.chunk_elems, (uint32_t)channel, op->args.nchannels);
        op->args.signature = pair_signature(call, pair);
        op->args.sequence = at_most_32_bits(pair.expects) << 32 | at_most_32_bits(pair.sends);
        program->workers[k].op = op;
    }
}

static enum collet_result err_counts(const struct exec_call *call, int from, uint64_t sends, int to, uint64_t expects) {
    return err_set(
        COLLET_ERR_MISMATCH,
        "collet_alltoallv (call %llu): rank %d sends %llu %s to rank %d (sendcounts[%d]), which expects %llu "
        "(recvcounts[%d]): both must be the same number",
        (unsigned long long)call->args.sequence, from, (unsigned long long)sends, type_name(call->request.type), to, to,
        (unsigned long long)expects, from);
}

enum collet_result exec_pairs_check(const struct exec_call *call, const struct interp_worker *w) {
    const struct fifo_slot_header *header = fifo_header(w->op->recv_ends[w->blocked_on]);
    struct pair theirs = {header->sequence & UINT32_MAX, header->sequence >> 32};
    int worker = (int)(w - call->program->workers), self = call->chan->owner.rank;
    int peer = exec_blocking_rank(call->program, worker);
    struct pair mine = pair_of(call, step_of(call->program, worker));
    if (header->signature != pair_signature(call, theirs))
        return COLLET_SUCCESS;
    if (theirs.sends != mine.sends)
        return err_counts(call, peer, theirs.sends, self, mine.sends);
    return err_counts(call, self, mine.expects, peer, theirs.expects);
}
