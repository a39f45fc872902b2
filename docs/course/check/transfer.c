/* SPDX-License-Identifier: Apache-2.0
 *
 * Lab 9: one transfer, made the way that a line of lab9/ways says. Two processes; prints the milliseconds of a round, the best of five.
 *
 *    rank 0, the writer                          rank 1, the owner: a window
 *    │ 0 │gap│ 1 │gap│ …            ─────▶        │ 0 │gap│ 1 │gap│ …
 *
 *    transfer KEY=VALUE…
 *        blocks=N block=BYTES gap=BYTES offset=BYTES     where the blocks lie, at both ends
 *        call=put|transfer       a put for each block, or one transfer
 *        wait=each|end           a flush after each block (call=put), or one at the end
 *        prepare=each|once       the transfer is prepared in each round, or once
 *        register=each|once      the window is registered in each round, or once
 *        memory=malloc|shared    of malloc(), or of collet_mem_alloc()
 *        compute=none|after|during    the writer computes for some milliseconds: when the transfer is over, or while it is under way
 *        owner=busy|free         the owner's CPU has other work, or none
 */
#include "collet.h"

#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call) check((call), #call)
#define ROUNDS 5
#define COMPUTE_S 0.03

static void check(enum collet_result result, const char *call) {
    if (result == COLLET_SUCCESS)
        return;
    fprintf(stderr, "lab 9: %s: %s: %s\n", call, collet_error_string(result), collet_last_error(NULL));
    exit(1);
}

struct way {
    size_t blocks, block, gap, offset;
    int waits_each, prepares_each, registers_each; /* 0: once */
    int by_transfer, shared, computes_during, owner_is_busy;
    int computes;
};

struct end {
    const struct way *way;
    struct collet_comm *comm;
    struct collet_window *window;
    struct collet_transfer *transfer; /* rank 0, call=transfer */
    int rank;
    size_t bytes;
    char *memory;
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static size_t place(const struct way *way, size_t block) { return way->offset + block * (way->block + way->gap); }

/* ---- the two ends ---- */

static void get_memory(struct end *end) {
    end->bytes = place(end->way, end->way->blocks);
    if (end->way->shared)
        CHECK(collet_mem_alloc((void **)(void *)&end->memory, end->bytes, COLLET_DEVICE_HOST));
    else if ((end->memory = malloc(end->bytes)) == NULL)
        exit(1);
    memset(end->memory, 0, end->bytes);
}

static void prepare(struct end *end) {
    const struct way *way = end->way;
    struct collet_local_piece *local = calloc(way->blocks, sizeof *local);
    struct collet_remote_piece *remote = calloc(way->blocks, sizeof *remote);
    if (local == NULL || remote == NULL)
        exit(1);
    for (size_t k = 0; k < way->blocks; k++) {
        local[k] = (struct collet_local_piece){end->memory + place(way, k), way->block};
        remote[k] = (struct collet_remote_piece){end->window, place(way, k), way->block};
    }
    CHECK(collet_transfer_prepare(COLLET_TRANSFER_PUT, local, remote, way->blocks, 1, end->comm, &end->transfer));
    free(local);
    free(remote);
}

static void open_window(struct end *end) {
    CHECK(collet_win_register(end->comm, end->memory, end->bytes, &end->window));
}

static void close_window(struct end *end) {
    CHECK(collet_transfer_release(end->transfer));
    end->transfer = NULL;
    CHECK(collet_win_deregister(end->comm, end->window));
}

/* ---- one round ---- */

static void compute(void) {
    for (const double end_s = now_s() + COMPUTE_S; now_s() < end_s;)
        ;
}

static void put_all(const struct end *end) {
    const struct way *way = end->way;
    for (size_t k = 0; k < way->blocks; k++) {
        CHECK(collet_put(end->memory + place(way, k), way->block, 1, end->window, place(way, k), end->comm, NULL));
        if (way->waits_each)
            CHECK(collet_win_flush(1, end->window, end->comm, NULL));
    }
    CHECK(collet_win_flush(1, end->window, end->comm, NULL));
}

static void write_all(struct end *end) {
    const struct way *way = end->way;
    if (!way->by_transfer) {
        put_all(end);
        return;
    }
    if (end->transfer == NULL)
        prepare(end);
    CHECK(collet_transfer_post(end->transfer, NULL, 0, NULL));
    if (way->computes_during)
        compute();
    CHECK(collet_transfer_wait(end->transfer));
    if (way->prepares_each) {
        CHECK(collet_transfer_release(end->transfer));
        end->transfer = NULL;
    }
}

static double run_round(struct end *end) {
    const struct way *way = end->way;
    CHECK(collet_barrier(end->comm, NULL));
    const double begin_s = now_s();
    if (way->registers_each)
        open_window(end);
    if (end->rank == 0)
        write_all(end);
    if (end->rank == 0 && way->computes && !way->computes_during)
        compute();
    if (way->registers_each)
        close_window(end);
    const double time_s = now_s() - begin_s;
    CHECK(collet_barrier(end->comm, NULL));
    return time_s;
}

/* ---- all of it ---- */

static int count_wrong(const struct end *end, int round) {
    for (size_t k = 0; k < end->way->blocks; k++)
        for (size_t i = 0; i < end->way->block; i++)
            if (end->memory[place(end->way, k) + i] != (char)(k + (size_t)round))
                return 1;
    return 0;
}

static int run(struct end *end) {
    double best_s = 1e9;
    int32_t wrong = 0;
    get_memory(end);
    if (!end->way->registers_each)
        open_window(end);
    for (int round = 1; round <= ROUNDS; round++) {
        for (size_t k = 0; end->rank == 0 && k < end->way->blocks; k++)
            memset(end->memory + place(end->way, k), (char)(k + (size_t)round), end->way->block);
        const double time_s = run_round(end);
        best_s = time_s < best_s ? time_s : best_s;
        wrong += end->rank == 1 && count_wrong(end, round);
    }
    CHECK(collet_allreduce(&wrong, &wrong, 1, COLLET_INT32, COLLET_SUM, end->comm, NULL));
    if (!end->way->registers_each)
        close_window(end);
    if (end->rank == 0)
        printf("%.2f\n", best_s * 1e3);
    CHECK(collet_comm_destroy(end->comm));
    return wrong != 0;
}

/* Other work for this process's CPU: children that want it all the time, until this process ends. */
static void make_busy(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    for (int k = 0; k < 4; k++)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                ;
        }
}

static int run_as(const struct way *way, int rank, struct collet_unique_id id) {
    struct end end = {.way = way, .rank = rank};
    if (rank == 1 && way->owner_is_busy)
        make_busy();
    CHECK(rank < 0 ? collet_comm_init_from_env(&end.comm, NULL) : collet_comm_init_rank(&end.comm, 2, id, rank));
    CHECK(collet_comm_rank(end.comm, &end.rank));
    return run(&end);
}

/* ---- the line ---- */

static int is(const char *word, const char *key, const char *value) {
    const size_t length = strlen(key);
    return strncmp(word, key, length) == 0 && strcmp(word + length, value) == 0;
}

/* One of two values. */
static int reads_choice(const char *word, const char *key, const char *zero, const char *one, int *choice) {
    if (!is(word, key, zero) && !is(word, key, one))
        return 0;
    *choice = is(word, key, one);
    return 1;
}

static int reads_number(const char *word, const char *key, size_t *number) {
    const size_t length = strlen(key);
    char *rest;
    if (strncmp(word, key, length) != 0)
        return 0;
    *number = strtoull(word + length, &rest, 10);
    return rest != word + length && *rest == '\0';
}

static int reads(const char *word, struct way *way) {
    if (reads_choice(word, "compute=", "after", "during", &way->computes_during))
        return way->computes = 1;
    return reads_number(word, "blocks=", &way->blocks) || reads_number(word, "block=", &way->block) ||
           reads_number(word, "gap=", &way->gap) || reads_number(word, "offset=", &way->offset) ||
           reads_choice(word, "call=", "put", "transfer", &way->by_transfer) ||
           reads_choice(word, "wait=", "end", "each", &way->waits_each) ||
           reads_choice(word, "prepare=", "once", "each", &way->prepares_each) ||
           reads_choice(word, "register=", "once", "each", &way->registers_each) ||
           reads_choice(word, "memory=", "malloc", "shared", &way->shared) ||
           reads_choice(word, "owner=", "free", "busy", &way->owner_is_busy) || strcmp(word, "compute=none") == 0;
}

int main(int argc, char **argv) {
    struct way way = {.blocks = 4000, .block = 4096, .by_transfer = 1, .shared = 1};
    for (int k = 1; k < argc; k++)
        if (!reads(argv[k], &way)) {
            fprintf(stderr, "lab 9: %s: no key that docs/course/check/transfer.c knows, or none of its values\n",
                    argv[k]);
            return 2;
        }
    struct collet_unique_id id = {{0}};
    if (getenv("RANK") != NULL) /* the two hosts of the wrong network */
        return run_as(&way, -1, id);
    CHECK(collet_get_unique_id(&id));
    const pid_t owner = fork();
    if (owner == 0)
        _exit(run_as(&way, 1, id));
    const int failed = run_as(&way, 0, id);
    int status = 1;
    waitpid(owner, &status, 0);
    return failed || status != 0;
}
