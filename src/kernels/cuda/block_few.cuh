/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of few lines: each line of each peer has a lane of its own. Three peers, two lines:
 *
 *    lane           0        1        2        3        4        5
 *    polls for      line 0   line 1   line 0   line 1   line 0   line 1
 *    of             peer 0   peer 0   peer 1   peer 1   peer 2   peer 2
 *                   └─────────────────── words ───────────────────┘      barrier: all have come
 *    sums up        line 0   line 1   line 0   line 1   line 0   line 1  of all peers, in their order
 *    sends it to    peer 0   peer 0   peer 1   peer 1   peer 2   peer 2
 *    stores it      yes      yes      –        –        –        –
 *
 * So a peer more takes a word more, and not a turn more of each lane, as in block_lines.cuh. A sum is computed once for each receiver: that
 * takes less time than to hand it from lane to lane.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_FEW_CUH
#define COLLET_KERNELS_CUDA_BLOCK_FEW_CUH

#include "kernels/cuda/block_ends.cuh"
#include "kernels/cuda/block_lines.cuh"

/* One part of one near end. */
template <class P> struct few_flight {
    enum { lines = 1, ends = 1, near = 1 };
    struct lane_part part[1];
    uint64_t words[1][1][LANE_WORDS_MAX];
};

template <class P> BLOCK_FN uint32_t few_lines(uint32_t bytes) { return (bytes + P::unit_bytes - 1) / P::unit_bytes; }

/* Is there a lane for each line of each peer? */
template <class P> BLOCK_FN bool few_fit(const struct prog_step *step, uint32_t bytes) {
    uint32_t receives = (uint32_t)step->recv_count, sends = (uint32_t)step->send_count;
    uint32_t most = receives > sends ? receives : sends;
    return P::lanes == 1 && step->count == 1 && most > 0 && few_lines<P>(bytes) * most <= port_lanes();
}

/* Receives this lane's part of its peer's slot. */
template <class P>
BLOCK_FN enum work_failure few_receive(struct block_memory *m, const struct prog_step *step, uint32_t peer,
                                       const struct lane_part *part, const struct work_status *status) {
    struct few_flight<P> flight;
    uint32_t missing = 0;
    if (peer >= (uint32_t)step->recv_count)
        return WORK_FINE;
    flight.part[0] = *part;
    enum work_failure failure = parts_receive<P>(&m->op, step->recv_first + (int)peer, 1, &flight, status, &missing);
    if (failure != WORK_FINE)
        m->worker.blocked_on = (uint32_t)step->recv_first + peer;
    m->words[port_lane()] = flight.words[0][0][0];
    return failure;
}

/* Sums up a line: words that came from peers, and words of memory, in their order. own: the word of the first operand in memory. */
template <class R, class P>
BLOCK_FN uint64_t few_sum(const struct block_memory *m, const struct prog_step *step, const struct lines_piece *p,
                          const struct lane_part *part, uint64_t own, uint32_t line, uint32_t lines) {
    const struct interp_op *op = &m->op;
    const uint32_t divisor = step->finish ? op->args.divisor : 1;
    struct word_sum<R> sum = word_begin<R>(op, step, divisor);
    int taken = 0, next = p->local_at;
#pragma unroll 1
    for (int received = 0;; received++) {
        for (; taken < step->locals_count && next == received; taken++) {
            const uint64_t word =
                taken == 0 ? own : word_of_local(op, step, taken, 0, p->round, part->at, part->lengths[0]);
            word_take<R>(&sum, word_scaled<R>(op, step, taken, word));
            next = taken + 1 < step->locals_count ? interp_local_at(op, step->locals_first + taken + 1)->at : -1;
        }
        if (received == step->recv_count)
            return word_end<R>(&sum, divisor);
        word_take<R>(&sum, m->words[(uint32_t)received * lines + line]);
    }
}

/* Called by all lanes. If the sum is stored and sent, all lanes have loaded their operands before it may overwrite them. */
template <class R, class P>
BLOCK_FN enum work_failure block_few(struct block_memory *m, const struct prog_step *step, uint64_t round,
                                     uint32_t bytes, const struct work_status *status) {
    const uint32_t lines = few_lines<P>(bytes), peer = port_lane() / lines, line = port_lane() % lines;
    const uint32_t sends = (uint32_t)step->send_count;
    const bool delivers = peer == 0 || peer < sends;
    const struct lines_piece p = lines_piece_of(&m->op, step, 0, round, 0);
    const struct lane_part part = part_of<P>(0, line, bytes, 1);
    uint64_t own = 0, word = 0;
    if (delivers && p.early)
        own = lane_load(p.local + part.at, part.lengths[0]);
    if (step->recv_count > 0) {
        const enum work_failure failure = failure_of_any(few_receive<P>(m, step, peer, &part, status));
        if (failure != WORK_FINE)
            return failure;
    }
    if (delivers && !p.early && p.local != NULL)
        own = lane_load(p.local + part.at, part.lengths[0]);
    if (delivers)
        word = few_sum<R, P>(m, step, &p, &part, own, line, lines);
    if (p.store != NULL && sends > 1)
        port_sync();
    if (p.store != NULL && peer == 0)
        lane_store(p.store + part.at, word, part.lengths[0]);
    if (peer < sends)
        proto_send(P::number, &m->op.args, place_end(m, step, peer), &part, &word);
    return WORK_FINE;
}

#endif
