/* SPDX-License-Identifier: Apache-2.0
 *
 * Fans (src/fifo/fan.h): what a rank sends to all others of its host is written once. All other tests of collectives run over fans,
 * too, if they choose an algorithm that has such messages; here is what only fans have.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/whole.h"
#include "common/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 5

/* ---- the memory ---- */

/* How many mappings of this process have this name? */
static int mappings(const char *name) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, name) != NULL;
    if (maps != NULL)
        fclose(maps);
    return count;
}

/* A rank's own fan, and those of all others; no connection between two ranks. */
static void gather_once(struct ranks *ranks, int rank) {
    const bool fans = *(const bool *)ranks->argument;
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int mine = 100 + rank, all[RANKS];
    ranks_try(ranks, rank, collet_allgather(&mine, all, 1, COLLET_INT32, comm, NULL));
    for (int k = 0; k < RANKS; k++)
        ranks_check(ranks, rank, all[k] == 100 + k);
    ranks_check(ranks, rank, mappings("collet-fan") == (fans ? RANKS : 0));
    ranks_check(ranks, rank, mappings("collet-fifo") == (fans ? 0 : 2 * (RANKS - 1)));
    ranks_barrier(ranks);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_check(ranks, rank, mappings("collet-fan") == 0);
}

static void all_ranks_read_what_one_has_written(void **state) {
    static const char *const variables[][5] = {{"COLLET_ALGO", "direct", "COLLET_FANS", "0", NULL},
                                               {"COLLET_ALGO", "direct", NULL}};
    (void)state;
    for (int k = 0; k < 2; k++) {
        bool *fans = ranks_share(sizeof *fans);
        *fans = k == 1;
        world_run(&worlds[WORLD_SHM], RANKS, variables[k], gather_once, fans);
        ranks_unshare(fans, sizeof *fans);
    }
}

/* ---- who is slow ---- */

/* Rank 2 does not call. Rank 0 sends until all its slots are full; the others have read all of them. Its time is up first. */
static void wait_for_the_slowest(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof config, .timeout_ms = rank == 0 ? 1000 : 60000};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config);
    enum collet_result result = COLLET_SUCCESS;
    int value = rank == 0 ? 7 : 0;
    ranks_try(ranks, rank, collet_broadcast(&value, &value, 1, COLLET_INT32, 0, comm, NULL));
    for (int k = 0; k < 100 && rank != 2 && result == COLLET_SUCCESS; k++)
        result = collet_broadcast(&value, &value, 1, COLLET_INT32, 0, comm, NULL);
    if (rank == 0)
        ranks_expect(ranks, rank, result, COLLET_ERR_TIMEOUT, "a call that rank 2 does not make");
    ranks_check(ranks, rank, rank == 2 || result < 0);
    if (rank == 0 && strstr(collet_last_error(NULL), "waiting for rank 2") == NULL &&
        strstr(collet_last_error(NULL), "rank 2 has not made this call") == NULL)
        ranks_fail(ranks, "rank 2 is not named: %s", collet_last_error(NULL));
    ranks_barrier(ranks);
    collet_comm_abort(comm);
}

static void the_slowest_reader_is_named(void **state) {
    static const char *const variables[] = {"COLLET_ALGO", "direct", NULL};
    (void)state;
    world_run(&worlds[WORLD_SHM], 4, variables, wait_for_the_slowest, NULL);
    world_run(&worlds[WORLD_THREADS], 4, variables, wait_for_the_slowest, NULL);
}

/* ---- what is lent ---- */

#define LENT_ELEMS 20000
#define CALLS 6

/* IN lies where all ranks reach it, and is written anew as soon as a call returns: by then, all must have read it. */
static void rewrite_what_was_lent(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int32_t *in, *out;
    ranks_try(ranks, rank, collet_mem_alloc((void **)&in, LENT_ELEMS * sizeof *in, COLLET_DEVICE_HOST));
    ranks_try(ranks, rank, collet_mem_alloc((void **)&out, RANKS * LENT_ELEMS * sizeof *out, COLLET_DEVICE_HOST));
    for (int call = 0; call < CALLS; call++) {
        for (int k = 0; k < LENT_ELEMS; k++)
            in[k] = 1000000 * call + 100000 * rank + k;
        ranks_try(ranks, rank, collet_allgather(in, out, LENT_ELEMS, COLLET_INT32, comm, NULL));
        memset(in, 0xee, LENT_ELEMS * sizeof *in);
        for (int k = 0; k < RANKS * LENT_ELEMS; k++)
            ranks_check(ranks, rank, out[k] == 1000000 * call + 100000 * (k / LENT_ELEMS) + k % LENT_ELEMS);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    ranks_try(ranks, rank, collet_mem_free(in));
    ranks_try(ranks, rank, collet_mem_free(out));
}

static void a_lent_payload_is_the_programs_again_when_all_have_read_it(void **state) {
    static const char *const variables[] = {"COLLET_ALGO", "direct", "COLLET_PROTO", "Simple", NULL};
    (void)state;
    if (!library_is_whole) /* the core has no such memory */
        skip();
    world_run(&worlds[WORLD_SHM], RANKS, variables, rewrite_what_was_lent, NULL);
    world_run(&worlds[WORLD_THREADS], RANKS, variables, rewrite_what_was_lent, NULL);
    world_run(&worlds[WORLD_MIXED], RANKS, variables, rewrite_what_was_lent, NULL);
}

/* ---- more ranks than CPUs, and inputs that change ---- */

/* The larger buffer of a call: elements for each of up to 16 ranks. The first has lines, the others slots. */
static const size_t each_elems[] = {1, 64, 1024};
#define MOST_ELEMS ((size_t)1024 * 16)
#define TIMES 3

/* An input that differs from call to call. Sums wrap. */
static uint32_t input(int call, int rank, size_t k) { return 2654435761u * (uint32_t)(call * 64 + rank) + (uint32_t)k; }

static uint32_t sum_of(int call, int nranks, size_t k) {
    uint32_t sum = 0;
    for (int rank = 0; rank < nranks; rank++)
        sum += input(call, rank, k);
    return sum;
}

enum { ALLREDUCE, BROADCAST, ALLGATHER, REDUCESCATTER, ALLTOALL, COLLECTIVES };

static enum collet_result call_one(int collective, const uint32_t *in, uint32_t *out, size_t each, int nranks,
                                   struct collet_comm *comm) {
    switch (collective) {
    case ALLREDUCE: return collet_allreduce(in, out, each * (size_t)nranks, COLLET_UINT32, COLLET_SUM, comm, NULL);
    case BROADCAST: return collet_broadcast(in, out, each * (size_t)nranks, COLLET_UINT32, 1, comm, NULL);
    case ALLGATHER: return collet_allgather(in, out, each, COLLET_UINT32, comm, NULL);
    case REDUCESCATTER: return collet_reducescatter(in, out, each, COLLET_UINT32, COLLET_SUM, comm, NULL);
    default: return collet_alltoall(in, out, each, COLLET_UINT32, comm, NULL);
    }
}

static uint32_t wanted(int collective, int call, int rank, int nranks, size_t each, size_t k) {
    switch (collective) {
    case ALLREDUCE: return sum_of(call, nranks, k);
    case BROADCAST: return input(call, 1, k);
    case ALLGATHER: return input(call, (int)(k / each), k % each);
    case REDUCESCATTER: return sum_of(call, nranks, (size_t)rank * each + k);
    default: return input(call, (int)(k / each), (size_t)rank * each + k % each);
    }
}

/* IN is spoiled as soon as the call returns. Who reads it later gets a wrong result. */
static void call_and_spoil(struct ranks *ranks, int rank, struct collet_comm *comm, uint32_t *in, uint32_t *out,
                           int collective) {
    static int call;
    for (size_t size = 0; size < sizeof each_elems / sizeof *each_elems; size++)
        for (int time = 0; time < TIMES; time++, call++) {
            const size_t each = each_elems[size], whole = each * (size_t)ranks->nranks;
            for (size_t k = 0; k < whole; k++)
                in[k] = input(call, rank, k);
            memset(out, 0xff, whole * sizeof *out);
            ranks_try(ranks, rank, call_one(collective, in, out, each, ranks->nranks, comm));
            memset(in, 0xee, whole * sizeof *in);
            for (size_t k = 0; k < (collective == REDUCESCATTER ? each : whole); k++)
                if (out[k] != wanted(collective, call, rank, ranks->nranks, each, k))
                    ranks_fail(ranks, "rank %d: collective %d of %zu elements, call %d: element %zu is wrong", rank,
                               collective, whole, call, k);
        }
}

static void call_all(struct ranks *ranks, int rank, struct collet_comm *comm, uint32_t *in, uint32_t *out) {
    for (int collective = 0; collective < COLLECTIVES; collective++)
        call_and_spoil(ranks, rank, comm, in, out, collective);
}

/* Buffers of the program, which are copied into slots; then of the library, which peers read where they lie. */
static void crowd(struct ranks *ranks, int rank) {
    static uint32_t own[2 * MOST_ELEMS];
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    uint32_t *lent;
    call_all(ranks, rank, comm, own, own + MOST_ELEMS);
    if (library_is_whole) {
        ranks_try(ranks, rank, collet_mem_alloc((void **)&lent, sizeof own, COLLET_DEVICE_HOST));
        call_all(ranks, rank, comm, lent, lent + MOST_ELEMS);
    }
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    if (library_is_whole)
        ranks_try(ranks, rank, collet_mem_free(lent));
}

static void crowds_get_right_results_of_inputs_that_change(void **state) {
    static const char *const variables[][5] = {{NULL},
                                               {"COLLET_ALGO", "direct,oneshot", NULL},
                                               {"COLLET_ALGO", "direct,twoshot", NULL},
                                               {"COLLET_ALGO", "direct,twoshot", "COLLET_FANS", "0", NULL}};
    static const int nranks[] = {3, 5, 8, 16};
    (void)state;
    for (size_t n = 0; n < sizeof nranks / sizeof *nranks; n++)
        for (size_t k = 0; k < sizeof variables / sizeof *variables; k++)
            world_run(&worlds[WORLD_SHM], nranks[n], variables[k], crowd, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_read_what_one_has_written),
        cmocka_unit_test(the_slowest_reader_is_named),
        cmocka_unit_test(a_lent_payload_is_the_programs_again_when_all_have_read_it),
        cmocka_unit_test(crowds_get_right_results_of_inputs_that_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
