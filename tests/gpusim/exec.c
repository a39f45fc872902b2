/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions, by all lanes of a split at once.
 */
#include "gpusim/state.h"

#include "base/types.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* ---- arithmetic ---- */

typedef uint8_t ptx_u8;
typedef int8_t ptx_s8;
typedef uint16_t ptx_u16;
typedef int16_t ptx_s16;
typedef uint32_t ptx_u32;
typedef int32_t ptx_s32;
typedef uint64_t ptx_u64;
typedef int64_t ptx_s64;

static inline float ptx_f32_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
static inline double ptx_f64_of(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
static inline uint64_t bits_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}
static inline uint64_t bits_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* A register's 64 bits as a value of a type, and back. */
#define GET_u8(bits) ((uint8_t)(bits))
#define GET_s8(bits) ((int8_t)(bits))
#define GET_u16(bits) ((uint16_t)(bits))
#define GET_s16(bits) ((int16_t)(bits))
#define GET_u32(bits) ((uint32_t)(bits))
#define GET_s32(bits) ((int32_t)(bits))
#define GET_u64(bits) ((uint64_t)(bits))
#define GET_s64(bits) ((int64_t)(bits))
#define GET_f32(bits) ptx_f32_of((uint32_t)(bits))
#define GET_f64(bits) ptx_f64_of(bits)
#define GET_pred(bits) ((bits)&1)
#define PUT_u8(value) ((uint8_t)(value))
#define PUT_s8(value) ((uint64_t)(int64_t)(int8_t)(value)) /* into a wider register: its sign goes along */
#define PUT_u16(value) ((uint16_t)(value))
#define PUT_s16(value) ((uint64_t)(int64_t)(int16_t)(value))
#define PUT_u32(value) ((uint32_t)(value))
#define PUT_s32(value) ((uint64_t)(int64_t)(int32_t)(value))
#define PUT_u64(value) ((uint64_t)(value))
#define PUT_s64(value) ((uint64_t)(value))
#define PUT_f32(value) bits_f32(value)
#define PUT_f64(value) bits_f64(value)
#define PUT_pred(value) ((uint64_t)((value) != 0))

/* A division by 0 has some result; the smallest number by −1 wraps. */
static inline int64_t ptx_divide_signed(int64_t a, int64_t b) {
    return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static inline int64_t ptx_rest_signed(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }

/* Rounded to zero; what is out of range becomes the nearest, and NaN 0. */
static inline int64_t ptx_integer(double value, double least, double most) {
    if (value != value)
        return 0;
    return value <= least ? (int64_t)least : value < most ? (int64_t)value : most < 0x1p63 ? (int64_t)most : INT64_MAX;
}

static inline uint64_t low_bits(uint32_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

static inline uint64_t ptx_insert(uint64_t a, uint64_t b, uint32_t at, uint32_t length, uint32_t bits) {
    at &= 255;
    length &= 255;
    uint64_t mask = at >= bits ? 0 : low_bits(length) << at & low_bits(bits);
    return (b & ~mask) | (at >= bits ? 0 : a << at & mask);
}

static inline uint64_t ptx_extract(uint64_t a, uint32_t at, uint32_t length, uint32_t bits) {
    at &= 255;
    length &= 255;
    return at >= bits ? 0 : a >> at & low_bits(length);
}

/* Each nibble of the selector picks a byte of b:a, or its sign 8 times. */
static inline uint32_t ptx_permute(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t both = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (uint32_t k = 0; k < 4; k++) {
        uint32_t pick = selector >> 4 * k & 15;
        uint8_t byte = (uint8_t)(both >> 8 * (pick & 7));
        if (pick & 8)
            byte = byte & 0x80 ? 0xff : 0;
        result |= (uint32_t)byte << 8 * k;
    }
    return result;
}

static const uint64_t nothing[PTX_LANES];

static const uint64_t *source(const struct warp *warp, const struct frame *frame, int32_t row) {
    return row == PTX_NO_ROW ? nothing : row_of(warp, frame, row);
}

#define ARITHMETIC_CASE(name, result, type, value)                                                                     \
    case ARITH_##name:                                                                                                 \
        if (mask == ~0u) {                                                                                             \
            for (uint32_t lane = 0; lane < PTX_LANES; lane++)                                                          \
                LANE_VALUE(result, type, value)                                                                        \
        } else {                                                                                                       \
            FOR_LANES(lane, mask)                                                                                      \
            LANE_VALUE(result, type, value)                                                                            \
        }                                                                                                              \
        break;
#define LANE_VALUE(result, type, value)                                                                                \
    {                                                                                                                  \
        const __typeof__(GET_##type(ra[0])) A = GET_##type(ra[lane]), B = GET_##type(rb[lane]),                        \
                                            C = GET_##type(rc[lane]);                                                  \
        const uint64_t b = rb[lane], c = rc[lane], d = rd[lane];                                                       \
        (void)A, (void)B, (void)C, (void)b, (void)c, (void)d;                                                          \
        dst[lane] = PUT_##result(value);                                                                               \
    }

static void compute(const struct warp *warp, const struct frame *frame, const struct ptx_insn *insn, uint32_t mask) {
    uint64_t *dst = row_of(warp, frame, insn->dst[0]);
    const uint64_t *ra = source(warp, frame, insn->src[0]), *rb = source(warp, frame, insn->src[1]),
                   *rc = source(warp, frame, insn->src[2]), *rd = source(warp, frame, insn->src[3]);
    switch (insn->op) { PTX_ARITHMETIC(ARITHMETIC_CASE) }
}

/* ---- moves ---- */

static void pack(const struct warp *warp, const struct frame *frame, const struct ptx_insn *insn, uint32_t mask) {
    uint64_t *dst = row_of(warp, frame, insn->dst[0]), bits = 8u * insn->bytes;
    FOR_LANES(lane, mask) {
        uint64_t value = 0;
        for (uint32_t k = 0; k < insn->words; k++)
            value |= (source(warp, frame, insn->src[k])[lane] & low_bits((uint32_t)bits)) << bits * k;
        dst[lane] = value;
    }
}

static void unpack(const struct warp *warp, const struct frame *frame, const struct ptx_insn *insn, uint32_t mask) {
    const uint64_t *src = source(warp, frame, insn->src[0]), bits = 8u * insn->bytes;
    for (uint32_t k = 0; k < insn->words; k++) {
        if (insn->dst[k] == PTX_NO_ROW)
            continue;
        uint64_t *dst = row_of(warp, frame, insn->dst[k]);
        FOR_LANES(lane, mask)
        dst[lane] = src[lane] >> bits * k & low_bits((uint32_t)bits);
    }
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t along(struct gpusim_dim dim, uint32_t axis) { return axis == 0 ? dim.x : axis == 1 ? dim.y : dim.z; }

static uint32_t thread_along(struct gpusim_dim block, uint32_t thread, uint32_t axis) {
    return axis == 0 ? thread % block.x : axis == 1 ? thread / block.x % block.y : thread / block.x / block.y;
}

static uint64_t special_value(const struct warp *warp, const struct ptx_insn *insn, uint32_t lane) {
    const struct block *block = warp->block;
    switch ((enum ptx_special)insn->kind) {
    case SPECIAL_TID: return thread_along(block->grid->block, warp->first_thread + lane, insn->words);
    case SPECIAL_NTID: return along(block->grid->block, insn->words);
    case SPECIAL_CTAID: return along(block->index, insn->words);
    case SPECIAL_NCTAID: return along(block->grid->grid, insn->words);
    case SPECIAL_LANE: return lane;
    case SPECIAL_WARP: return warp->first_thread / PTX_LANES;
    case SPECIAL_SM: return block->sm->number;
    case SPECIAL_LANEMASK_LT: return (1u << lane) - 1;
    case SPECIAL_TIMER:
    case SPECIAL_CLOCK: return now_ns();
    }
    return 0;
}

/* Values that are not computed from registers alone. */
static void move(const struct warp *warp, const struct split *split, const struct ptx_insn *insn, uint32_t mask) {
    const struct frame *frame = &split->frames[split->depth];
    const struct gpusim_grid *grid = warp->block->grid;
    const uint64_t *src = source(warp, frame, insn->src[0]);
    uint64_t *dst = row_of(warp, frame, insn->dst[0]);
    FOR_LANES(lane, mask) {
        switch (insn->op) {
        case OP_SPECIAL: dst[lane] = special_value(warp, insn, lane); break;
        case OP_ACTIVE_MASK: dst[lane] = mask; break;
        case OP_SHARED_AT: dst[lane] = (uint64_t)(uintptr_t)warp->block->shared + (uint32_t)src[lane]; break;
        case OP_SHARED_TO: dst[lane] = src[lane] - (uintptr_t)warp->block->shared; break;
        case OP_PARAM_AT: dst[lane] = (uint64_t)(uintptr_t)grid->args + (uint64_t)insn->offset; break;
        case OP_LOCAL_AT:
            dst[lane] = (uint64_t)(uintptr_t)warp->locals + (uint64_t)lane * grid->f->all_local_bytes + frame->local +
                        (uint64_t)insn->offset;
            break;
        default: break;
        }
    }
}

/* ---- calls ---- */

static uint8_t *local_of(const struct warp *warp, uint32_t lane, uint32_t at) {
    return warp->locals + (size_t)lane * warp->block->grid->f->all_local_bytes + at;
}

static void enter(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    struct frame *caller = &split->frames[split->depth];
    const struct ptx_call *call = &caller->f->calls[insn->target];
    if (split->depth + 1 == CALLS_DEEP) {
        warp_fault(warp, split, 0, "calls are nested too deeply");
        return;
    }
    struct frame *callee = &split->frames[++split->depth];
    *callee = (struct frame){call->callee, 0, caller->row + caller->f->nrows, caller->local + caller->f->local_bytes};
    for (uint32_t k = 0; k < call->nargs; k++)
        FOR_LANES(lane, split->mask)
    memcpy(local_of(warp, lane, callee->local + call->callee->param_at[k]),
           local_of(warp, lane, caller->local + call->from[k]), call->callee->param_bytes[k]);
}

static void leave(struct warp *warp, struct split *split) {
    const struct frame *callee = &split->frames[split->depth];
    struct frame *caller = &split->frames[--split->depth];
    const struct ptx_call *call = &caller->f->calls[caller->f->code[caller->pc].target];
    FOR_LANES(lane, split->mask)
    memcpy(local_of(warp, lane, caller->local + call->result_to),
           local_of(warp, lane, callee->local + callee->f->result_at), callee->f->result_bytes);
    caller->pc++;
}

/* ---- lanes that ask each other ---- */

static void vote(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    struct frame *frame = &split->frames[split->depth];
    const uint64_t *masks = source(warp, frame, insn->src[0]), *said = source(warp, frame, insn->src[1]);
    uint64_t result[PTX_LANES];
    FOR_LANES(lane, split->mask) {
        uint32_t ballot = 0, named = (uint32_t)masks[lane] & warp->live;
        FOR_LANES(other, named)
        ballot |= (uint32_t)(said[other] & 1) << other;
        result[lane] = insn->kind == VOTE_ANY   ? ballot != 0
                       : insn->kind == VOTE_ALL ? ballot == named
                       : insn->kind == VOTE_UNI ? ballot == named || ballot == 0
                                                : ballot;
    }
    FOR_LANES(lane, split->mask)
    row_of(warp, frame, insn->dst[0])[lane] = result[lane];
}

static void shuffle(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    struct frame *frame = &split->frames[split->depth];
    uint64_t values[PTX_LANES], inside[PTX_LANES];
    FOR_LANES(lane, split->mask) {
        uint32_t by = (uint32_t)source(warp, frame, insn->src[2])[lane] & 31;
        uint32_t control = (uint32_t)source(warp, frame, insn->src[3])[lane], segment = control >> 8 & 31;
        uint32_t first = lane & segment, last = first | (control & 31 & ~segment), from = lane;
        switch ((enum ptx_shuffle)insn->kind) {
        case SHUFFLE_UP: from = lane - by; break;
        case SHUFFLE_DOWN: from = lane + by; break;
        case SHUFFLE_BFLY: from = lane ^ by; break;
        case SHUFFLE_IDX: from = first | (by & ~segment); break;
        }
        inside[lane] = insn->kind == SHUFFLE_UP ? (int32_t)from >= (int32_t)first : from <= last;
        values[lane] = source(warp, frame, insn->src[1])[inside[lane] ? from & 31 : lane];
    }
    FOR_LANES(lane, split->mask) {
        row_of(warp, frame, insn->dst[0])[lane] = (uint32_t)values[lane];
        if (insn->dst[1] != PTX_NO_ROW)
            row_of(warp, frame, insn->dst[1])[lane] = inside[lane];
    }
}

/* After an instruction with .sync the split is those that it brought together; groups that do not know of each other may part. */
static void part_groups(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    uint32_t first = (uint32_t)__builtin_ctz(split->mask);
    uint32_t named = (uint32_t)source(warp, &split->frames[split->depth], insn->src[0])[first] & split->mask;
    if (named != split->mask && chance(4))
        split_off(warp, split, split->mask & ~named)->frames[split->depth].pc++;
}

static bool run_together(struct warp *warp, struct split *split, const struct ptx_insn *insn) {
    if (!split_syncs(warp, split, insn))
        return false;
    if (insn->op == OP_VOTE)
        vote(warp, split, insn);
    else if (insn->op == OP_SHUFFLE)
        shuffle(warp, split, insn);
    part_groups(warp, split, insn);
    split->frames[split->depth].pc++;
    return true;
}

/* ---- branches ---- */

static uint32_t guarded(const struct warp *warp, const struct frame *frame, const struct ptx_insn *insn,
                        uint32_t mask) {
    if (insn->guard == PTX_NO_ROW)
        return mask;
    const uint64_t *row = row_of(warp, frame, insn->guard);
    uint32_t holds = 0;
    for (uint32_t lane = 0; lane < PTX_LANES; lane++)
        holds |= (uint32_t)(row[lane] & 1) << lane;
    return mask & (insn->guard_not ? ~holds : holds);
}

static void branch(struct warp *warp, struct split *split, const struct ptx_insn *insn, uint32_t taken) {
    struct frame *frame = &split->frames[split->depth];
    uint32_t target = insn->target;
    if (taken == 0) {
        frame->pc++;
        target = frame->pc;
    } else if (taken == split->mask) {
        frame->pc = target;
    } else {
        struct split *other = split_off(warp, split, split->mask & ~taken);
        other->frames[other->depth].pc++;
        frame->pc = target;
        return;
    }
    if (chance(meanness.split))
        split_at_random(warp, split);
}

/* ---- a turn ---- */

static void exit_lanes(struct warp *warp, struct split *split, uint32_t mask) {
    split->frames[split->depth].pc++;
    split_exit(warp, split, mask);
}

/* What is not arithmetic. False: the turn is over. */
static bool run_special(struct warp *warp, struct split *split, const struct ptx_insn *insn, uint32_t mask) {
    struct frame *frame = &split->frames[split->depth];
    switch ((enum ptx_op)insn->op) {
    case OP_LOAD:
        if (!split_load(warp, split, insn))
            return false;
        break;
    case OP_STORE: split_store(warp, split, insn); break;
    case OP_MULTI_LOAD: split_multi_load(warp, split, insn); break;
    case OP_MULTI_STORE: split_multi_store(warp, split, insn); break;
    case OP_ATOMIC: split_atomic(warp, split, insn); break;
    case OP_FENCE: split_fence(warp, split, insn); break;
    case OP_ALIAS_FENCE: split_alias_fence(warp, split); break;
    case OP_BRANCH: branch(warp, split, insn, mask); return true;
    case OP_JOIN: frame->pc++; return warp->nsplits == 1 || !split_parks(warp, split, insn->target);
    case OP_CALL: enter(warp, split, insn); return true;
    case OP_RETURN: leave(warp, split); return true;
    case OP_EXIT: exit_lanes(warp, split, mask); return split->mask != 0;
    case OP_TRAP: warp_fault(warp, split, (uint32_t)__builtin_ctz(mask), "trap"); return false;
    case OP_BARRIER:
    case OP_BARRIER_ARRIVE:
    case OP_BARRIER_REDUCE: split_at_barrier(warp, split, insn); return split->state == READY;
    case OP_WARP_SYNC:
    case OP_VOTE:
    case OP_SHUFFLE: return run_together(warp, split, insn);
    case OP_SLEEP: frame->pc++; return false;
    case OP_PACK: pack(warp, frame, insn, mask); break;
    case OP_UNPACK: unpack(warp, frame, insn, mask); break;
    default: move(warp, split, insn, mask); break;
    }
    frame->pc++;
    return true;
}

uint32_t split_run(struct warp *warp, struct split *split, uint32_t instructions) {
    const struct gpusim_grid *grid = warp->block->grid;
    uint64_t lanes = 0;
    uint32_t n = 0;
    for (bool goes_on = true; goes_on && n < instructions && grid->fault == NULL; n++) {
        struct frame *frame = &split->frames[split->depth];
        const struct ptx_insn *insn = &frame->f->code[frame->pc];
        lanes += (uint32_t)__builtin_popcount(split->mask);
        if (warp->chains != NULL && split->torn == 0)
            chains_step(warp->chains, frame, insn, split->mask, guarded(warp, frame, insn, split->mask));
        if (insn->op >= OP_ARITHMETIC) {
            compute(warp, frame, insn, guarded(warp, frame, insn, split->mask));
            frame->pc++;
            continue;
        }
        uint32_t mask = guarded(warp, frame, insn, split->mask);
        if (mask == split->mask || insn->op == OP_BRANCH || (insn->op == OP_EXIT && mask != 0)) {
            goes_on = run_special(warp, split, insn, mask);
        } else if (mask == 0) {
            frame->pc++;
        } else { /* those to which the guard does not apply go on behind the instruction */
            split_off(warp, split, split->mask & ~mask)->frames[split->depth].pc++;
            goes_on = run_special(warp, split, insn, mask);
        }
    }
    warp->block->grid->device->counts.instructions += n;
    warp->block->grid->device->counts.lane_instructions += lanes;
    return n;
}
