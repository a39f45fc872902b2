/* SPDX-License-Identifier: Apache-2.0
 *
 * Bad input of the calls that move data, and of groups: every one is refused with a text that names the argument.
 */
#include "common/api_case.h"
#include "common/fair.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------------------------------- overlapping buffers */

static void assert_overlap(enum collet_result result) {
    assert_int_equal(result, COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(collet_last_error(NULL), "sendbuff (0x"));
    assert_non_null(strstr(collet_last_error(NULL), "recvbuff (0x"));
}

static void buffers_that_overlap_are_refused_unless_the_call_is_in_place(void **state) {
    (void)state;
    struct collet_comm *comms[2];
    float x[16] = {0};
    const enum collet_type f = COLLET_FLOAT32;
    assert_success(collet_comm_init_all(comms, 2, NULL));
    struct collet_comm *one = comms[1]; /* rank 1 of 2 */
    assert_overlap(collet_allreduce(x, x + 1, 4, f, COLLET_SUM, one, NULL));
    assert_overlap(collet_allreduce(x + 3, x, 4, f, COLLET_SUM, one, NULL));
    assert_overlap(collet_allgather(x, x, 4, f, one, NULL));     /* that is rank 0's block */
    assert_overlap(collet_allgather(x + 7, x, 4, f, one, NULL)); /* half behind the last block */
    assert_overlap(collet_reducescatter(x, x, 4, f, COLLET_SUM, one, NULL));
    assert_overlap(collet_reducescatter(x, x + 5, 4, f, COLLET_SUM, one, NULL));
    assert_overlap(collet_alltoall(x, x, 4, f, one, NULL));
    assert_overlap(collet_alltoall(x, x + 7, 4, f, one, NULL));
    assert_overlap(collet_broadcast(x, x + 1, 4, f, 1, one, NULL));
    assert_overlap(collet_reduce(x, x + 1, 4, f, COLLET_SUM, 1, one, NULL));
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_comm_destroy(comms[rank]));
}

/* Both ranks make these calls, each group of which is one call. */
static void buffers_that_touch_or_lie_in_place_are_accepted(void **state) {
    (void)state;
    struct collet_comm *comms[2];
    float x[2][16] = {{0}};
    const enum collet_type f = COLLET_FLOAT32;
    assert_success(collet_comm_init_all(comms, 2, NULL));
    for (int call = 0; call < 7; call++) {
        assert_success(collet_group_start());
        for (int rank = 0; rank < 2; rank++) {
            struct collet_comm *comm = comms[rank];
            float *b = x[rank];
            enum collet_result results[] = {
                call == 0 ? collet_allreduce(b, b, 4, f, COLLET_SUM, comm, NULL) : COLLET_SUCCESS,
                call == 1 ? collet_allreduce(b, b + 4, 4, f, COLLET_SUM, comm, NULL) : COLLET_SUCCESS,
                call == 2 ? collet_allgather(b + 4 * rank, b, 4, f, comm, NULL) : COLLET_SUCCESS,
                call == 3 ? collet_reducescatter(b, b + 4 * rank, 4, f, COLLET_SUM, comm, NULL) : COLLET_SUCCESS,
                call == 4 ? collet_alltoall(b, b + 8, 4, f, comm, NULL) : COLLET_SUCCESS,
                /* A rank that is not the root may pass anything for the buffer that it does not use. */
                call == 5 ? collet_broadcast(rank == 0 ? b : b + 1, b, 4, f, 0, comm, NULL) : COLLET_SUCCESS,
                call == 6 ? collet_reduce(b, rank == 0 ? b : b + 1, 4, f, COLLET_SUM, 0, comm, NULL) : COLLET_SUCCESS};
            assert_success(results[call]);
        }
        assert_success(collet_group_end());
    }
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_comm_destroy(comms[rank]));
}

/* ---------------------------------------------------------------------------------------------------------------- calls */

/* All calls that move data, in one shape. */
static void every_call_names_its_bad_argument(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    struct collet_comm *comm = p.comms[0];
    const enum collet_type F = COLLET_FLOAT32;
    for (int call = 0; call < CALLS; call++) {
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, COLLET_SUM, 0, NULL, NULL), "comm");
        assert_bad_argument(any_call(call, p.in, p.out, 2, (enum collet_type)99, COLLET_SUM, 0, comm, NULL), "type");
        assert_bad_argument(any_call(call, p.in, p.out, 2, (enum collet_type) - 1, COLLET_SUM, 0, comm, NULL), "type");
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, COLLET_SUM, 0, comm, p.in), "stream");
        assert_bad_argument(any_call(call, p.in, p.out, SIZE_MAX, F, COLLET_SUM, 0, comm, NULL), "count");
        assert_bad_argument(any_call(call, p.in, p.out, SIZE_MAX / 4 + 1, F, COLLET_SUM, 0, comm, NULL), "count");
        assert_bad_argument(any_call(call, p.in, p.out, SIZE_MAX / 4, F, COLLET_SUM, 0, comm, NULL), "count");
        assert_bad_argument(any_call(call, p.in, p.out, SIZE_MAX, COLLET_UINT8, COLLET_SUM, 0, comm, NULL), "count");
        if (call != RECV)
            assert_bad_argument(any_call(call, NULL, p.out, 2, F, COLLET_SUM, 0, comm, NULL), "sendbuff");
        if (call != SEND)
            assert_bad_argument(any_call(call, p.in, NULL, 2, F, COLLET_SUM, 0, comm, NULL), "recvbuff");
    }
    for (int call = 0; call < REDUCTIONS; call++) {
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, (enum collet_op)99, 0, comm, NULL), "op");
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, (enum collet_op) - 1, 0, comm, NULL), "op");
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, COLLET_OP_COUNT, 0, comm, NULL), "op");
        assert_bad_argument(any_call(call, p.in, p.out, 2, F, COLLET_BAND, 0, comm, NULL), "op is band");
        assert_bad_argument(any_call(call, p.in, p.out, 2, COLLET_FLOAT8_E4M3, COLLET_BXOR, 0, comm, NULL), "f8e4m3");
    }
    pair_check_and_destroy(&p);
}

static void operators_are_of_one_communicator_and_one_type(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    enum collet_op ours, theirs;
    float two = 2;
    struct collet_comm *comm = p.comms[0];
    assert_bad_argument(collet_op_create_premul_sum(NULL, &two, COLLET_FLOAT32, COLLET_SCALAR_HOST, comm),
                        "op is NULL");
    assert_bad_argument(collet_op_create_premul_sum(&ours, NULL, COLLET_FLOAT32, COLLET_SCALAR_HOST, comm), "scalar");
    assert_bad_argument(collet_op_create_premul_sum(&ours, &two, COLLET_TYPE_COUNT, COLLET_SCALAR_HOST, comm), "type");
    assert_bad_argument(collet_op_create_premul_sum(&ours, &two, COLLET_FLOAT32, (enum collet_residence)2, comm),
                        "residence");
    assert_bad_argument(collet_op_create_premul_sum(&ours, &two, COLLET_FLOAT32, COLLET_SCALAR_HOST, NULL), "comm");
    assert_success(collet_op_create_premul_sum(&ours, &two, COLLET_FLOAT32, COLLET_SCALAR_HOST, comm));
    assert_success(collet_op_create_premul_sum(&theirs, &two, COLLET_FLOAT32, COLLET_SCALAR_HOST, p.comms[1]));
    assert_bad_argument(collet_allreduce(p.in, p.out, 2, COLLET_FLOAT32, theirs, comm, NULL),
                        "not created on this communicator");
    assert_bad_argument(collet_allreduce(p.in, p.out, 2, COLLET_INT32, ours, comm, NULL), "created for type float");
    assert_bad_argument(collet_allreduce(p.in, p.out, 2, COLLET_FLOAT32, COLLET_PREMULSUM, comm, NULL), "create one");
    assert_bad_argument(collet_op_destroy(theirs, comm), "op");
    assert_bad_argument(collet_op_destroy(COLLET_SUM, comm), "op");
    assert_success(collet_op_destroy(ours, comm));
    assert_bad_argument(collet_op_destroy(ours, comm), "op");
    assert_bad_argument(collet_allreduce(p.in, p.out, 2, COLLET_FLOAT32, ours, comm, NULL), "op");
    pair_check_and_destroy(&p); /* with an operator that nobody has destroyed */
}

/* One scalar is read when the operator is created, one when the call runs. */
static void scalars_are_read_when_they_are_said_to_be(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    enum collet_op ops[2];
    float scalars[2] = {2, 3}, out[2][4];
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_op_create_premul_sum(&ops[rank], &scalars[rank], COLLET_FLOAT32,
                                                   rank == 0 ? COLLET_SCALAR_HOST : COLLET_SCALAR_DEVICE,
                                                   p.comms[rank]));
    assert_success(collet_group_start());
    for (int rank = 0; rank < 2; rank++) {
        assert_success(collet_allreduce(p.in, out[rank], 4, COLLET_FLOAT32, ops[rank], p.comms[rank], NULL));
        assert_success(collet_op_destroy(ops[rank], p.comms[rank]));
    }
    scalars[0] = scalars[1] = 100;
    assert_success(collet_group_end());
    for (int i = 0; i < 4; i++)
        assert_true(out[0][i] == 102 * p.in[i] && out[1][i] == 102 * p.in[i]);
    pair_check_and_destroy(&p);
}

static void allocated_memory_is_zeroed_and_aligned_to_pages(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 4096, 100000, (2 << 20) - 1, 2 << 20, (5 << 20) + 17};
    char *memory[6];
    for (int k = 0; k < 6; k++) {
        assert_success(collet_mem_alloc((void **)&memory[k], sizes[k], COLLET_DEVICE_HOST));
        assert_int_equal((uintptr_t)memory[k] % (sizes[k] < 2 << 20 ? 4096 : 2 << 20), 0);
        for (size_t i = 0; i < sizes[k]; i++)
            assert_int_equal(memory[k][i], 0);
        memset(memory[k], 0x5a, sizes[k]);
    }
    assert_bad_argument(collet_mem_free(memory[2] + 1), "collet_mem_alloc");
    for (int k = 0; k < 6; k++)
        assert_success(collet_mem_free(memory[k]));
    assert_bad_argument(collet_mem_free(memory[2]), "freed already");
    assert_success(collet_mem_free(NULL));
}

static void allocations_that_cannot_be_are_named(void **state) {
    (void)state;
    void *memory = &memory;
    assert_bad_argument(collet_mem_alloc(NULL, 8, COLLET_DEVICE_HOST), "memory");
    assert_bad_argument(collet_mem_alloc(&memory, 0, COLLET_DEVICE_HOST), "bytes");
    assert_bad_argument(collet_mem_alloc(&memory, 8, -7), "device");
    assert_error(collet_mem_alloc(&memory, SIZE_MAX, COLLET_DEVICE_HOST), COLLET_ERR_NO_MEMORY, "bytes");
    assert_error(collet_mem_alloc(&memory, (size_t)1 << 46, COLLET_DEVICE_HOST), COLLET_ERR_NO_MEMORY, "bytes");
    assert_ptr_equal(memory, &memory);
}

static void registrations_are_of_one_communicator(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    struct collet_registration *first, *same, *inside, *theirs;
    struct collet_comm *comm = p.comms[0];
    assert_success(collet_comm_register(comm, p.in, sizeof(p.in), &first));
    assert_success(collet_comm_register(comm, p.in, sizeof(p.in), &same));
    assert_success(collet_comm_register(comm, p.in + 1, 4, &inside));
    assert_success(collet_comm_register(p.comms[1], p.in, sizeof(p.in), &theirs));
    assert_true(first != same);
    assert_bad_argument(collet_comm_register(comm, NULL, 4, &first), "buff");
    assert_bad_argument(collet_comm_register(comm, p.in, 0, &first), "bytes");
    assert_bad_argument(collet_comm_register(comm, p.in, SIZE_MAX, &first), "bytes");
    assert_bad_argument(collet_comm_register(comm, p.in, 4, NULL), "registration");
    assert_bad_argument(collet_comm_register(NULL, p.in, 4, &first), "comm");
    assert_bad_argument(collet_comm_deregister(comm, theirs), "registration");
    assert_success(collet_comm_deregister(comm, first));
    assert_bad_argument(collet_comm_deregister(comm, first), "registration");
    assert_success(collet_comm_deregister(comm, same));
    assert_success(collet_comm_deregister(comm, NULL));
    pair_check_and_destroy(&p); /* with registrations that nobody has ended */
}

static void roots_and_peers_outside_the_communicator_are_named(void **state) {
    (void)state;
    static const int outside[] = {-1, 2, 1000000, INT32_MIN};
    struct pair p;
    pair_create(&p);
    for (size_t k = 0; k < sizeof(outside) / sizeof(*outside); k++)
        for (int call = 0; call < CALLS; call++) {
            const char *name = call == SEND || call == RECV ? "peer" : "root";
            if (call == REDUCE || call == BROADCAST || call == SEND || call == RECV)
                assert_bad_argument(
                    any_call(call, p.in, p.out, 2, COLLET_FLOAT32, COLLET_SUM, outside[k], p.comms[1], NULL), name);
        }
    pair_check_and_destroy(&p);
}

static void counts_that_overflow_only_times_ranks_are_refused(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    size_t count = SIZE_MAX / 8 + 1; /* times 2 ranks, 4 bytes */
    for (int call = 0; call < CALLS; call++)
        if (call == REDUCESCATTER || call == ALLGATHER || call == ALLTOALL)
            assert_bad_argument(any_call(call, p.in, p.out, count, COLLET_FLOAT32, COLLET_SUM, 0, p.comms[0], NULL),
                                "count");
    pair_check_and_destroy(&p);
}

static void alltoall_in_place_is_refused(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    assert_bad_argument(collet_alltoall(p.in, p.in, 2, COLLET_FLOAT32, p.comms[0], NULL), "recvbuff");
    pair_check_and_destroy(&p);
}

static void a_count_of_0_needs_no_buffers(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    for (int call = 0; call < SEND; call++) /* alone, without the other rank: nothing is to be moved */
        assert_success(any_call(call, NULL, NULL, 0, COLLET_FLOAT32, COLLET_SUM, 1, p.comms[0], NULL));
    assert_success(collet_group_start());
    assert_success(collet_send(NULL, 0, COLLET_FLOAT32, 1, p.comms[0], NULL));
    assert_success(collet_recv(NULL, 0, COLLET_FLOAT32, 0, p.comms[1], NULL));
    assert_success(collet_group_end());
    assert_bad_argument(collet_allreduce(NULL, NULL, 0, (enum collet_type)99, COLLET_SUM, p.comms[0], NULL), "type");
    pair_check_and_destroy(&p);
}

static void buffers_that_a_rank_does_not_use_may_be_null(void **state) {
    (void)state;
    struct pair p;
    float got[2] = {0, 0};
    pair_create(&p);
    assert_success(collet_group_start());
    assert_success(collet_broadcast(&p.in[4], &got[0], 1, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_success(collet_broadcast(NULL, &got[1], 1, COLLET_FLOAT32, 0, p.comms[1], NULL));
    assert_success(collet_group_end());
    assert_true(got[0] == 5 && got[1] == 5);
    assert_success(collet_group_start());
    assert_success(collet_reduce(&p.in[0], NULL, 1, COLLET_FLOAT32, COLLET_SUM, 1, p.comms[0], NULL));
    assert_success(collet_reduce(&p.in[1], &got[1], 1, COLLET_FLOAT32, COLLET_SUM, 1, p.comms[1], NULL));
    assert_success(collet_group_end());
    assert_true(got[1] == 3);
    pair_check_and_destroy(&p);
}

static void messages_to_oneself_need_both_ends_in_a_group(void **state) {
    (void)state;
    struct pair p;
    float got = 0;
    pair_create(&p);
    assert_bad_usage(collet_send(p.in, 1, COLLET_FLOAT32, 0, p.comms[0], NULL), "group");
    assert_bad_usage(collet_recv(&got, 1, COLLET_FLOAT32, 0, p.comms[0], NULL), "group");
    assert_success(collet_group_start());
    assert_success(collet_send(p.in, 1, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_bad_usage(collet_group_end(), "receive");
    assert_success(collet_group_start());
    assert_success(collet_recv(&got, 1, COLLET_FLOAT32, 1, p.comms[1], NULL));
    assert_bad_usage(collet_group_end(), "send");
    assert_success(collet_group_start());
    assert_success(collet_send(p.in, 2, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_success(collet_recv(&got, 1, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_error(collet_group_end(), COLLET_ERR_MISMATCH, "8 bytes");
    assert_true(got == 0);
    assert_success(collet_group_start());
    assert_success(collet_recv(&got, 4, COLLET_UINT8, 0, p.comms[0], NULL)); /* types need not be equal, bytes do */
    assert_success(collet_send(p.in + 6, 1, COLLET_FLOAT32, 0, p.comms[0], NULL));
    assert_success(collet_group_end());
    assert_true(got == 7);
    pair_check_and_destroy(&p);
}

/* --------------------------------------------------------------------------------------------------------------- groups */

static void an_end_without_a_start_is_refused(void **state) {
    (void)state;
    assert_bad_usage(collet_group_end(), "collet_group_start");
    assert_success(collet_group_start());
    assert_success(collet_group_end());
    assert_bad_usage(collet_group_end(), "collet_group_start");
}

static void groups_nest_and_may_be_empty(void **state) {
    (void)state;
    struct pair p;
    float sums[2] = {0, 0};
    pair_create(&p);
    for (int depth = 0; depth < 5; depth++)
        assert_success(collet_group_start());
    for (int depth = 0; depth < 5; depth++)
        assert_success(collet_group_end());
    assert_success(collet_group_start());
    assert_success(collet_allreduce(&p.in[0], &sums[0], 1, COLLET_FLOAT32, COLLET_SUM, p.comms[0], NULL));
    assert_success(collet_group_start());
    assert_success(collet_allreduce(&p.in[1], &sums[1], 1, COLLET_FLOAT32, COLLET_SUM, p.comms[1], NULL));
    assert_success(collet_group_end()); /* not the outermost: nothing may have run */
    assert_true(sums[0] == 0 && sums[1] == 0);
    assert_success(collet_group_end());
    assert_true(sums[0] == 3 && sums[1] == 3);
    pair_check_and_destroy(&p);
}

static void a_bad_call_poisons_its_group(void **state) {
    (void)state;
    struct pair p;
    pair_create(&p);
    assert_success(collet_group_start());
    assert_success(collet_allreduce(p.in, p.out, 4, COLLET_FLOAT32, COLLET_SUM, p.comms[0], NULL));
    assert_success(collet_group_start());
    assert_bad_argument(collet_broadcast(p.in, p.out + 4, 4, COLLET_FLOAT32, 17, p.comms[0], NULL), "root");
    assert_success(collet_group_end());
    assert_bad_argument(collet_allreduce(p.in, p.out, 4, (enum collet_type)42, COLLET_SUM, p.comms[1], NULL), "type");
    assert_success(collet_allreduce(p.in, p.out, 4, COLLET_FLOAT32, COLLET_SUM, p.comms[1], NULL));
    assert_bad_argument(collet_group_end(), "root is 17"); /* the first error, with its own text */
    pair_check_and_destroy(&p);                            /* nothing ran, and the next group is clean */
}

static void a_bad_init_poisons_its_group(void **state) {
    (void)state;
    struct collet_unique_id id;
    struct collet_comm *comms[2] = {NULL, NULL};
    assert_success(collet_get_unique_id(&id));
    assert_success(collet_group_start());
    assert_success(collet_comm_init_rank(&comms[0], 2, id, 0));
    assert_non_null(comms[0]);
    assert_bad_argument(collet_comm_init_rank(&comms[1], 2, id, 2), "rank");
    assert_bad_argument(collet_group_end(), "rank");
    assert_null(comms[0]);
    assert_null(comms[1]);
}

static void ranks_created_in_a_group_are_usable_behind_it(void **state) {
    (void)state;
    struct collet_unique_id id;
    struct pair p = {{NULL}, {1, 2}, {0}};
    assert_success(collet_get_unique_id(&id));
    assert_success(collet_group_start());
    for (int rank = 0; rank < 2; rank++)
        assert_success(collet_comm_init_rank(&p.comms[rank], 2, id, rank));
    assert_success(collet_group_end());
    pair_check_and_destroy(&p);
}

int main(void) {
    fair_alarm(100); /* nothing here takes long: a wait that does not end is a failure */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_that_overlap_are_refused_unless_the_call_is_in_place),
        cmocka_unit_test(buffers_that_touch_or_lie_in_place_are_accepted),
        cmocka_unit_test(every_call_names_its_bad_argument),
        cmocka_unit_test(operators_are_of_one_communicator_and_one_type),
        cmocka_unit_test(scalars_are_read_when_they_are_said_to_be),
        cmocka_unit_test(allocated_memory_is_zeroed_and_aligned_to_pages),
        cmocka_unit_test(allocations_that_cannot_be_are_named),
        cmocka_unit_test(registrations_are_of_one_communicator),
        cmocka_unit_test(roots_and_peers_outside_the_communicator_are_named),
        cmocka_unit_test(counts_that_overflow_only_times_ranks_are_refused),
        cmocka_unit_test(alltoall_in_place_is_refused),
        cmocka_unit_test(a_count_of_0_needs_no_buffers),
        cmocka_unit_test(buffers_that_a_rank_does_not_use_may_be_null),
        cmocka_unit_test(messages_to_oneself_need_both_ends_in_a_group),
        cmocka_unit_test(an_end_without_a_start_is_refused),
        cmocka_unit_test(groups_nest_and_may_be_empty),
        cmocka_unit_test(a_bad_call_poisons_its_group),
        cmocka_unit_test(a_bad_init_poisons_its_group),
        cmocka_unit_test(ranks_created_in_a_group_are_usable_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
