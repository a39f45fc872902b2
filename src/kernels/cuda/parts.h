/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of lines: what a step of a block asks of a protocol, beside what every step asks (fifo/proto.h). In slots with lines each
 * lane moves its own parts. Each question is answered by the function of that name.
 *
 *    load      loads this lane's part of a line, with its flags
 *    look      was it there? Then what was loaded becomes its words
 *    find      is that part there, missing, or of another call?
 *    send      stores this lane's part of a line
 *
 * Simple answers, too: slots of a step that a wire carries have plain payload, where the others have lines.
 *
 * LL: a lane takes two lines by one access, polls for them, and waits for no other lane. There head needs no fence
 * before it: what gives the slot back is behind a barrier, to which each lane comes with its lines (tests/litmus/patterns.txt).
 *
 * LL128: a line belongs to a group of 8 neighbouring lanes:
 *
 *    lane          0        1        2        3        4        5        6        7
 *    line     │   16   │   16   │   16   │   16   │   16   │   16   │   16   │ 8 │ flag │
 *
 * They are of one warp, all of which stores together, so a line leaves the multiprocessor as one access of 128 bytes; the warp
 * loads together too, and votes whether all its flags were there. That a reader of the flag sees the rest is a
 * property of the way between them, which the memory model does not promise: memory of a GPU has it for its own blocks
 * and over NVLink.
 */
#ifndef COLLET_KERNELS_CUDA_PARTS_H
#define COLLET_KERNELS_CUDA_PARTS_H

#include "fifo/proto.h"
#include "kernels/cuda/port.h"

/* A lane's part of a line: the byte of the slot's payload at which it begins, and the lengths of its words. */
#define LANE_WORDS_MAX 2u
struct lane_part {
    uint32_t at, lengths[LANE_WORDS_MAX];
    int present; /* 0: the lane has no part, and only takes part in the votes of its warp */
};

/* What a lane finds in place of a line for which it waits. */
enum lane_finding { LANE_HERE, LANE_MISSING, LANE_FOREIGN /* a line of another call */ };

/* ---- Simple: a word for each lane ---- */

enum { SIMPLE_LANES = 1, SIMPLE_WORDS = 1 };

PORT_FN void simple_load(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                         uint64_t *words) {
    const char *from = fifo_slot_at(end, args->protocol, end->position) + part->at;
    for (uint32_t k = 0; k < LANE_WORDS_MAX; k++)
        if (k == 0 || part->lengths[k] > 0)
            words[k] = lane_load(from + k * LANE_WORD_BYTES, part->lengths[k]);
}

PORT_FN int simple_look(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                        uint64_t *words) {
    (void)args, (void)end, (void)part, (void)words;
    return 1;
}

PORT_FN enum lane_finding simple_find(const struct work_args *args, const struct fifo_end *end,
                                      const struct lane_part *part) {
    (void)args, (void)end, (void)part;
    return LANE_HERE;
}

PORT_FN void simple_send(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                         const uint64_t *words) {
    char *to = fifo_slot_at(end, args->protocol, end->position) + part->at;
    for (uint32_t k = 0; k < LANE_WORDS_MAX; k++)
        if (part->lengths[k] > 0)
            lane_store(to + k * LANE_WORD_BYTES, words[k], part->lengths[k]);
}

/* ---- LL: each lane moves a word of 8 bytes, in two lines ---- */

enum { LL_LANES = 1, LL_WORDS = 1 };

PORT_FN void ll_load(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                     uint64_t *words) {
    const uint64_t *lines = ll_lines(end) + part->at / 4;
    (void)args;
    if (part->lengths[0] > 4)
        port_lines_load(lines, &words[0], &words[1]); /* pairs with ll_put(), ll_send() */
    else
        words[0] = port_line_load(lines);
}

PORT_FN int ll_look(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                    uint64_t *words) {
    uint64_t flag = ll_flag(args, end), first = words[0], second = part->lengths[0] > 4 ? words[1] : flag << 32;
    words[0] = (first & 0xffffffffu) | second << 32;
    return first >> 32 == flag && second >> 32 == flag;
}

/* No line is older than half the period of flags. So a line with this turn's number is of this turn, whoever wrote it. */
PORT_FN enum lane_finding ll_find(const struct work_args *args, const struct fifo_end *end,
                                  const struct lane_part *part) {
    uint64_t flag = ll_flag(args, end), seen = port_line_load(ll_lines(end) + part->at / 4) >> 32;
    return seen == flag ? LANE_HERE : (uint16_t)seen == (uint16_t)flag ? LANE_FOREIGN : LANE_MISSING;
}

PORT_FN void ll_send(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                     const uint64_t *words) {
    uint64_t *lines = ll_lines(end) + part->at / 4;
    uint64_t flag = ll_flag(args, end) << 32;
    if (part->lengths[0] > 4)
        port_lines_store(lines, flag | (words[0] & 0xffffffffu), flag | words[0] >> 32); /* pairs with ll_look() */
    else
        port_line_store(lines, flag | (words[0] & 0xffffffffu));
}

/* ---- LL128: 8 lanes move a line, two words each; the last one has the flag instead of its second ---- */

enum { LL128_LANES = PORT_GROUP, LL128_WORDS = 2 };

PORT_FN int ll128_has_flag(void) { return port_lane() % PORT_GROUP == PORT_GROUP - 1; }

PORT_FN void ll128_load(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                        uint64_t *words) {
    (void)args;
    port_line128_load(part->present, ll128_line(end, part->at), &words[0], &words[1]);
}

/* Only the lane with the flag can say that the line has not come. The warp votes when all its lanes have looked. */
PORT_FN int ll128_look(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                       uint64_t *words) {
    return !(part->present && ll128_has_flag() && words[1] != ll128_flag(args, end));
}

PORT_FN enum lane_finding ll128_find(const struct work_args *args, const struct fifo_end *end,
                                     const struct lane_part *part) {
    uint64_t flag = ll128_flag(args, end), seen = port_line_load(ll128_flag_of(ll128_line(end, part->at)));
    return seen == flag ? LANE_HERE : seen << 16 == flag << 16 ? LANE_FOREIGN : LANE_MISSING;
}

PORT_FN void ll128_send(const struct work_args *args, const struct fifo_end *end, const struct lane_part *part,
                        const uint64_t *words) {
    port_line128_store(part->present, ll128_line(end, part->at), words[0],
                       ll128_has_flag() ? ll128_flag(args, end) : words[1]);
}

/* ---- the questions ---- */

/* The least that a lane takes in a step. */
#define PROTO_LANE(NAME, name, text, slots, unit, line, costs)                                                         \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        return line > unit ? unit / NAME##_LANES : 2 * unit;
PORT_FN uint32_t proto_lane_bytes(uint32_t kind) {
    PROTOCOLS(PROTO_LANE)
    return 1;
}

/* words: LANE_WORDS_MAX of them. Loads of several parts are made first, so that all are under way at once. Their flags are checked
 * later. */
#define PROTO_LOAD(NAME, name, text, slots, unit, line, costs)                                                         \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        name##_load(args, end, part, words);
PORT_FN void proto_load(uint32_t kind, const struct work_args *args, const struct fifo_end *end,
                        const struct lane_part *part, uint64_t *words){PROTOCOLS(PROTO_LOAD)}

#define PROTO_LOOK(NAME, name, text, slots, unit, line, costs)                                                         \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        return name##_look(args, end, part, words);
PORT_FN int proto_look(uint32_t kind, const struct work_args *args, const struct fifo_end *end,
                       const struct lane_part *part, uint64_t *words) {
    PROTOCOLS(PROTO_LOOK)
    return 0;
}

#define PROTO_FIND(NAME, name, text, slots, unit, line, costs)                                                         \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        return name##_find(args, end, part);
PORT_FN enum lane_finding proto_find(uint32_t kind, const struct work_args *args, const struct fifo_end *end,
                                     const struct lane_part *part) {
    PROTOCOLS(PROTO_FIND)
    return LANE_FOREIGN;
}

#define PROTO_SEND(NAME, name, text, slots, unit, line, costs)                                                         \
    if (kind == PROTOCOL_##NAME)                                                                                       \
        name##_send(args, end, part, words);
PORT_FN void proto_send(uint32_t kind, const struct work_args *args, const struct fifo_end *end,
                        const struct lane_part *part, const uint64_t *words) {
    PROTOCOLS(PROTO_SEND)
}

#endif
