/* SPDX-License-Identifier: Apache-2.0
 *
 * A piece of a step in lines: where it is; and how lanes that share lines move the whole lines of it, several at once.
 *
 *    lines of the piece     │ 0  1  2  3 │ 4  5  6  7 │ 8  9  10 11 │ 12 13 14 15 │ 16 …       a sheet: 4 rows of 4 lines; 2 in reductions
 *    groups of a warp         0  1  2  3   0  1  2  3   0  1  2  3    0  1  2  3    of the next warp
 *
 * A group has the same line of each row. So a lane computes one address, and its other rows are at fixed distances:
 *
 *    poll  4 lines of a peer by one vote ──▶ load  own operand's words ──▶ reduce ──▶ send  4 lines to each peer ──▶ store
 *
 * Sheets are for the common case (step_has_sheets(), piece_has_sheets()). block_lines.cuh does all else, and the lines behind the last
 * sheet.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_PIECE_CUH
#define COLLET_KERNELS_CUDA_BLOCK_PIECE_CUH

#include "kernels/cuda/block_wait.cuh"
#include "kernels/cuda/parts.h"

/* The table of protocols, as constants: number of lanes per line, of words per lane, and of operands for which a lane polls at once. */
template <int protocol> struct block_protocol;
#define BLOCK_PROTOCOL(NAME, name, text, slots, unit, line, costs)                                                     \
    template <> struct block_protocol<PROTOCOL_##NAME> {                                                               \
        enum { number = PROTOCOL_##NAME, lanes = NAME##_LANES, words = NAME##_WORDS, unit_bytes = unit };              \
        enum { line_bytes = line, has_lines = line > unit, many = 4 / NAME##_WORDS, rows = 4 };                        \
    };
PROTOCOLS(BLOCK_PROTOCOL)

/* Is the condition true for any lane of the group that shares a line? All lanes of the group call it. */
template <class P> BLOCK_FN bool any_of_company(bool condition) {
    return P::lanes > 1 ? port_warp_any(condition) : condition;
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
                                           const struct interp_piece *piece, uint64_t round, uint32_t slot_at) {
    struct lines_piece p;
    p.piece = *piece;
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

/* ---- sheets ---- */

/* The same protocol for reductions: the words of two operands take the registers of a lane. */
template <class P> struct block_reducing : P {
    enum { rows = 2 };
};

template <class P> struct block_sheet {
    enum { rows = P::rows, groups = PORT_WARP / PORT_GROUP };
    enum { row_bytes = groups * P::unit_bytes, row_memory_bytes = groups * P::line_bytes };
    enum { lines = rows * groups, bytes = rows * row_bytes, memory_bytes = rows * row_memory_bytes };
    typedef uint64_t words[rows][LANE_WORDS_MAX]; /* of a lane */
};

/* The number of sheets of a piece. */
template <class P> BLOCK_FN uint32_t sheets_of(uint32_t bytes) {
    return port_lanes() < PORT_WARP ? 0 : bytes / block_sheet<P>::bytes;
}

/* Sheets need few registers: a word of the result is made of one that is received and one in memory at most. And nothing calls a function
 * meanwhile, as a factor or a divisor would. */
template <class P> BLOCK_FN bool step_has_sheets(const struct interp_op *op, const struct prog_step *step) {
    bool divides = step->finish && op->args.divisor > 1;
    bool has = P::lanes > 1 && step->recv_count <= 1 && step->locals_count <= 1 && !op->args.scaling && !divides;
    if (has && step->recv_count > 0)
        has = !interp_recv_end(op, step->recv_first)->remote;
#pragma unroll 1
    for (int k = 0; has && k < step->send_count; k++)
        has = !interp_send_end(op, step->send_first + k)->remote;
    return has;
}

/* Are halves of words aligned in memory? */
BLOCK_FN bool piece_has_sheets(const char *local, const char *store) {
    return ((uintptr_t)local | (uintptr_t)store) % (LANE_WORD_BYTES / 2) == 0;
}

/* The lines of a group in the first sheet of a piece, in the slot of an end; and their flag. */
struct sheet_end {
    char *line;
    uint64_t flag;
};

template <class P>
BLOCK_FN struct sheet_end sheet_end_of(const struct interp_op *op, const struct fifo_end *end, uint32_t slot_at) {
    char *line = ll128_line(end, slot_at) + port_lane() % PORT_WARP / PORT_GROUP * P::line_bytes;
    return {line, ll128_flag(&op->args, end)};
}

/* Is a line of another call there in place of one that this lane waits for? Asks no function: so sums stay in registers meanwhile. */
template <class P>
BLOCK_FN bool sheet_is_foreign(const struct sheet_end *from, const typename block_sheet<P>::words &words) {
    bool foreign = false;
#pragma unroll
    for (int row = 0; row < block_sheet<P>::rows; row++)
        foreign |= ll128_find_flag(words[row][1], from->flag) == LANE_FOREIGN;
    return ll128_has_flag() && foreign;
}

/* Loads this lane's parts. False: a line of this group has not come. */
template <class P>
BLOCK_FN bool sheet_look(const struct sheet_end *from, uint32_t sheet, typename block_sheet<P>::words &words) {
    typedef block_sheet<P> S;
    const char *line = from->line + (size_t)sheet * S::memory_bytes;
    uint64_t differs = 0;
    port_warp_join();
#pragma unroll
    for (int row = 0; row < S::rows; row++)
        port_row_load(line + row * S::row_memory_bytes, words[row]);
#pragma unroll
    for (int row = 0; row < S::rows; row++)
        differs |= words[row][1] ^ from->flag;
    return !(ll128_has_flag() && differs != 0);
}

/* Waits for this lane's parts from the k-th end. */
template <class P>
BLOCK_FN enum work_failure sheet_receive(struct interp_worker *w, const struct prog_step *step,
                                         const struct sheet_end *from, uint32_t sheet, const struct work_status *status,
                                         typename block_sheet<P>::words &words) {
    struct block_wait wait = {0, 0};
    while (any_of_company<P>(!sheet_look<P>(from, sheet, words))) {
        bool asks = block_asks(&wait);
        enum work_failure failure = block_pause(&wait, status);
        if (!asks)
            continue;
        if (sheet_is_foreign<P>(from, words))
            failure = WORK_FOREIGN;
        if (!any_of_company<P>(failure != WORK_FINE))
            continue;
        w->blocked_on = (uint32_t)step->recv_first;
        return failure != WORK_FINE ? failure : WORK_ABORTED;
    }
    return WORK_FINE;
}

/* Byte of a piece at which this lane's part of the first sheet begins. */
template <class P> BLOCK_FN uint32_t sheet_lane_at(void) {
    return port_lane() % PORT_WARP / PORT_GROUP * P::unit_bytes + port_lane() % PORT_GROUP * 2 * LANE_WORD_BYTES;
}

/* from: this lane's part of the first row in memory, aligned as a V is. A lane with a flag has no second word, and loads the first one
 * twice. */
template <class P, class V> BLOCK_FN void sheet_load_by(const char *from, typename block_sheet<P>::words &words) {
    enum { count = LANE_WORD_BYTES / sizeof(V) };
    uint32_t second = ll128_has_flag() ? 0 : LANE_WORD_BYTES;
#pragma unroll
    for (int i = 0; i < block_sheet<P>::rows * 2; i++) {
        const char *part = (const char *)port_global(from + i / 2 * block_sheet<P>::row_bytes + i % 2 * second);
        uint64_t word = 0;
#pragma unroll
        for (int k = 0; k < count; k++)
            word |= (uint64_t)((const V *)(const void *)part)[k] << k * 8 * sizeof(V) % 64;
        words[i / 2][i % 2] = word;
    }
}

template <class P, class V> BLOCK_FN void sheet_store_by(char *to, const typename block_sheet<P>::words &words) {
    enum { count = LANE_WORD_BYTES / sizeof(V) };
    to = (char *)port_global(to);
#pragma unroll
    for (int u = 0; u < 2; u++) {
        if (u == 1 && ll128_has_flag())
            return;
#pragma unroll
        for (int row = 0; row < block_sheet<P>::rows; row++)
#pragma unroll
            for (int k = 0; k < count; k++)
                ((V *)(void *)(to + row * block_sheet<P>::row_bytes + u * LANE_WORD_BYTES))[k] =
                    (V)(words[row][u] >> k * 8 * sizeof(V) % 64);
    }
}

/* Words of 8 bytes; or, if an array of smaller elements begins between them, halves. */
template <class P> BLOCK_FN void sheet_load(const char *from, bool by_words, typename block_sheet<P>::words &words) {
    if (by_words)
        sheet_load_by<P, uint64_t>(from, words);
    else
        sheet_load_by<P, uint32_t>(from, words);
}

template <class P> BLOCK_FN void sheet_store(char *to, bool by_words, const typename block_sheet<P>::words &words) {
    if (by_words)
        sheet_store_by<P, uint64_t>(to, words);
    else
        sheet_store_by<P, uint32_t>(to, words);
}

template <class P>
BLOCK_FN void sheet_send(const struct sheet_end *to, uint32_t sheet, const typename block_sheet<P>::words &words) {
    typedef block_sheet<P> S;
    char *line = to->line + (size_t)sheet * S::memory_bytes;
    uint64_t second[S::rows];
#pragma unroll
    for (int row = 0; row < S::rows; row++)
        second[row] = ll128_has_flag() ? to->flag : words[row][1];
    port_warp_join();
#pragma unroll
    for (int row = 0; row < S::rows; row++)
        port_row_store(line + row * S::row_memory_bytes, words[row][0], second[row]);
}

/* ---- reducing ---- */

/* What all sheets of a piece have alike, in registers. The peers behind the first one are found for each sheet. */
struct sheet_ways {
    struct sheet_end from, to;
    const char *local;
    char *store;
    bool by_words; /* both are aligned to words */
};

template <class P>
BLOCK_FN struct sheet_ways sheet_ways_of(const struct interp_op *op, const struct prog_step *step, const char *local,
                                         char *store, uint32_t slot_at) {
    struct sheet_ways ways = {};
    ways.by_words = ((uintptr_t)local | (uintptr_t)store) % LANE_WORD_BYTES == 0;
    if (step->recv_count > 0)
        ways.from = sheet_end_of<P>(op, interp_recv_end(op, step->recv_first), slot_at);
    if (step->send_count > 0)
        ways.to = sheet_end_of<P>(op, interp_send_end(op, step->send_first), slot_at);
    if (store != NULL)
        ways.store = store + sheet_lane_at<P>();
    if (local != NULL)
        ways.local = local + sheet_lane_at<P>();
    return ways;
}

/* Combines two words. Their order is no matter: the bits of the result are the same (kernels/reduce.h). */
template <class R> BLOCK_FN uint64_t word_combine(uint64_t a, uint64_t b, uint64_t mirror) {
    typename R::sum sums[block_pack<R, uint64_t>::count];
    pack_load<R, uint64_t>(a, sums, mirror);
    pack_combine<R, uint64_t>(b, sums, mirror);
    return pack_store<R, uint64_t>(sums, 1, mirror);
}

/* Takes the operands of this lane's parts: one that is received, one in memory, or both (R::reduces). That in memory is loaded behind the
 * wait: before it, there would be no registers for the words of both. */
template <class R, class P>
BLOCK_FN enum work_failure sheet_take(struct interp_worker *w, const struct prog_step *step,
                                      const struct sheet_ways *ways, uint32_t sheet, const struct work_status *status,
                                      typename block_sheet<P>::words &words) {
    typedef block_sheet<P> S;
    enum work_failure failure =
        step->recv_count > 0 ? sheet_receive<P>(w, step, &ways->from, sheet, status, words) : WORK_FINE;
    if (failure != WORK_FINE || ways->local == NULL)
        return failure;
    typename S::words second;
    typename S::words &own = R::reduces ? second : words;
    sheet_load<P>(ways->local + (size_t)sheet * S::bytes, ways->by_words, own);
    uint64_t mirror = interp_op_of(w)->args.mirror;
#pragma unroll
    for (int i = 0; R::reduces && i < S::rows * 2; i++)
        words[i / 2][i % 2] = word_combine<R>(words[i / 2][i % 2], own[i / 2][i % 2], mirror);
    return WORK_FINE;
}

/* Does this lane's parts of a piece's sheets. Warps take turns. */
template <class R, class P>
BLOCK_FN enum work_failure sheets_run(struct interp_worker *w, const struct prog_step *step, const char *local,
                                      char *store, uint32_t slot_at, uint32_t bytes, const struct work_status *status) {
    typedef block_sheet<P> S;
    const struct interp_op *op = interp_op_of(w);
    const struct sheet_ways ways = sheet_ways_of<P>(op, step, local, store, slot_at);
    uint32_t warps = port_lanes() / PORT_WARP, warp = port_lane() / PORT_WARP;
    uint32_t end = warp < warps ? sheets_of<P>(bytes) : 0;
#pragma unroll 1
    for (uint32_t sheet = warp; sheet < end; sheet += warps) {
        typename S::words words;
        enum work_failure failure = sheet_take<R, P>(w, step, &ways, sheet, status, words);
        if (failure != WORK_FINE)
            return failure;
#pragma unroll 1
        for (int k = 0; k < step->send_count; k++) {
            struct sheet_end to = ways.to;
            if (k > 0)
                to = sheet_end_of<P>(op, interp_send_end(op, step->send_first + k), slot_at);
            sheet_send<P>(&to, sheet, words);
        }
        if (ways.store != NULL)
            sheet_store<P>(ways.store + (size_t)sheet * S::bytes, ways.by_words, words);
    }
    return WORK_FINE;
}

/* How many lines of a piece are done; or why not. */
struct sheets_done {
    enum work_failure failure;
    uint32_t lines;
};

/* Called by all lanes. Does the sheets of a piece: for `copying` those of an operand that is alone. A function of its own, so that its loop
 * has all registers. */
template <class R, class P>
BLOCK_SELDOM struct sheets_done piece_sheets(struct interp_worker *w, const struct prog_step *step, int number,
                                             uint64_t round, uint32_t slot_at, const struct work_status *status) {
    w = (struct interp_worker *)port_shared(w);
    step = (const struct prog_step *)port_shared(step);
    const struct interp_op *op = interp_op_of(w);
    const struct interp_piece piece = interp_piece_of(op, step, number, round);
    uint32_t bytes = interp_bytes(op, &piece);
    const char *local = step->locals_count > 0 ? interp_local(op, step, 0, number, round, &piece) : NULL;
    char *store = step->store_region != STEP_NONE ? interp_store(op, step, number, round, &piece) : NULL;
    struct sheets_done done = {WORK_FINE, 0};
    if (!step_has_sheets<P>(op, step) || !piece_has_sheets(local, store))
        return done;
    done.lines = sheets_of<P>(bytes) * block_sheet<P>::lines;
    done.failure = sheets_run<R, P>(w, step, local, store, slot_at, bytes, status);
    return done;
}

#endif
