/* SPDX-License-Identifier: Apache-2.0
 *
 * A step in slots with lines by all lanes of a block. No lane waits for more than its own parts of lines: it polls for them,
 * reduces them in registers and sends them on.
 *
 *    payload of the slot   │ line 0 │ line 1 │ line 2 │ …         of protocol_unit_bytes() each
 *    lanes                  a lane, or the lanes of a group, per line; then lines + lanes, … all groups equally often, for their
 *                           warps run together: those beyond the last line come along without one
 *    a lane's part          one or two words of 8 bytes
 *
 * A lane has several parts under way at once: of one line those of several peers, or, from one peer at most, those of several
 * lines:
 *
 *    load  own operand's words ──▶ poll  lines 0 and 1, both at once ──▶ reduce, send, store  line 0, line 1
 *
 * What a line is, the protocol says (parts.h). Ends whose slots a wire carries are of the same step, as plain payload.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_LINES_CUH
#define COLLET_KERNELS_CUDA_BLOCK_LINES_CUH

#include "kernels/cuda/block_ops.cuh"
#include "kernels/cuda/block_wait.cuh"
#include "kernels/cuda/parts.h"

/* The table of protocols, as constants: number of lanes per line, of words per lane, and of operands for which a lane polls at once. */
template <int protocol> struct block_protocol;
#define BLOCK_PROTOCOL(NAME, name, text, slots, unit, line, costs)                                                     \
    template <> struct block_protocol<PROTOCOL_##NAME> {                                                               \
        enum { number = PROTOCOL_##NAME, lanes = NAME##_LANES, words = NAME##_WORDS, unit_bytes = unit };              \
        enum { has_lines = line > unit, many = 4 / NAME##_WORDS };                                                     \
    };
PROTOCOLS(BLOCK_PROTOCOL)

BLOCK_FN uint32_t word_length(uint32_t at, uint32_t end) {
    uint32_t left = at < end ? end - at : 0;
    return left < LANE_WORD_BYTES ? left : LANE_WORD_BYTES;
}

/* Returns this lane's part of a line. The piece has `bytes` bytes. It begins at byte slot_at of the slot's payload. */
template <class P> BLOCK_FN struct lane_part part_of(uint32_t slot_at, uint32_t line, uint32_t bytes, int present) {
    uint32_t line_end = (line + 1) * P::unit_bytes, end = line_end < bytes ? line_end : bytes;
    uint32_t at = line * P::unit_bytes + port_lane() % P::lanes * P::words * LANE_WORD_BYTES;
    struct lane_part part = {slot_at + at, {word_length(at, end), 0}, present};
    if (P::words > 1)
        part.lengths[1] = word_length(at + LANE_WORD_BYTES, end);
    return part;
}

/* Is the condition true for any lane of the group that shares a line? All lanes of the group call it. */
template <class P> BLOCK_FN bool any_of_company(bool condition) {
    return P::lanes > 1 ? port_warp_any(condition) : condition;
}

/* ---- waiting ---- */

/* The parts that a lane loads at once: of `lines` lines, from `ends` ends. near: no end is remote. */
template <class P, int nlines> struct block_flight {
    enum { lines = nlines, ends = nlines > 1 ? 1 : P::many, near = nlines > 1 };
    enum { positions = nlines > 1 ? ends + 1 : ends }; /* number of places in the list of operands between two looks */
    struct lane_part part[nlines];
    uint64_t words[ends][nlines][LANE_WORDS_MAX]; /* received words */
    uint64_t own[nlines][P::words];               /* words of the first operand in memory */
};

/* Does the lane poll for this part? Lanes that share a line always poll, since they vote together. */
template <class P> BLOCK_FN bool looks_for(const struct lane_part *part) { return P::lanes > 1 || part->present; }

/* Finds an end whose part for this lane has not come. FOREIGN: a part of another call is there instead. */
template <class P, class F>
BLOCK_SELDOM enum work_failure parts_judge(const struct interp_op *op, int first, int n, const struct lane_part *part,
                                           enum work_failure failure, uint32_t *missing) {
    op = (const struct interp_op *)port_shared(op);
    for (int k = n < F::ends ? n - 1 : F::ends - 1; k >= 0; k--)
        for (int line = 0; line < F::lines && part[line].present; line++) {
            const struct fifo_end *end = interp_recv_end(op, first + k);
            enum lane_finding finding = proto_find(proto_kind(P::number, end), &op->args, end, &part[line]);
            if (finding == LANE_HERE)
                continue;
            *missing = (uint32_t)k;
            if (finding == LANE_FOREIGN)
                return WORK_FOREIGN;
        }
    return failure;
}

/* The protocol of an end's lines: that of the call, if it is known that no end is remote. */
template <class P, class F> BLOCK_FN uint32_t kind_of(const struct fifo_end *end) {
    return F::near ? (uint32_t)P::number : proto_kind(P::number, end);
}

/* Loads all parts once, and then checks whether they have come. (A check after each load would delay the next load.) False: one has
 * not come. */
template <class P, class F> BLOCK_FN bool parts_look(const struct interp_op *op, int first, int n, F *flight) {
    const struct work_args *args = &op->args;
    bool all = true;
#pragma unroll
    for (int k = 0; k < F::ends; k++)
#pragma unroll
        for (int line = 0; line < F::lines; line++)
            if (k < n && looks_for<P>(&flight->part[line])) {
                const struct fifo_end *end = interp_recv_end(op, first + k);
                proto_load(kind_of<P, F>(end), args, end, &flight->part[line], flight->words[k][line]);
            }
#pragma unroll
    for (int k = 0; k < F::ends; k++)
#pragma unroll
        for (int line = 0; line < F::lines; line++)
            if (k < n && looks_for<P>(&flight->part[line])) {
                const struct fifo_end *end = interp_recv_end(op, first + k);
                all &= proto_look(kind_of<P, F>(end), args, end, &flight->part[line], flight->words[k][line]) != 0;
            }
    return all;
}

/* Waits for this lane's parts from the ends of the first n entries of the peer table (F::ends at most), and takes them. On a failure,
 * *missing is an entry whose part has not come. ABORTED: another lane of the group has failed. */
template <class P, class F>
BLOCK_FN enum work_failure parts_receive(const struct interp_op *op, int first, int n, F *flight,
                                         const struct work_status *status, uint32_t *missing) {
    struct block_wait wait = {0, 0};
    for (;;) {
        if (!any_of_company<P>(!parts_look<P>(op, first, n, flight)))
            return WORK_FINE;
        bool asks = block_asks(&wait);
        enum work_failure failure = block_pause(&wait, status);
        if (!asks)
            continue;
        struct lane_part part[F::lines]; /* a copy: so the flight itself can stay in registers */
#pragma unroll
        for (int line = 0; line < F::lines; line++)
            part[line] = flight->part[line];
        failure = parts_judge<P, F>(op, first, n, part, failure, missing);
        if (any_of_company<P>(failure != WORK_FINE))
            return failure != WORK_FINE ? failure : WORK_ABORTED;
    }
}

/* ---- reducing ---- */

/* The sum of words so far. If there is one operand and no division, its bits are kept as they are (`raw`). */
template <class R> struct word_sum {
    typename R::sum sums[block_pack<R, uint64_t>::count];
    uint64_t bits, mirror;
    bool raw, empty;
};

template <class R>
BLOCK_FN struct word_sum<R> word_begin(const struct interp_op *op, const struct prog_step *step, uint32_t divisor) {
    struct word_sum<R> sum = {};
    sum.mirror = op->args.mirror;
    sum.empty = true;
    sum.raw = !R::reduces || (step->recv_count + step->locals_count == 1 && divisor <= 1);
    return sum;
}

template <class R>
BLOCK_FN uint64_t word_end(struct word_sum<R> *sum, uint32_t divisor) {
    return sum->raw ? sum->bits : pack_store<R, uint64_t>(sum->sums, divisor, sum->mirror);
}

template <class R> BLOCK_FN void word_take(struct word_sum<R> *sum, uint64_t word) {
    if (sum->raw) {
        sum->bits = word;
        return;
    }
    typename R::sum next[block_pack<R, uint64_t>::count];
    pack_load<R, uint64_t>(word, next, sum->mirror);
#pragma unroll
    for (int i = 0; i < block_pack<R, uint64_t>::count; i++)
        sum->sums[i] = sum->empty ? next[i] : R::combine(sum->sums[i], next[i]);
    sum->empty = false;
}

/* Where a piece is, in memory and in slots. */
struct lines_piece {
    struct interp_piece piece;
    int number; /* index among the pieces of the step */
    uint64_t round;
    uint32_t bytes, slot_at; /* length of the piece; bytes of the slot before it */
    const char *local;       /* the first operand in memory; NULL: there is none */
    int local_at;            /* number of received operands that come before it */
    bool early;              /* it is in IN, and may be read at once: in place, whatever overwrites it comes later */
    char *store;             /* NULL: nothing is stored */
};

BLOCK_FN struct lines_piece lines_piece_of(const struct interp_op *op, const struct prog_step *step, int number,
                                           uint64_t round, uint32_t slot_at) {
    struct lines_piece p;
    p.piece = interp_piece_of(op, step, number, round);
    p.number = number;
    p.round = round;
    p.bytes = interp_bytes(op, &p.piece);
    p.slot_at = slot_at;
    p.local = step->locals_count > 0 ? interp_local(op, step, 0, number, round, &p.piece) : NULL;
    p.local_at = step->locals_count > 0 ? interp_local_at(op, step->locals_first)->at : -1;
    p.early = step->locals_count > 0 && interp_local_at(op, step->locals_first)->region == STEP_IN;
    p.store = step->store_region != STEP_NONE ? interp_store(op, step, number, round, &p.piece) : NULL;
    return p;
}

/* Loads a word of the l-th operand in memory. Finds the piece anew. */
BLOCK_SELDOM uint64_t word_of_local(const struct interp_op *op, const struct prog_step *step, int l, int number,
                                    uint64_t round, uint32_t at, uint32_t bytes) {
    op = (const struct interp_op *)port_shared(op);
    step = (const struct prog_step *)port_shared(step);
    struct interp_piece piece = interp_piece_of(op, step, number, round);
    return lane_load(interp_local(op, step, l, number, round, &piece) + at, bytes);
}

/* Multiplies a word of the l-th operand in memory by the factor, if the call has one and the operand is in IN. */
template <class R>
BLOCK_FN uint64_t word_scaled(const struct interp_op *op, const struct prog_step *step, int l, uint64_t word) {
    bool scaled = R::sums && op->args.scaling && interp_local_at(op, step->locals_first + l)->region == STEP_IN;
    return scaled ? pack_multiply<R, uint64_t>(word, op->args.factor) : word;
}

/* Loads this lane's words of the first operand in memory. */
template <class P, class F> BLOCK_FN void own_load(const struct lines_piece *p, F *flight) {
#pragma unroll
    for (int line = 0; line < F::lines; line++)
#pragma unroll
        for (int u = 0; u < P::words; u++) {
            const struct lane_part *part = &flight->part[line];
            flight->own[line][u] = lane_load(p->local + part->at - p->slot_at + u * LANE_WORD_BYTES, part->lengths[u]);
        }
}

/* Returns a word of the l-th operand in memory, multiplied by the factor if there is one. */
template <class R, class P, class F>
BLOCK_FN uint64_t local_take(const struct interp_op *op, const struct prog_step *step, const struct lines_piece *p,
                             int l, const F *flight, int line, int u) {
    const struct lane_part *part = &flight->part[line];
    uint64_t word = flight->own[line][u];
    if (F::lines == 1 && l > 0)
        word = word_of_local(op, step, l, p->number, p->round, part->at - p->slot_at + u * LANE_WORD_BYTES,
                             part->lengths[u]);
    return word_scaled<R>(op, step, l, word);
}

/* `received` operands have been taken. Does the next operand come from memory? With several lines at once, only one does. */
template <class F>
BLOCK_FN bool local_is_next(const struct interp_op *op, const struct prog_step *step, const struct lines_piece *p,
                            int taken, int received) {
    return taken == 0 ? p->local_at == received : F::lines == 1 && interp_is_local(op, step, taken, received);
}

/* Receives from `first` and the ends behind it. */
template <class P, class F>
BLOCK_FN enum work_failure flight_receive(struct interp_worker *w, const struct prog_step *step, int first, F *flight,
                                          const struct work_status *status) {
    uint32_t missing = 0;
    enum work_failure failure =
        parts_receive<P>(interp_op_of(w), step->recv_first + first, step->recv_count - first, flight, status, &missing);
    if (failure != WORK_FINE)
        w->blocked_on =
            (uint32_t)(step->recv_first + first) + missing; /* if several lanes fail, any of them may be named */
    return failure;
}

/* Adds the operands of one line's part to the sums, in their order: the received ones from `first` on, and between them those in
 * memory. *taken counts the operands from memory. */
template <class R, class P, class F>
BLOCK_FN void line_take(struct word_sum<R> *sums, const struct interp_op *op, const struct prog_step *step,
                        const struct lines_piece *p, int first, const F *flight, int line, int *taken) {
#pragma unroll
    for (int k = 0; k < F::positions; k++) {
        bool local = true;
#pragma unroll 1
        while (local && first + k <= step->recv_count) {
            local = local_is_next<F>(op, step, p, *taken, first + k);
            if (!local && first + k == step->recv_count)
                break;
#pragma unroll
            for (int u = 0; u < P::words; u++)
                word_take<R>(&sums[u], local ? local_take<R, P>(op, step, p, *taken, flight, line, u)
                                             : flight->words[k % F::ends][line][u]);
            *taken += local;
        }
    }
}

/* Reduces the operands of this lane's parts, in their order. With several lines at once, at most one operand is received. */
template <class R, class P, class F>
BLOCK_FN enum work_failure flight_reduce(struct interp_worker *w, const struct prog_step *step,
                                         const struct lines_piece *p, F *flight, const struct work_status *status,
                                         uint64_t (*result)[P::words]) {
    const struct interp_op *op = interp_op_of(w);
    uint32_t divisor = step->finish ? op->args.divisor : 1;
    struct word_sum<R> sums[F::lines][P::words];
    int taken[F::lines] = {};
#pragma unroll
    for (int i = 0; i < F::lines * P::words; i++)
        sums[i / P::words][i % P::words] = word_begin<R>(op, step, divisor);
    if (p->early)
        own_load<P>(p, flight);
#pragma unroll 1
    for (int first = 0; first <= step->recv_count; first += F::ends) {
        enum work_failure failure =
            first < step->recv_count ? flight_receive<P>(w, step, first, flight, status) : WORK_FINE;
        if (failure != WORK_FINE)
            return failure;
        if (first == 0 && p->local != NULL && !p->early)
            own_load<P>(p, flight);
#pragma unroll
        for (int line = 0; line < F::lines; line++)
            line_take<R, P>(sums[line], op, step, p, first, flight, line, &taken[line]);
        if (F::lines > 1)
            break; /* these were all */
    }
#pragma unroll
    for (int i = 0; i < F::lines * P::words; i++)
        result[i / P::words][i % P::words] = word_end<R>(&sums[i / P::words][i % P::words], divisor);
    return WORK_FINE;
}

/* ---- a step ---- */

/* The runners (groups of lanes) take turns over the lines of the whole slot. Returns the first line of the piece for this runner. */
template <class P> BLOCK_FN uint32_t first_line(const struct lines_piece *p, uint32_t runner, uint32_t runners) {
    uint32_t before = p->slot_at / P::unit_bytes % runners;
    return runner >= before ? runner - before : runner + runners - before;
}

/* Sends and stores this lane's part of a line. */
template <class P>
BLOCK_FN void part_deliver(const struct interp_op *op, const struct prog_step *step, const struct lines_piece *p,
                           const struct lane_part *part, const struct lane_part *sent, const uint64_t *words) {
    if (!looks_for<P>(part))
        return;
#pragma unroll 1
    for (int k = 0; k < step->send_count; k++) {
        const struct fifo_end *end = interp_send_end(op, step->send_first + k);
        proto_send(proto_kind(P::number, end), &op->args, end, sent, words);
    }
#pragma unroll
    for (int u = 0; p->store != NULL && u < P::words; u++)
        lane_store(p->store + part->at - p->slot_at + u * LANE_WORD_BYTES, words[u], part->lengths[u]);
}

/* Returns this lane's part of a full line. */
template <class P> BLOCK_FN struct lane_part part_of_whole(uint32_t slot_at, uint32_t line) {
    uint32_t at = port_lane() % P::lanes * P::words * LANE_WORD_BYTES;
    struct lane_part part = {slot_at + line * P::unit_bytes + at, {word_length(at, P::unit_bytes), 0}, 1};
    if (P::words > 1)
        part.lengths[1] = word_length(at + LANE_WORD_BYTES, P::unit_bytes);
    return part;
}

/* Does this lane's parts of a piece, from line *turn on, `lines` lines at once. Several lines at once have to be full lines. If a slot
 * carries several pieces, the lines that pad a piece are written too: so no line of the slot stays old. */
template <class R, class P, int lines>
BLOCK_FN enum work_failure parts_run(struct interp_worker *w, const struct prog_step *step, const struct lines_piece *p,
                                     const struct work_status *status, uint32_t *turn) {
    uint32_t runners = port_lanes() / P::lanes,
             padded = step->count > 1 ? interp_padded(interp_op_of(w), &p->piece) : p->bytes;
    uint32_t first = first_line<P>(p, port_lane() / P::lanes, runners), whole = lines > 1 ? runners * lines : 1;
    uint32_t end = lines > 1 ? p->bytes : p->bytes + P::unit_bytes - 1; /* a single line may be shorter */
#pragma unroll 1
    for (; (*turn + whole) * P::unit_bytes <= end; *turn += runners * lines) {
        struct block_flight<P, lines> flight;
        uint64_t words[lines][P::words];
        uint32_t line = *turn + first;
#pragma unroll
        for (int k = 0; k < lines; k++)
            flight.part[k] = lines > 1 ? part_of_whole<P>(p->slot_at, line + (uint32_t)k * runners)
                                       : part_of<P>(p->slot_at, line, p->bytes, line * P::unit_bytes < p->bytes);
        if (!looks_for<P>(&flight.part[0]))
            return WORK_FINE;
        enum work_failure failure = flight_reduce<R, P>(w, step, p, &flight, status, words);
        if (failure != WORK_FINE)
            return failure;
#pragma unroll
        for (int k = 0; k < lines; k++) {
            struct lane_part sent =
                lines > 1 ? flight.part[k] : part_of<P>(p->slot_at, line, padded, flight.part[k].present);
            part_deliver<P>(interp_op_of(w), step, p, &flight.part[k], &sent, words[k]);
        }
    }
    return WORK_FINE;
}

/* Does two lines at once, if at most one operand is received (not by a wire), and at most one is in memory. Then does the remaining
 * lines one by one. LL always goes one by one: its lines are short, and a slot has few of them for each lane. */
template <class R, class P>
BLOCK_FN enum work_failure piece_run(struct interp_worker *w, const struct prog_step *step, const struct lines_piece *p,
                                     const struct work_status *status) {
    uint32_t turn = 0;
    enum work_failure failure = WORK_FINE;
    bool is_near = step->recv_count == 0 || !interp_recv_end(interp_op_of(w), step->recv_first)->remote;
    if constexpr (P::lanes > 1)
        if (is_near && step->recv_count <= 1 && step->locals_count <= 1)
            failure = parts_run<R, P, 2>(w, step, p, status, &turn);
    return failure == WORK_FINE ? parts_run<R, P, 1>(w, step, p, status, &turn) : failure;
}

/* Does this lane's parts of all pieces. */
template <class R, class P>
BLOCK_FN enum work_failure block_lines(struct interp_worker *w, const struct prog_step *step, uint64_t round,
                                       const struct work_status *status) {
    enum work_failure failure = WORK_FINE;
    uint32_t slot_at = 0;
#pragma unroll 1
    for (int i = 0; i < step->count && failure == WORK_FINE; i++) {
        struct lines_piece p = lines_piece_of(interp_op_of(w), step, i, round, slot_at);
        failure = piece_run<R, P>(w, step, &p, status);
        slot_at += interp_padded(interp_op_of(w), &p.piece);
    }
    return failure;
}

#endif
