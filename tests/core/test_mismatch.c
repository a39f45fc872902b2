/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that call different things: no hang and no crash, but an error on every rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fair.h"
#include "common/level.h"
#include "common/whole.h"
#include "common/world.h"

#include <stdlib.h>
#include <string.h>

#define NOTICE_MS 5000
#define COUNT_MAX 70000
#define BUFFER_BYTES (COUNT_MAX * 8u * 4u) /* any of the calls below fits, with 4 ranks */

/* What rank 1 calls, and what all others call. */
struct call {
    enum { ALLREDUCE, ALLGATHER, REDUCESCATTER, BROADCAST, SEND_RECV } what;
    size_t count;
    enum collet_type type;
    enum collet_op op;
    int root;
};

struct difference {
    struct call usual, odd;
    bool may_go_unnoticed; /* or be noticed as a timeout only */
};

static enum collet_result make_multiplied_sum(const struct call *call, int rank, char *in, char *out,
                                              struct collet_comm *comm) {
    enum collet_op op;
    float scalar = (float)rank; /* scalars may differ */
    enum collet_result result = collet_op_create_premul_sum(&op, &scalar, call->type, COLLET_SCALAR_HOST, comm);
    return result != COLLET_SUCCESS ? result : collet_allreduce(in, out, call->count, call->type, op, comm, NULL);
}

static enum collet_result make_call(const struct call *call, int rank, int nranks, char *in, char *out,
                                    struct collet_comm *comm) {
    if (call->op == COLLET_PREMULSUM)
        return make_multiplied_sum(call, rank, in, out, comm);
    switch (call->what) {
    case ALLREDUCE: return collet_allreduce(in, out, call->count, call->type, call->op, comm, NULL);
    case ALLGATHER: return collet_allgather(in, out, call->count, call->type, comm, NULL);
    case REDUCESCATTER: return collet_reducescatter(in, out, call->count, call->type, call->op, comm, NULL);
    case BROADCAST: return collet_broadcast(in, out, call->count, call->type, call->root, comm, NULL);
    case SEND_RECV: break;
    }
    collet_group_start();
    collet_send(in, call->count, call->type, (rank + 1) % nranks, comm, NULL);
    collet_recv(out, call->count, call->type, (rank + nranks - 1) % nranks, comm, NULL);
    return collet_group_end();
}

/* Has this rank called often enough? A rank that only sends cannot know at once: over tcp it runs ahead until the news comes, or
 * until the kernel takes no more. */
static bool is_enough(const struct difference *difference, int ncalls, uint64_t start_ns) {
    bool patient = !difference->may_go_unnoticed && fair_since_ns(start_ns) < NOTICE_MS * 1000000ull;
    return ncalls > 50 && !patient;
}

/* The calls after the first must fail everywhere. */
static void call_differently(struct ranks *ranks, int rank) {
    const struct difference *difference = ranks->argument;
    const struct call *call = rank == 1 ? &difference->odd : &difference->usual;
    struct collet_config config = {.size = sizeof(config), .timeout_ms = difference->may_go_unnoticed ? 3000 : 30000};
    struct collet_comm *comm = ranks_comm(ranks, rank, &config);
    char *in = calloc(1, BUFFER_BYTES), *out = calloc(1, BUFFER_BYTES);
    enum collet_result result, state;
    ranks_barrier(ranks);
    uint64_t start_ns = ranks_now_ns();
    int ncalls = 1;
    while ((result = make_call(call, rank, ranks->nranks, in, out, comm)) == COLLET_SUCCESS &&
           !is_enough(difference, ncalls, start_ns))
        ncalls++;
    if (fair_since_ns(start_ns) > NOTICE_MS * 1000000ull)
        ranks_fail(ranks, "rank %d: noticed too late: %s", rank, collet_last_error(NULL));
    bool unnoticed = result == COLLET_SUCCESS || result == COLLET_ERR_TIMEOUT;
    if (!(difference->may_go_unnoticed && unnoticed))
        ranks_expect(ranks, rank, result, COLLET_ERR_MISMATCH, "a call that differs");
    ranks_check(ranks, rank, result == COLLET_SUCCESS || strstr(collet_last_error(NULL), "rank") != NULL);
    ranks_try(ranks, rank, collet_comm_get_async_error(comm, &state));
    ranks_check(ranks, rank, state == result || result == COLLET_SUCCESS);
    ranks_barrier(
        ranks); /* an unnoticed difference leaves ranks at different places: no rank goes on before all are here */
    ranks_try(ranks, rank, collet_comm_destroy(comm));
    free(in);
    free(out);
}

static const char *const simple[] = {"COLLET_PROTO", "Simple", NULL};
static const char *const ll[] = {"COLLET_PROTO", "LL", NULL};

static void differ(struct call usual, struct call odd) {
    struct difference difference = {.usual = usual, .odd = odd};
    world_run_all(0, 2, simple, call_differently, &difference);
    if (level_now() == LEVEL_FAST)
        return;
    world_run(&worlds[WORLD_SHM], 3, simple, call_differently, &difference);
    world_run(&worlds[WORLD_TCP], 3, simple, call_differently, &difference);
}

/* Lines of LL carry no header. Ranks whose calls have the same shape do not notice that they mean different things. */
static void differ_in_ll(struct call usual, struct call odd) {
    struct difference difference = {.usual = usual, .odd = odd, .may_go_unnoticed = true};
    world_run(&worlds[WORLD_SHM], 2, ll, call_differently, &difference);
}

#define F32 COLLET_FLOAT32

static void counts_differ(void **state) {
    (void)state;
    differ((struct call){ALLREDUCE, 100, F32, COLLET_SUM, 0}, (struct call){ALLREDUCE, 99, F32, COLLET_SUM, 0});
}

static void counts_differ_in_length_of_rounds(void **state) {
    (void)state;
    differ((struct call){ALLREDUCE, COUNT_MAX, F32, COLLET_SUM, 0}, (struct call){ALLREDUCE, 10, F32, COLLET_SUM, 0});
}

static void types_differ_in_size(void **state) {
    (void)state;
    differ((struct call){ALLREDUCE, 500, F32, COLLET_SUM, 0},
           (struct call){ALLREDUCE, 500, COLLET_FLOAT64, COLLET_SUM, 0});
}

static void types_of_one_size_differ(void **state) {
    (void)state;
    differ((struct call){ALLREDUCE, 500, F32, COLLET_SUM, 0},
           (struct call){ALLREDUCE, 500, COLLET_INT32, COLLET_SUM, 0});
}

static void ops_differ(void **state) {
    (void)state;
    differ((struct call){ALLREDUCE, 500, F32, COLLET_SUM, 0}, (struct call){ALLREDUCE, 500, F32, COLLET_MAX, 0});
}

static void only_one_multiplies(void **state) {
    (void)state;
    if (!library_is_whole)
        skip();
    differ((struct call){ALLREDUCE, 500, F32, COLLET_SUM, 0}, (struct call){ALLREDUCE, 500, F32, COLLET_PREMULSUM, 0});
}

static void collectives_differ(void **state) {
    (void)state;
    differ((struct call){ALLREDUCE, 5000, F32, COLLET_SUM, 0}, (struct call){ALLGATHER, 5000, F32, COLLET_SUM, 0});
    differ((struct call){ALLGATHER, 5000, F32, COLLET_SUM, 0}, (struct call){REDUCESCATTER, 5000, F32, COLLET_SUM, 0});
}

static void roots_differ(void **state) {
    (void)state;
    differ((struct call){BROADCAST, 500, F32, COLLET_SUM, 0}, (struct call){BROADCAST, 500, F32, COLLET_SUM, 1});
}

static void lengths_of_a_message_differ(void **state) {
    (void)state;
    differ((struct call){SEND_RECV, 500, F32, COLLET_SUM, 0}, (struct call){SEND_RECV, 400, F32, COLLET_SUM, 0});
    differ((struct call){SEND_RECV, 0, F32, COLLET_SUM, 0}, (struct call){SEND_RECV, COUNT_MAX, F32, COLLET_SUM, 0});
}

static void in_ll_nothing_hangs_or_crashes(void **state) {
    (void)state;
    differ_in_ll((struct call){ALLREDUCE, 100, F32, COLLET_SUM, 0}, (struct call){ALLREDUCE, 99, F32, COLLET_SUM, 0});
    differ_in_ll((struct call){ALLREDUCE, 500, F32, COLLET_SUM, 0}, (struct call){ALLREDUCE, 500, F32, COLLET_MAX, 0});
    differ_in_ll((struct call){ALLREDUCE, 5000, F32, COLLET_SUM, 0}, (struct call){ALLGATHER, 500, F32, COLLET_SUM, 0});
}

int main(void) {
    const struct CMUnitTest essentials[] = {
        cmocka_unit_test(counts_differ),
        cmocka_unit_test(ops_differ),
        cmocka_unit_test(lengths_of_a_message_differ),
    };
    const struct CMUnitTest others[] = {
        cmocka_unit_test(counts_differ_in_length_of_rounds),
        cmocka_unit_test(types_differ_in_size),
        cmocka_unit_test(types_of_one_size_differ),
        cmocka_unit_test(only_one_multiplies),
        cmocka_unit_test(collectives_differ),
        cmocka_unit_test(roots_differ),
        cmocka_unit_test(in_ll_nothing_hangs_or_crashes),
    };
    int failed = cmocka_run_group_tests(essentials, NULL, NULL);
    return level_now() == LEVEL_FAST ? failed : failed + cmocka_run_group_tests(others, NULL, NULL);
}
