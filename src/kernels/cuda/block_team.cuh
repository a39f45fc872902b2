/* SPDX-License-Identifier: Apache-2.0
 *
 * Teams: all ranks' windows under one address, behind which NVSwitches sum and copy (NVLS, algo/allreduce_nvls.c). A block of rank 1
 * that has been lent slice 1 of all ranks:
 *
 *      GPU 0 ── slice 1 of IN ──▶ ┌────────┐                  ┌────────┐ ──▶ slice 1 of OUT, on GPU 0
 *      GPU 1 ── slice 1 of IN ──▶ │ switch │ ══ the sum ══▶ · │ switch │ ──▶ slice 1 of OUT, on GPU 1
 *      GPU 2 ── slice 1 of IN ──▶ └────────┘   multimem.      └────────┘ ──▶ slice 1 of OUT, on GPU 2
 *                                              ld_reduce      multimem.st
 *
 * Nobody is asked beforehand whether this can be done. A slot that lends a slice says at which place of which team that lies, and at
 * which its result belongs. If all ranks say the same, the switch does it, and the slots of the result say EVERYWHERE: their
 * consumers copy nothing. Else they are loans like others.
 *
 *    a block lends a slice      its GPU's work before the call is over, nobody else touches that slice of OUT before
 *                               its result comes. So whoever has been lent the slice by all may store the result at all
 *    order                      what was written by a GPU's own addresses ─▶ the slot's tail ─▶ port_fence_team() ─▶ multimem ─▶
 *                               port_fence_team() ─▶ the result's tail ─▶ what is read by a GPU's own addresses
 *
 * Sums alone, of the types below; their order is the switch's. A switch rounds sums of 16-bit floats before an average divides
 * them, which could be too large by then: averages of those are made by lanes.
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_TEAM_CUH
#define COLLET_KERNELS_CUDA_BLOCK_TEAM_CUH

#include "kernels/cuda/block_loans.cuh"
#include "kernels/cuda/block_reduce.cuh"

/* What a team does for a step: nothing; it sums and stores; or it has already stored. */
enum team_part { TEAM_NOTHING, TEAM_SUMS, TEAM_HAS_STORED };

struct block_team {
    const struct loan_team *teams; /* [window]; window 0 means none, and is all zero */
    uint8_t windows[STEP_REGIONS]; /* [region]: the window that contains it */
    const char *from;              /* team addresses */
    char *to;
    enum team_part does;
};

/* ---- what a step's slots say, by lane 0 ---- */

/* The team of the window that contains a region. If the region is in no window, that of window 0, which is all zero. */
BLOCK_FN const struct loan_team *team_of(const struct block_team *team, uint32_t region) {
    return &team->teams[team->windows[region]];
}

BLOCK_FN uint64_t team_place(const struct loan_team *team, const void *address) {
    return team->add != 0 ? (uint64_t)(uintptr_t)address + team->place : 0;
}

/* Writes these two words into all loans of the step. */
BLOCK_FN void team_say(const struct interp_op *op, const struct prog_step *step, uint64_t to, uint64_t result) {
    for (int k = 0; k < step->send_count; k++) {
        struct loan_end *loans = &interp_send_end(op, step->send_first + k)->loans;
        if (loans->lending == 0)
            continue;
        loans->lending_to = to;
        loans->lending_result = result;
    }
}

/* Have all slots of the step these two words? */
BLOCK_FN bool team_hears(const struct interp_op *op, const struct prog_step *step, uint64_t to, uint64_t result) {
    for (int k = 0; k < step->recv_count; k++) {
        const struct fifo_slot_header *header = fifo_header(interp_recv_end(op, step->recv_first + k));
        if (!direct_is_lent(header) || header->loan.to != to || header->loan.to_offset != result)
            return false;
    }
    return true;
}

/* Can the team do this step? It is a step that has one slice of each rank, and lends its result to all other ranks. */
template <class R>
BLOCK_SELDOM bool team_sums(struct block_team *team, const struct interp_op *op, const struct prog_step *step,
                            const struct block_lists *l) {
    op = (const struct interp_op *)port_shared(op);
    step = (const struct prog_step *)port_shared(step);
    l = (const struct block_lists *)port_shared(l);
    const struct prog_local *local = interp_local_at(op, step->locals_first);
    const struct loan_team *in = team_of(team, STEP_IN), *out = team_of(team, STEP_OUT);
    const char *own = (const char *)l->src[local->at];
    if (in->add == 0 || out->add == 0 || !team_hears(op, step, team_place(in, own), team_place(out, l->dst[0])))
        return false;
    team->from = own + in->add;
    team->to = (char *)l->dst[0] + out->add;
    return ((uintptr_t)team->from | (uintptr_t)team->to) % sizeof(block_vector) == 0;
}

/* Decides what the team does. Called after the step was listed and its loans were taken. */
template <class R>
BLOCK_SELDOM void team_list(struct block_team *team, const struct interp_op *op, const struct prog_step *step,
                            const struct block_lists *l, uint32_t bytes) {
    op = (const struct interp_op *)port_shared(op);
    step = (const struct prog_step *)port_shared(step);
    l = (const struct block_lists *)port_shared(l);
    team->does = TEAM_NOTHING;
    if (step->finish && step->recv_count > 0 && l->ndst == 1 && bytes % 4 == 0 && team_sums<R>(team, op, step, l)) {
        team->does = TEAM_SUMS;
        team_say(op, step, LOAN_EVERYWHERE, 0);
        port_fence_team();
    } else if (step->lends == STEP_LENDS_OPERAND) {
        const char *own = (const char *)l->src[0];
        team_say(op, step, team_place(team_of(team, STEP_IN), own),
                 team_place(team_of(team, STEP_OUT), op->args.out + (own - op->args.in)));
    } else if (step->recv_count == 1 && step->locals_count == 0 && team_hears(op, step, LOAN_EVERYWHERE, 0)) {
        team->does = TEAM_HAS_STORED;
    }
}

/* Called behind the step, and before its slots are handed over. */
BLOCK_FN void team_end(const struct block_team *team) {
    if (team->does == TEAM_SUMS)
        port_fence_team();
}

/* ---- the sum, by all lanes ---- */

/* On the host there are no teams. */
#if defined(__CUDA_ARCH__)
#define TEAM_ASM(...) asm volatile(__VA_ARGS__ : "memory")
#else
#define TEAM_ASM(...)
#endif

BLOCK_FN void team_store(char *to, const block_vector &bits) {
    (void)to, (void)bits;
    TEAM_ASM("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(bits.x), "r"(bits.y),
             "r"(bits.z), "r"(bits.w));
}

BLOCK_FN void team_store(char *to, const uint32_t &bits) {
    (void)to, (void)bits;
    TEAM_ASM("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(to), "r"(bits));
}

/* Sums `unroll` vectors. Vector u starts at byte at + u · stride. */
template <class R, class V, int unroll>
BLOCK_FN void team_some(const struct block_team *team, uint64_t at, uint64_t stride, uint32_t divisor) {
    V bits[unroll];
#pragma unroll
    for (int u = 0; u < unroll; u++)
        R::team_load(&bits[u], team->from + at + u * stride);
#pragma unroll
    for (int u = 0; u < unroll; u++) {
        if (R::divides && divisor > 1) {
            typename R::sum sums[block_pack<R, V>::count];
            pack_load<R, V>(bits[u], sums, 0);
            bits[u] = pack_store<R, V>(sums, divisor, 0);
        }
        team_store(team->to + at + u * stride, bits[u]);
    }
}

/* Sums whole vectors, and then the words behind them. */
template <class R> BLOCK_FN void team_do(const struct block_team *team, uint64_t bytes, uint32_t divisor) {
    const uint64_t size = sizeof(block_vector), stride = port_lanes() * size, whole = bytes / size * size;
    uint64_t at = port_lane() * size;
    if (team->does == TEAM_HAS_STORED)
        return;
#pragma unroll 1
    for (; at + (R::team_unroll - 1) * stride < whole; at += R::team_unroll * stride)
        team_some<R, block_vector, R::team_unroll>(team, at, stride, divisor);
#pragma unroll 1
    for (; at < whole; at += stride)
        team_some<R, block_vector, 1>(team, at, 0, divisor);
#pragma unroll 1
    for (at = whole + port_lane() * 4; at < bytes; at += port_lanes() * 4)
        team_some<R, uint32_t, 1>(team, at, 0, divisor);
}

/* ---- types ---- */

/* A reduction, and how a switch does it: the type of elements and of sums, as in multimem.ld_reduce. */
template <int type> struct team_sum;
#define TEAM_SUM(TYPE, accumulate, text, divides_)                                                                     \
    template <> struct team_sum<COLLET_##TYPE> : reduction<COLLET_##TYPE, COLLET_SUM> {                                \
        enum { in_teams = 1, divides = divides_, team_unroll = 4 };                                                    \
        BLOCK_METHOD void team_load(block_vector *to, const char *from) {                                              \
            (void)to, (void)from;                                                                                      \
            TEAM_ASM("multimem.ld_reduce.relaxed.sys.global.add" accumulate ".v4" text " {%0, %1, %2, %3}, [%4];"      \
                     : "=r"(to->x), "=r"(to->y), "=r"(to->z), "=r"(to->w)                                              \
                     : "l"(from));                                                                                     \
        }                                                                                                              \
        BLOCK_METHOD void team_load(uint32_t *to, const char *from) {                                                  \
            (void)to, (void)from;                                                                                      \
            TEAM_ASM("multimem.ld_reduce.relaxed.sys.global.add" accumulate text " %0, [%1];"                          \
                     : "=r"(*to)                                                                                       \
                     : "l"(from));                                                                                     \
        }                                                                                                              \
    };
TEAM_SUM(FLOAT32, "", ".f32", 1)
TEAM_SUM(FLOAT16, ".acc::f32", ".f16x2", 0)
TEAM_SUM(BFLOAT16, ".acc::f32", ".bf16x2", 0)

#endif
