/* SPDX-License-Identifier: Apache-2.0
 *
 * kv_perf: how fast do the blocks of a key-value cache come from the rank that made them (prefill) to the rank that goes on (decode)?
 *
 *    rank 0, prefill                                     rank 1, decode: a window
 *    │ 0 │   │ 1 │   │ 2 │ …   blocks, scattered  ─────▶  │ 3 │ 0 │ … scattered in another way
 *
 *    kv_perf --procs 2                                    40,000 blocks of 8 KiB in shared memory
 *    COLLET_TRANSPORT=tcp kv_perf --procs 2               the same over tcp
 *    kv_perf --procs 2 --blocks 1000 --block 65536
 *
 * Several ways to do it, the best time of each, and every byte checked. The first way is no way for scattered blocks: it says what the link
 * gives.
 */
#include "common/job.h"

#include <stdint.h>
#include <time.h>

#define ROUNDS 5

struct cache {
    struct collet_comm *comm;
    struct collet_window *window;
    struct collet_transfer *transfer; /* rank 0: puts all blocks */
    int rank;
    size_t blocks, block_bytes;
    char *data; /* rank 0: its blocks; rank 1: its window */
};

/* ---- where blocks lie: at both ends no two neighbours are neighbours at the other end ---- */

#define STEP 7919 /* a prime */
static size_t place_here(const struct cache *cache, size_t block) {
    return (cache->blocks - 1 - block) * cache->block_bytes;
}
static size_t place_there(const struct cache *cache, size_t block) {
    return block * STEP % cache->blocks * cache->block_bytes;
}

static char byte_of(size_t block, int round) { return (char)(block * 31 + (size_t)round); }

/* ---- ways ---- */

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void by_one_put(const struct cache *cache) {
    CHECK(collet_put(cache->data, cache->blocks * cache->block_bytes, 1, cache->window, 0, cache->comm, NULL));
}

static void by_transfer(const struct cache *cache) {
    CHECK(collet_transfer_post(cache->transfer, NULL, 0, NULL));
    CHECK(collet_transfer_wait(cache->transfer));
}

static void by_puts(const struct cache *cache) {
    for (size_t k = 0; k < cache->blocks; k++)
        CHECK(collet_put(cache->data + place_here(cache, k), cache->block_bytes, 1, cache->window,
                         place_there(cache, k), cache->comm, NULL));
}

/* What not to do: each block waits for the one before to be there. */
static void one_by_one(const struct cache *cache) {
    for (size_t k = 0; k < cache->blocks; k++) {
        CHECK(collet_put(cache->data + place_here(cache, k), cache->block_bytes, 1, cache->window,
                         place_there(cache, k), cache->comm, NULL));
        CHECK(collet_win_flush(1, cache->window, cache->comm, NULL));
    }
}

static const struct way {
    const char *name;
    void (*move)(const struct cache *cache);
    int scattered;
} ways[] = {
    {"one put of all bytes (the link)", by_one_put, 0},
    {"a transfer, prepared once", by_transfer, 1},
    {"a put for each block", by_puts, 1},
    {"a put and a flush for each block", one_by_one, 1},
};

/* ---- measuring ---- */

static struct collet_transfer *prepare(const struct cache *cache) {
    struct collet_local_piece *local = calloc(cache->blocks, sizeof *local);
    struct collet_remote_piece *remote = calloc(cache->blocks, sizeof *remote);
    struct collet_transfer *transfer;
    if (local == NULL || remote == NULL) {
        fprintf(stderr, "kv_perf: no memory for a list of %zu blocks\n", cache->blocks);
        exit(1);
    }
    for (size_t k = 0; k < cache->blocks; k++) {
        local[k] = (struct collet_local_piece){cache->data + place_here(cache, k), cache->block_bytes};
        remote[k] = (struct collet_remote_piece){cache->window, place_there(cache, k), cache->block_bytes};
    }
    CHECK(collet_transfer_prepare(COLLET_TRANSFER_PUT, local, remote, cache->blocks, 1, cache->comm, &transfer));
    free(local);
    free(remote);
    return transfer;
}

static void fill(const struct cache *cache, int round) {
    for (size_t k = 0; k < cache->blocks; k++)
        memset(cache->data + place_here(cache, k), byte_of(k, round), cache->block_bytes);
}

static int64_t count_wrong(const struct cache *cache, int round, int scattered) {
    int64_t wrong = 0;
    for (size_t k = 0; k < cache->blocks; k++) {
        const char *block = cache->data + (scattered ? place_there(cache, k) : place_here(cache, k));
        for (size_t i = 0; i < cache->block_bytes; i++)
            wrong += block[i] != byte_of(k, round);
    }
    return wrong;
}

static void measure(const struct cache *cache, const struct way *way, int first_round) {
    double best_s = 1e9;
    int64_t wrong = 0;
    for (int round = first_round; round < first_round + ROUNDS; round++) {
        if (cache->rank == 0)
            fill(cache, round);
        CHECK(collet_barrier(cache->comm, NULL));
        const double begin_s = now_s();
        if (cache->rank == 0) {
            way->move(cache);
            CHECK(collet_win_flush(1, cache->window, cache->comm, NULL));
        }
        const double time_s = now_s() - begin_s;
        best_s = time_s < best_s ? time_s : best_s;
        CHECK(collet_barrier(cache->comm, NULL));
        if (cache->rank == 1)
            wrong += count_wrong(cache, round, way->scattered);
    }
    CHECK(collet_allreduce(&wrong, &wrong, 1, COLLET_INT64, COLLET_SUM, cache->comm, NULL));
    if (cache->rank == 0)
        printf("%-34s %10.2f %10.2f %8lld\n", way->name, best_s * 1e3,
               (double)(cache->blocks * cache->block_bytes) / best_s * 1e-9, (long long)wrong);
    fflush(stdout);
    if (wrong != 0)
        exit(1);
}

static void run(struct cache *cache) {
    const size_t bytes = cache->blocks * cache->block_bytes;
    CHECK(collet_mem_alloc((void **)(void *)&cache->data, bytes, COLLET_DEVICE_HOST));
    CHECK(collet_win_register(cache->comm, cache->data, bytes, &cache->window));
    if (cache->rank == 0) {
        const double begin_s = now_s();
        cache->transfer = prepare(cache);
        printf("# %zu blocks of %zu bytes, scattered, from rank 0 into the window of rank 1; best of %d\n",
               cache->blocks, cache->block_bytes, ROUNDS);
        printf("# the transfer was prepared in %.2f ms\n%-34s %10s %10s %8s\n", (now_s() - begin_s) * 1e3, "# way",
               "ms", "GB/s", "#wrong");
    }
    for (int k = 0; k < (int)(sizeof ways / sizeof *ways); k++)
        measure(cache, &ways[k], k * ROUNDS);
    CHECK(collet_transfer_release(cache->transfer));
    CHECK(collet_win_deregister(cache->comm, cache->window));
    CHECK(collet_comm_destroy(cache->comm));
    CHECK(collet_mem_free(cache->data));
}

/* ---- beginning ---- */

static void usage(int status) {
    fprintf(status == 0 ? stdout : stderr,
            "usage: kv_perf [--procs 2] [--blocks N] [--block BYTES]\n"
            "Without --procs a launcher starts the two ranks (mpirun, srun, torchrun, scripts/two-hosts.sh).\n");
    exit(status);
}

static size_t number(const char *text) {
    char *end;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*end != '\0' || value == 0 || value > 1ull << 32)
        usage(2);
    return (size_t)value;
}

int main(int argc, char **argv) {
    struct cache cache = {.blocks = 40000, .block_bytes = 8192};
    int forks = 0, nranks;
    for (int k = 1; k < argc; k += 2) {
        if (strcmp(argv[k], "--help") == 0)
            usage(0);
        if (k + 1 == argc)
            usage(2);
        const size_t value = number(argv[k + 1]);
        if (strcmp(argv[k], "--procs") == 0 && value == 2)
            forks = 1;
        else if (strcmp(argv[k], "--blocks") == 0)
            cache.blocks = value;
        else if (strcmp(argv[k], "--block") == 0)
            cache.block_bytes = value;
        else
            usage(2);
    }
    if (cache.blocks % STEP == 0) /* the places would not all be different */
        cache.blocks--;
    struct job job;
    if (forks)
        job_fork(&job, 2);
    else
        CHECK(collet_comm_init_from_env(&job.comm, NULL));
    cache.comm = job.comm;
    CHECK(collet_comm_rank(cache.comm, &cache.rank));
    CHECK(collet_comm_count(cache.comm, &nranks));
    if (nranks != 2) {
        fprintf(stderr, "kv_perf: it takes two ranks, and there are %d: add --procs 2\n", nranks);
        return 2;
    }
    run(&cache);
    return 0;
}
