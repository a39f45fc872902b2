/* SPDX-License-Identifier: Apache-2.0
 *
 * What a block has in shared memory, and how steps and connection ends come there.
 *
 *    struct block_memory (shared by the lanes)
 *      op, worker    as in worker.h; only lane 0 writes them
 *      own           what the block runs
 *      window        the next steps of the program; a ring of 4096 ranks has many times as many
 *      home          where the connection ends are in the GPU's memory
 *      ends          copies of them: their positions move here and return at the end. Of a table of more peers than find room
 *                    here, those of a step, from step to step
 *      lists         operands and places of the step in Simple
 *      words         words that lanes have received, in LL
 *      untold        the step whose counters are not stored yet, in Simple
 */
#ifndef COLLET_KERNELS_CUDA_BLOCK_MEMORY_CUH
#define COLLET_KERNELS_CUDA_BLOCK_MEMORY_CUH

#include "kernels/cuda/block_loans.cuh"
#include "kernels/cuda/block_team.cuh"

#define BLOCK_WINDOW_STEPS 64u
#define BLOCK_LANES_MAX 512u

/* The ends of a step whose counters are not stored yet. */
struct block_untold {
    int32_t recv_first, recv_count, send_first, send_count;
};

struct block_memory : interp_block {
    struct work_block own;
    struct interp_lends lends;
    uint32_t lent; /* number of slots of this call whose payload was lent */
    struct block_team team;
    uint32_t window_first; /* of the worker's steps */
    struct prog_step window[BLOCK_WINDOW_STEPS];
    struct fifo_end *home[2 * INTERP_BLOCK_PEERS];
    uint64_t began_at[2 * INTERP_BLOCK_PEERS]; /* positions of the ends at the beginning of the call */
    struct block_untold untold;
    uint64_t words[BLOCK_LANES_MAX]; /* [lane] the word that it has received (block_few.cuh) */
    uint32_t stops;                  /* 1: a lane has found a reason to end the call, so all lanes stop waiting */
};

/* The memory of the block that runs. On a GPU its address is a constant, so the compiler knows the address of everything in it. */
#if defined(__CUDACC__)
static __shared__ struct block_memory block_shared;
#endif
BLOCK_FN struct block_memory *block_own(struct block_memory *m) {
#if defined(__CUDA_ARCH__)
    return &block_shared;
#else
    return m;
#endif
}

/* ---- copies, by all lanes: neighbours copy neighbouring words, so the words of all are on their way at once ---- */

template <class W> BLOCK_FN W word_at(const void *from, uint32_t k) {
    W word;
    memcpy(&word, __builtin_assume_aligned((const char *)from + k * sizeof(W), sizeof(W)), sizeof(W));
    return word;
}

template <class W> BLOCK_FN void word_put(void *to, uint32_t k, W word) {
    memcpy(__builtin_assume_aligned((char *)to + k * sizeof(W), sizeof(W)), &word, sizeof(W));
}

/* ---- ends ---- */

/* Entries of the peer table whose ends are in shared memory at a time: all, or those of a step. */
struct block_company {
    uint32_t recv_first, nrecv, send_first, nsend;
};

BLOCK_FN bool ends_fit(const struct work_block *own) { return own->npeers <= INTERP_BLOCK_PEERS; }

BLOCK_FN struct block_company company_of_all(const struct work_block *own) {
    uint32_t n = ends_fit(own) ? own->npeers : 0;
    return {0, n, 0, n};
}

/* A step has no more peers than find room here: the host refuses other programs (layers/gpu/gpu_program.c). */
BLOCK_FN struct block_company company_of_step(const struct prog_step *step) {
    return {(uint32_t)step->recv_first, (uint32_t)step->recv_count, (uint32_t)step->send_first,
            (uint32_t)step->send_count};
}

/* The place in shared memory of the k-th end of a company. */
BLOCK_FN uint32_t company_place(const struct block_company *c, uint32_t k) {
    return k < c->nrecv ? k : INTERP_BLOCK_PEERS + k - c->nrecv;
}

BLOCK_FN uint16_t place_at(uint32_t place) { return (uint16_t)(place * sizeof(struct interp_end)); }

/* A peer may stand in the table more than once, as part of several companies. Returns the first place of its end. */
BLOCK_FN uint32_t first_of_end(const struct block_memory *m, uint32_t place) {
    uint32_t first = place < INTERP_BLOCK_PEERS ? 0 : INTERP_BLOCK_PEERS;
    while (m->home[first] != m->home[place])
        first++;
    return first;
}

/* Called by all lanes. Notes where the ends are in the GPU's memory. */
BLOCK_FN void ends_find(struct block_memory *m, const struct work_block *own, const struct block_company *c) {
#pragma unroll 1
    for (uint32_t k = port_lane(); k < c->nrecv + c->nsend; k += port_lanes()) {
        uint32_t entry = k < c->nrecv ? c->recv_first + k : own->npeers + c->send_first + k - c->nrecv;
        m->home[company_place(c, k)] = *(struct fifo_end *const *)port_global(&own->ends[entry]);
    }
    if (port_lane() == 0) {
        m->recv_base = c->recv_first;
        m->send_base = c->send_first;
    }
}

/* Called by all lanes, after a barrier. Copies each end once. */
BLOCK_SELDOM void ends_take(struct block_memory *m, struct block_company c) {
    const uint32_t position = offsetof(struct fifo_end, position) / sizeof(uint64_t), n = c.nrecv + c.nsend;
    m = block_own(m);
#pragma unroll 1
    for (uint32_t k = port_lane(); k < n; k += port_lanes()) {
        uint32_t place = company_place(&c, k);
        m->at[place] = m->home[place] != NULL ? place_at(first_of_end(m, place)) : INTERP_NO_END;
    }
#pragma unroll 1
    for (uint32_t k = port_lane(); k < n * INTERP_END_WORDS; k += port_lanes()) {
        uint32_t place = company_place(&c, k / INTERP_END_WORDS), word = k % INTERP_END_WORDS;
        if (m->home[place] == NULL)
            continue;
        m->ends[place].words[word] = word_at<uint64_t>(port_global(m->home[place]), word);
        if (word == position)
            m->began_at[place] =
                m->ends[place]
                    .words[word]; /* not the position in the GPU's memory: another block may just have changed it */
    }
}

/* Has the end a new position? Then it is this worker's. Any other end may be in use by another block. */
BLOCK_FN bool end_has_moved(struct block_memory *m, uint32_t place) {
    return m->at[place] == place_at(place) && interp_block_end(m, m->at[place])->position != m->began_at[place];
}

BLOCK_SELDOM void ends_return(struct block_memory *m, struct block_company c) {
    m = block_own(m);
#pragma unroll 1
    for (uint32_t k = port_lane(); k < (c.nrecv + c.nsend) * INTERP_END_WORDS; k += port_lanes()) {
        uint32_t place = company_place(&c, k / INTERP_END_WORDS), word = k % INTERP_END_WORDS;
        if (end_has_moved(m, place))
            word_put((void *)port_global(m->home[place]), word, m->ends[place].words[word]);
    }
}

/* ---- steps ---- */

/* Called by all lanes, between two barriers. */
BLOCK_FN void window_load(struct block_memory *m, uint32_t first) {
    const uint32_t words = sizeof(struct prog_step) / sizeof(uint32_t);
    const void *from = port_global(m->own.steps + first);
    uint32_t nsteps = m->own.nsteps - first;
    if (nsteps > BLOCK_WINDOW_STEPS)
        nsteps = BLOCK_WINDOW_STEPS;
#pragma unroll 1
    for (uint32_t k = port_lane(); k < nsteps * words; k += port_lanes())
        word_put(m->window, k, word_at<uint32_t>(from, k));
    if (port_lane() == 0)
        m->window_first = first;
}

/* Called by all lanes. Before it loads the next steps, all lanes have finished the steps before: a barrier ended each of them. */
BLOCK_FN const struct prog_step *step_at(struct block_memory *m, uint32_t pc) {
    uint32_t first = pc / BLOCK_WINDOW_STEPS * BLOCK_WINDOW_STEPS;
    if (m->window_first != first) {
        port_sync();
        window_load(m, first);
        port_sync();
    }
    return &m->window[pc - first];
}

#endif
