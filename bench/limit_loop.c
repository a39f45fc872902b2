/* SPDX-License-Identifier: Apache-2.0
 *
 * The limit: what the bytes that a collective must move cost if nothing else is done. All buffers lie in memory that all ranks share. Each
 * rank moves its part, at the same time as the others. Nobody waits for anybody, nobody says that data is there, and nothing is copied twice.
 *
 *   pull        a rank reads what it must get where the owner has just written it, and writes it to its own OUT
 *   push, -w    a rank writes what others must get into their OUT
 *
 *                   each rank reads, of a buffer of S bytes among n ranks
 *   allreduce       a slice of all n inputs, which it sums, and n−1 slices of the result         S + (n−1)/n · S
 *   allgather       all blocks                                                                   S
 *   reducescatter   its block of all n inputs, which it sums                                     S
 *   alltoall        its block of all n inputs                                                    S
 *   broadcast       what the root has                                                            S
 *   reduce          a slice of all n inputs, which it sums; the root the n−1 other slices too    S, S + (n−1)/n · S
 *
 * Nobody waits for sums, so results are not those of the collective; the bytes are. A library cannot be faster than the faster one of the two
 * ways, but for the loops themselves (memcpy, and a sum of vectors).
 */
#define _GNU_SOURCE
#include "loop.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SUM_ELEMS 1024 /* a part of a sum, which stays in the nearest cache while all inputs are added */

/* Equal elements of two buffers lie at different places of their pages: else they would compete for the same sets of a cache. */
#define STAGGER_BYTES 704

struct moving {
    struct board *board;
    int rank, nranks;
    bool pushes;
    float *buffers; /* of all ranks: IN of rank 0, OUT of rank 0, IN of rank 1 … */
    size_t each;    /* elements of each */
    int taken;      /* buffers that the loop has taken so far */
};

static float *in_of(const struct moving *m, int rank) { return m->buffers + 2 * (size_t)rank * m->each; }
static float *out_of(const struct moving *m, int rank) { return in_of(m, rank) + m->each; }

/* The k-th rank behind this one, so that not all begin at the same. */
static int behind(const struct moving *m, int k) { return (m->rank + k) % m->nranks; }

static void copy(float *to, const float *from, size_t count) { memcpy(to, from, count * sizeof(float)); }

/* A barrier that does not sleep: the last one to arrive begins a new multiple of the number of ranks. */
static void align(void *state) {
    struct board *board = ((struct moving *)state)->board;
    unsigned ranks = (unsigned)board->nranks;
    unsigned mine = __atomic_fetch_add(&board->spinning, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&board->spinning, __ATOMIC_ACQUIRE) / ranks == mine / ranks)
        sched_yield();
}

/* ---- sums ---- */

/* With the widest vectors of the CPU that it runs on: they have the most lines of other caches under way. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif
typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));
#define LANES (sizeof(lanes) / sizeof(float))

WIDEST static void sum_two(float *to, const float *a, const float *b, size_t count) {
    size_t k = 0;
    for (; k + LANES <= count; k += LANES)
        *(lanes *)(to + k) = *(const lanes *)(a + k) + *(const lanes *)(b + k);
    for (; k < count; k++)
        to[k] = a[k] + b[k];
}

/* Elements `first` … of all inputs, a part at a time. */
static void sum_all(const struct moving *m, float *to, size_t first, size_t count) {
    for (size_t at = 0; at < count; at += SUM_ELEMS) {
        size_t now = count - at < SUM_ELEMS ? count - at : SUM_ELEMS;
        const float *sum = in_of(m, m->rank) + first + at;
        for (int k = 1; k < m->nranks; k++, sum = to + at)
            sum_two(to + at, sum, in_of(m, behind(m, k)) + first + at, now);
    }
}

static size_t slice(const struct moving *m, int rank, size_t count) { return count * (size_t)rank / (size_t)m->nranks; }

/* ---- the collectives ---- */

static void allgather(void *state, const float *in, float *out, size_t count) {
    const struct moving *m = state;
    for (int k = 0; k < m->nranks; k++) {
        int peer = behind(m, k);
        if (m->pushes)
            copy(out_of(m, peer) + (size_t)m->rank * count, in, count);
        else
            copy(out + (size_t)peer * count, in_of(m, peer), count);
    }
}

static void alltoall(void *state, const float *in, float *out, size_t count) {
    const struct moving *m = state;
    for (int k = 0; k < m->nranks; k++) {
        int peer = behind(m, k);
        if (m->pushes)
            copy(out_of(m, peer) + (size_t)m->rank * count, in + (size_t)peer * count, count);
        else
            copy(out + (size_t)peer * count, in_of(m, peer) + (size_t)m->rank * count, count);
    }
}

static void reducescatter(void *state, const float *in, float *out, size_t count) {
    const struct moving *m = state;
    (void)in;
    sum_all(m, out, (size_t)m->rank * count, count);
}

static void broadcast(void *state, const float *in, float *out, size_t count) {
    const struct moving *m = state;
    (void)in;
    for (int peer = 1; peer < m->nranks && m->pushes && m->rank == 0; peer++)
        copy(out_of(m, peer), out, count);
    if (!m->pushes && m->rank != 0)
        copy(out, out_of(m, 0), count);
}

/* The sum of this rank's slice goes to a rank's OUT; then that rank gets, or is given, the slices of all others. */
static void sum_slice(const struct moving *m, float *out, size_t count) {
    size_t first = slice(m, m->rank, count);
    sum_all(m, out + first, first, slice(m, m->rank + 1, count) - first);
}

/* This rank copies the slices from the inputs of the others, and not from their results: a reader of a result would slow down the rank
 * that still writes it. An input lies in its owner's cache, as a result would. */
static void pull_slices(const struct moving *m, float *out, size_t count) {
    for (int k = 1; k < m->nranks; k++) {
        int peer = behind(m, k);
        size_t first = slice(m, peer, count);
        copy(out + first, in_of(m, peer) + first, slice(m, peer + 1, count) - first);
    }
}

static void allreduce(void *state, const float *in, float *out, size_t count) {
    const struct moving *m = state;
    size_t first = slice(m, m->rank, count), own = slice(m, m->rank + 1, count) - first;
    (void)in;
    sum_slice(m, out, count);
    for (int k = 1; k < m->nranks && m->pushes; k++)
        copy(out_of(m, behind(m, k)) + first, out + first, own);
    if (!m->pushes)
        pull_slices(m, out, count);
}

static void reduce(void *state, const float *in, float *out, size_t count) {
    const struct moving *m = state;
    (void)in;
    sum_slice(m, m->pushes ? out_of(m, 0) : out, count);
    if (!m->pushes && m->rank == 0)
        pull_slices(m, out, count);
}

/* ---- buffers ---- */

/* The loop takes IN, then OUT, and returns both before it takes others. */
static void *take(void *state, size_t bytes) {
    struct moving *m = state;
    (void)bytes;
    return m->taken++ % 2 == 0 ? in_of(m, m->rank) : out_of(m, m->rank);
}

static void give_back(void *state, void *buffer) { (void)state, (void)buffer; }

static void map_buffers(struct moving *m, const struct loop_options *options) {
    size_t most = 0, page = 4096;
    for (int k = 0; k < options->nsizes; k++)
        most = options->sizes[k] > most ? options->sizes[k] : most;
    m->each = ((most + page - 1) / page * page + page + STAGGER_BYTES) / sizeof(float);
    size_t bytes = 2 * (size_t)options->nranks * m->each * sizeof(float);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        bench_die("no %zu bytes of shared memory: %s", bytes, strerror(errno));
    m->buffers = memory;
}

int main(int argc, char **argv) {
    struct loop_options options = loop_options_read(argc, argv);
    struct moving m = {.nranks = options.nranks, .pushes = options.pushes};
    map_buffers(&m, &options);
    m.board = board_fork(options.nranks, options.pinned, &m.rank);
    const struct loop_library library = {
        .state = &m,
        .align = align,
        .calls = {allreduce, allgather, reducescatter, alltoall, broadcast, reduce},
        .unchecked = true,
        .allocate = take,
        .release = give_back,
    };
    loop_run(&options, &library, m.board, m.rank);
    if (m.rank == 0)
        board_join(m.board);
    return 0;
}
