/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of bad input: for each call of collet.h, one row per argument that can be wrong. A row is refused with its code and
 * its word, alone and in a group, whose end repeats it. Nothing is written, and the communicators go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collet.h"

#include <limits.h>
#include <string.h>

/* Rank 1 of 2. Elements are int32; a block is 2 of them. */
struct input {
    struct collet_comm *comm;
    int32_t in[16], out[16];
    size_t counts[2], fewer[2], none[2], huge[2], ahead[2], same[2];
    struct collet_unique_id id, no_id;
    struct collet_comm *made;
    struct collet_stream *no_stream;
};

#define BAD COLLET_ERR_INVALID_ARGUMENT
#define USAGE COLLET_ERR_INVALID_USAGE
#define I COLLET_INT32
#define NO_TYPE ((enum collet_type)99)
#define NO_OP ((enum collet_op)77)
#define SUM COLLET_SUM

/* X(code, word of the text, call). Calls that a group collects: */
#define COLLECTED(X)                                                                                                   \
    X(BAD, "comm is NULL", collet_allreduce(b.in, b.out, 2, I, SUM, NULL, NULL))                                       \
    X(BAD, "sendbuff is NULL", collet_allreduce(NULL, b.out, 2, I, SUM, b.comm, NULL))                                 \
    X(BAD, "recvbuff is NULL", collet_allreduce(b.in, NULL, 2, I, SUM, b.comm, NULL))                                  \
    X(BAD, "count is", collet_allreduce(b.in, b.out, SIZE_MAX, I, SUM, b.comm, NULL))                                  \
    X(BAD, "type is 99", collet_allreduce(b.in, b.out, 2, NO_TYPE, SUM, b.comm, NULL))                                 \
    X(BAD, "op is 77", collet_allreduce(b.in, b.out, 2, I, NO_OP, b.comm, NULL))                                       \
    X(BAD, "overlap", collet_allreduce(b.out + 1, b.out, 2, I, SUM, b.comm, NULL))                                     \
    X(BAD, "no host stream", collet_allreduce(b.in, b.out, 2, I, SUM, b.comm, b.no_stream))                            \
    X(BAD, "comm is NULL", collet_gather(b.in, b.out, 2, I, 0, NULL, NULL))                                            \
    X(BAD, "sendbuff is NULL", collet_gather(NULL, b.out, 2, I, 0, b.comm, NULL))                                      \
    X(BAD, "recvbuff is NULL", collet_gather(b.in, NULL, 2, I, 1, b.comm, NULL))                                       \
    X(BAD, "sendcount is", collet_gather(b.in, b.out, SIZE_MAX, I, 0, b.comm, NULL))                                   \
    X(BAD, "sendcount is", collet_gather(b.in, b.out, SIZE_MAX / 8, I, 0, b.comm, NULL))                               \
    X(BAD, "type is 99", collet_gather(b.in, b.out, 2, NO_TYPE, 0, b.comm, NULL))                                      \
    X(BAD, "root is 2", collet_gather(b.in, b.out, 2, I, 2, b.comm, NULL))                                             \
    X(BAD, "root is -1", collet_gather(b.in, b.out, 2, I, -1, b.comm, NULL))                                           \
    X(BAD, "must be this rank's block", collet_gather(b.out, b.out, 2, I, 1, b.comm, NULL))                            \
    X(BAD, "overlap", collet_gather(b.out + 3, b.out, 2, I, 1, b.comm, NULL))                                          \
    X(BAD, "no host stream", collet_gather(b.in, b.out, 2, I, 0, b.comm, b.no_stream))                                 \
    X(BAD, "comm is NULL", collet_scatter(b.in, b.out, 2, I, 0, NULL, NULL))                                           \
    X(BAD, "sendbuff is NULL", collet_scatter(NULL, b.out, 2, I, 1, b.comm, NULL))                                     \
    X(BAD, "recvbuff is NULL", collet_scatter(b.in, NULL, 2, I, 0, b.comm, NULL))                                      \
    X(BAD, "recvcount is", collet_scatter(b.in, b.out, SIZE_MAX, I, 0, b.comm, NULL))                                  \
    X(BAD, "recvcount is", collet_scatter(b.in, b.out, SIZE_MAX / 8, I, 0, b.comm, NULL))                              \
    X(BAD, "type is 99", collet_scatter(b.in, b.out, 2, NO_TYPE, 0, b.comm, NULL))                                     \
    X(BAD, "root is 2", collet_scatter(b.in, b.out, 2, I, 2, b.comm, NULL))                                            \
    X(BAD, "root is -1", collet_scatter(b.in, b.out, 2, I, -1, b.comm, NULL))                                          \
    X(BAD, "must be this rank's block", collet_scatter(b.out, b.out, 2, I, 1, b.comm, NULL))                           \
    X(BAD, "overlap", collet_scatter(b.out, b.out + 1, 2, I, 1, b.comm, NULL))                                         \
    X(BAD, "no host stream", collet_scatter(b.in, b.out, 2, I, 0, b.comm, b.no_stream))                                \
    X(BAD, "comm is NULL", collet_barrier(NULL, NULL))                                                                 \
    X(BAD, "no host stream", collet_barrier(b.comm, b.no_stream))                                                      \
    X(BAD, "comm is NULL", collet_allgatherv(b.in, 2, b.out, b.counts, NULL, I, NULL, NULL))                           \
    X(BAD, "sendbuff is NULL", collet_allgatherv(NULL, 2, b.out, b.counts, NULL, I, b.comm, NULL))                     \
    X(BAD, "sendcount is 1, but recvcounts[1] is 2",                                                                   \
      collet_allgatherv(b.in, 1, b.out, b.counts, NULL, I, b.comm, NULL))                                              \
    X(BAD, "recvbuff is NULL", collet_allgatherv(b.in, 2, NULL, b.counts, NULL, I, b.comm, NULL))                      \
    X(BAD, "recvcounts is NULL", collet_allgatherv(b.in, 2, b.out, NULL, NULL, I, b.comm, NULL))                       \
    X(BAD, "recvcounts[0] is", collet_allgatherv(b.in, 2, b.out, b.huge, NULL, I, b.comm, NULL))                       \
    X(BAD, "recvcounts[1] is 2, from", collet_allgatherv(b.in, 2, b.out, b.counts, b.ahead, I, b.comm, NULL))          \
    X(BAD, "two blocks over element 2", collet_allgatherv(b.in, 2, b.out, b.counts, b.same, I, b.comm, NULL))          \
    X(BAD, "type is 99", collet_allgatherv(b.in, 2, b.out, b.counts, NULL, NO_TYPE, b.comm, NULL))                     \
    X(BAD, "must be this rank's block", collet_allgatherv(b.out, 2, b.out, b.counts, NULL, I, b.comm, NULL))           \
    X(BAD, "no host stream", collet_allgatherv(b.in, 2, b.out, b.counts, NULL, I, b.comm, b.no_stream))                \
    X(BAD, "comm is NULL", collet_reducescatterv(b.in, b.out, b.counts, I, SUM, NULL, NULL))                           \
    X(BAD, "sendbuff is NULL", collet_reducescatterv(NULL, b.out, b.counts, I, SUM, b.comm, NULL))                     \
    X(BAD, "recvbuff is NULL", collet_reducescatterv(b.in, NULL, b.counts, I, SUM, b.comm, NULL))                      \
    X(BAD, "recvcounts is NULL", collet_reducescatterv(b.in, b.out, NULL, I, SUM, b.comm, NULL))                       \
    X(BAD, "recvcounts[0] is", collet_reducescatterv(b.in, b.out, b.huge, I, SUM, b.comm, NULL))                       \
    X(BAD, "type is 99", collet_reducescatterv(b.in, b.out, b.counts, NO_TYPE, SUM, b.comm, NULL))                     \
    X(BAD, "op is 77", collet_reducescatterv(b.in, b.out, b.counts, I, NO_OP, b.comm, NULL))                           \
    X(BAD, "must be this rank's block", collet_reducescatterv(b.out, b.out, b.counts, I, SUM, b.comm, NULL))           \
    X(BAD, "no host stream", collet_reducescatterv(b.in, b.out, b.counts, I, SUM, b.comm, b.no_stream))                \
    X(BAD, "comm is NULL", collet_alltoallv(b.in, b.counts, NULL, b.out, b.counts, NULL, I, NULL, NULL))               \
    X(BAD, "sendbuff is NULL", collet_alltoallv(NULL, b.counts, NULL, b.out, b.counts, NULL, I, b.comm, NULL))         \
    X(BAD, "recvbuff is NULL", collet_alltoallv(b.in, b.counts, NULL, NULL, b.counts, NULL, I, b.comm, NULL))          \
    X(BAD, "sendcounts is NULL", collet_alltoallv(b.in, NULL, NULL, b.out, b.counts, NULL, I, b.comm, NULL))           \
    X(BAD, "recvcounts is NULL", collet_alltoallv(b.in, b.counts, NULL, b.out, NULL, NULL, I, b.comm, NULL))           \
    X(BAD, "sendcounts[0] is", collet_alltoallv(b.in, b.huge, NULL, b.out, b.counts, NULL, I, b.comm, NULL))           \
    X(BAD, "recvcounts[0] is", collet_alltoallv(b.in, b.counts, NULL, b.out, b.huge, NULL, I, b.comm, NULL))           \
    X(BAD, "sendcounts[1] is 2, but recvcounts[1] is 1",                                                               \
      collet_alltoallv(b.in, b.counts, NULL, b.out, b.fewer, NULL, I, b.comm, NULL))                                   \
    X(BAD, "sendcounts[1] is", collet_alltoallv(b.in, b.counts, b.ahead, b.out, b.counts, NULL, I, b.comm, NULL))      \
    X(BAD, "recvcounts[1] is", collet_alltoallv(b.in, b.counts, NULL, b.out, b.counts, b.ahead, I, b.comm, NULL))      \
    X(BAD, "two blocks over", collet_alltoallv(b.in, b.counts, NULL, b.out, b.counts, b.same, I, b.comm, NULL))        \
    X(BAD, "type is 99", collet_alltoallv(b.in, b.counts, NULL, b.out, b.counts, NULL, NO_TYPE, b.comm, NULL))         \
    X(BAD, "must be apart", collet_alltoallv(b.out, b.counts, NULL, b.out, b.counts, NULL, I, b.comm, NULL))           \
    X(BAD, "no host stream", collet_alltoallv(b.in, b.counts, NULL, b.out, b.counts, NULL, I, b.comm, b.no_stream))    \
    X(BAD, "comm is NULL", collet_send(b.in, 2, I, 0, NULL, NULL))                                                     \
    X(BAD, "sendbuff is NULL", collet_send(NULL, 2, I, 0, b.comm, NULL))                                               \
    X(BAD, "peer is 2", collet_send(b.in, 2, I, 2, b.comm, NULL))                                                      \
    X(BAD, "no host stream", collet_send(b.in, 2, I, 0, b.comm, b.no_stream))                                          \
    X(BAD, "comm is NULL", collet_recv(b.out, 2, I, 0, NULL, NULL))                                                    \
    X(BAD, "recvbuff is NULL", collet_recv(NULL, 2, I, 0, b.comm, NULL))                                               \
    X(BAD, "peer is -1", collet_recv(b.out, 2, I, -1, b.comm, NULL))                                                   \
    X(BAD, "no host stream", collet_recv(b.out, 2, I, 0, b.comm, b.no_stream))                                         \
    X(BAD, "comm is NULL", collet_probe(&peer, NULL, NULL))                                                            \
    X(BAD, "peer is NULL", collet_probe(NULL, b.comm, NULL))                                                           \
    X(BAD, "no host stream", collet_probe(&peer, b.comm, b.no_stream))                                                 \
    X(BAD, "comm is NULL", collet_comm_split(NULL, 0, 0, &b.made, NULL))                                               \
    X(BAD, "color is -2", collet_comm_split(b.comm, -2, 0, &b.made, NULL))                                             \
    X(BAD, "newcomm is NULL", collet_comm_split(b.comm, 0, 0, NULL, NULL))                                             \
    X(BAD, "config.size", collet_comm_split(b.comm, 0, 0, &b.made, &no_size))                                          \
    X(BAD, "config.device", collet_comm_split(b.comm, 0, 0, &b.made, &no_device))                                      \
    X(BAD, "comm is NULL", collet_comm_shrink(NULL, &zero, 1, &b.made, NULL))                                          \
    X(BAD, "exclude_ranks is NULL", collet_comm_shrink(b.comm, NULL, 1, &b.made, NULL))                                \
    X(BAD, "count -1", collet_comm_shrink(b.comm, &zero, -1, &b.made, NULL))                                           \
    X(BAD, "exclude_ranks[0] is 2", collet_comm_shrink(b.comm, &two, 1, &b.made, NULL))                                \
    X(BAD, "newcomm is NULL", collet_comm_shrink(b.comm, &zero, 1, NULL, NULL))                                        \
    X(BAD, "config.size", collet_comm_shrink(b.comm, &zero, 1, &b.made, &no_size))                                     \
    X(BAD, "comm is NULL", collet_comm_grow(NULL, 3, &b.id, &b.made, NULL))                                            \
    X(BAD, "nranks is 2", collet_comm_grow(b.comm, 2, &b.id, &b.made, NULL))                                           \
    X(BAD, "newcomm is NULL", collet_comm_grow(b.comm, 3, &b.id, NULL, NULL))                                          \
    X(BAD, "not a unique id", collet_comm_grow(b.comm, 3, &b.no_id, &b.made, NULL))                                    \
    X(BAD, "config.size", collet_comm_grow(b.comm, 3, &b.id, &b.made, &no_size))                                       \
    X(BAD, "comm is NULL", collet_comm_init_rank_scalable(NULL, 2, 0, 1, &b.id, NULL))                                 \
    X(BAD, "nranks is 0", collet_comm_init_rank(&b.made, 0, b.id, 0))                                                  \
    X(BAD, "nranks is 2000000000: 1", collet_comm_init_rank(&b.made, 2000000000, b.id, 0))                             \
    X(BAD, "nranks is 2000000000: 1", collet_comm_init_rank_config(&b.made, 2000000000, b.id, 0, NULL))                \
    X(BAD, "nranks is 2000000000: 1", collet_comm_init_rank_scalable(&b.made, 2000000000, 0, 1, &b.id, NULL))          \
    X(BAD, "nranks is 2000000000: 1", collet_comm_grow(b.comm, 2000000000, &b.id, &b.made, NULL))                      \
    X(BAD, "nranks is 1048577: 1", collet_comm_init_rank(&b.made, 1048577, b.id, 0))                                   \
    X(BAD, "rank is 2", collet_comm_init_rank_scalable(&b.made, 2, 2, 1, &b.id, NULL))                                 \
    X(BAD, "nids is 0", collet_comm_init_rank_scalable(&b.made, 2, 0, 0, &b.id, NULL))                                 \
    X(BAD, "nids is 3", collet_comm_init_rank_scalable(&b.made, 2, 0, 3, &b.id, NULL))                                 \
    X(BAD, "ids is NULL", collet_comm_init_rank_scalable(&b.made, 2, 0, 1, NULL, NULL))                                \
    X(BAD, "not a unique id", collet_comm_init_rank_scalable(&b.made, 2, 0, 1, &b.no_id, NULL))                        \
    X(BAD, "config.size", collet_comm_init_rank_scalable(&b.made, 2, 0, 1, &b.id, &no_size))

/* Calls that groups do not know: */
#define AT_ONCE(X)                                                                                                     \
    X(BAD, "stream is NULL", collet_stream_create(NULL))                                                               \
    X(BAD, "no host stream", collet_stream_synchronize(NULL))                                                          \
    X(BAD, "no host stream", collet_stream_synchronize(b.no_stream))                                                   \
    X(BAD, "no host stream", collet_stream_query(NULL))                                                                \
    X(BAD, "no host stream", collet_stream_query(b.no_stream))                                                         \
    X(BAD, "no host stream", collet_stream_destroy(b.no_stream))                                                       \
    X(BAD, "no host stream", collet_stream_record(NULL, &work))                                                        \
    X(BAD, "no host stream", collet_stream_record(b.no_stream, &work))                                                 \
    X(BAD, "no host stream", collet_test(work, &two))                                                                  \
    X(BAD, "no host stream", collet_wait(work))                                                                        \
    X(BAD, "op is NULL", collet_op_create_premul_sum(NULL, &two, I, COLLET_SCALAR_HOST, b.comm))                       \
    X(BAD, "scalar is NULL", collet_op_create_premul_sum(&op, NULL, I, COLLET_SCALAR_HOST, b.comm))                    \
    X(BAD, "type is 99", collet_op_create_premul_sum(&op, &two, NO_TYPE, COLLET_SCALAR_HOST, b.comm))                  \
    X(BAD, "residence is 5", collet_op_create_premul_sum(&op, &two, I, (enum collet_residence)5, b.comm))              \
    X(BAD, "comm is NULL", collet_op_create_premul_sum(&op, &two, I, COLLET_SCALAR_HOST, NULL))                        \
    X(BAD, "op is 77", collet_op_destroy(NO_OP, b.comm))                                                               \
    X(BAD, "comm is NULL", collet_op_destroy(SUM, NULL))                                                               \
    X(BAD, "memory is NULL", collet_mem_alloc(NULL, 8, COLLET_DEVICE_HOST))                                            \
    X(BAD, "bytes is 0", collet_mem_alloc(&memory, 0, COLLET_DEVICE_HOST))                                             \
    X(BAD, "device", collet_mem_alloc(&memory, 8, -2))                                                                 \
    X(BAD, "collet_mem_alloc", collet_mem_free(b.in))                                                                  \
    X(BAD, "comm is NULL", collet_comm_register(NULL, b.in, 8, &registration))                                         \
    X(BAD, "buff is NULL", collet_comm_register(b.comm, NULL, 8, &registration))                                       \
    X(BAD, "bytes is", collet_comm_register(b.comm, b.in, 0, &registration))                                           \
    X(BAD, "bytes is", collet_comm_register(b.comm, b.in, SIZE_MAX, &registration))                                    \
    X(BAD, "registration is NULL", collet_comm_register(b.comm, b.in, 8, NULL))                                        \
    X(BAD, "comm is NULL", collet_comm_deregister(NULL, (struct collet_registration *)b.in))                           \
    X(BAD, "registration", collet_comm_deregister(b.comm, (struct collet_registration *)b.in))                         \
    X(BAD, "comm is NULL", collet_win_register(NULL, b.in, 8, &window))                                                \
    X(BAD, "buff is NULL", collet_win_register(b.comm, NULL, 8, &window))                                              \
    X(BAD, "window is NULL", collet_win_register(b.comm, b.in, 8, NULL))                                               \
    X(BAD, "comm is NULL", collet_win_deregister(NULL, NULL))                                                          \
    X(BAD, "none of this communicator's", collet_win_deregister(b.comm, (struct collet_window *)b.in))                 \
    X(BAD, "comm is NULL", collet_put(b.in, 8, 0, NULL, 0, NULL, NULL))                                                \
    X(BAD, "peer is 2", collet_put(b.in, 8, 2, NULL, 0, b.comm, NULL))                                                 \
    X(BAD, "window is NULL", collet_put(b.in, 8, 0, NULL, 0, b.comm, NULL))                                            \
    X(BAD, "comm is NULL", collet_signal(0, NULL, NULL, NULL))                                                         \
    X(BAD, "peer is -1", collet_signal(-1, NULL, b.comm, NULL))                                                        \
    X(BAD, "window is NULL", collet_signal(0, NULL, b.comm, NULL))                                                     \
    X(BAD, "comm is NULL", collet_wait_signal(0, 1, NULL, NULL, NULL))                                                 \
    X(BAD, "peer is 2", collet_wait_signal(2, 1, NULL, b.comm, NULL))                                                  \
    X(BAD, "window is NULL", collet_wait_signal(0, 1, NULL, b.comm, NULL))                                             \
    X(BAD, "no host stream", collet_wait_for(work, 1))                                                                 \
    X(BAD, "comm is NULL", collet_comm_revoke(NULL))                                                                   \
    X(BAD, "no communicator", collet_comm_revoke((struct collet_comm *)b.no_stream))                                   \
    X(BAD, "id is NULL", collet_get_unique_id(NULL))                                                                   \
    X(BAD, "comms is NULL", collet_comm_init_all(NULL, 2, NULL))                                                       \
    X(BAD, "nranks is 0", collet_comm_init_all(&b.made, 0, NULL))                                                      \
    X(BAD, "nranks is 2000000000: 1", collet_comm_init_all(&b.made, 2000000000, NULL))

static const size_t one_and_two[2] = {1, 2};

static void input_create(struct input *b, struct collet_comm **comms) {
    static uint64_t nothing[64];
    *b = (struct input){.in = {1, 2, 3, 4}, .counts = {2, 2}, .fewer = {1, 1}, .huge = {SIZE_MAX / 8, 2}};
    memcpy(b->same, one_and_two, sizeof(b->same)); /* block 1 begins inside of block 0 */
    b->ahead[1] = SIZE_MAX - 1;
    b->no_stream = (struct collet_stream *)nothing;
    assert_int_equal(collet_get_unique_id(&b->id), COLLET_SUCCESS);
    assert_int_equal(collet_comm_init_all(comms, 2, NULL), COLLET_SUCCESS);
    b->comm = comms[1];
}

static void input_check_and_destroy(struct input *b, struct collet_comm **comms) {
    int32_t sums[2] = {0}, ones[2] = {1, 1};
    for (int k = 0; k < 16; k++)
        assert_int_equal(b->out[k], 0);
    assert_null(b->made);
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int r = 0; r < 2; r++)
        assert_int_equal(collet_allreduce(&ones[r], &sums[r], 1, I, SUM, comms[r], NULL), COLLET_SUCCESS);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    assert_true(sums[0] == 2 && sums[1] == 2);
    for (int r = 0; r < 2; r++)
        assert_int_equal(collet_comm_destroy(comms[r]), COLLET_SUCCESS);
}

static void expect(enum collet_result result, enum collet_result expected, const char *word, const char *call) {
    if (result != expected)
        fail_msg("%s returned %d, not %d: %s", call, (int)result, (int)expected, collet_last_error(NULL));
    if (strstr(collet_last_error(NULL), word) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", call, collet_last_error(NULL), word);
}

static const int zero, two = 2;
static int peer;
static const struct collet_config no_size;
static const struct collet_config no_device = {.size = sizeof(no_device), .device = -2};

static void each_bad_argument_of_calls_is_named(void **state) {
    (void)state;
    struct input b;
    struct collet_comm *comms[2];
    input_create(&b, comms);
#define ALONE(code, word, call) expect(call, code, word, #call);
    COLLECTED(ALONE)
    input_check_and_destroy(&b, comms);
}

static void each_bad_argument_ends_its_group(void **state) {
    (void)state;
    struct input b;
    struct collet_comm *comms[2];
    input_create(&b, comms);
#define GROUPED(code, word, call)                                                                                      \
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);                                                            \
    assert_int_equal(collet_allreduce(b.in, b.out, 2, I, SUM, b.comm, NULL), COLLET_SUCCESS);                          \
    expect(call, code, word, #call);                                                                                   \
    expect(collet_group_end(), code, word, "the end of a group with " #call);
    COLLECTED(GROUPED)
    input_check_and_destroy(&b, comms);
}

static void each_bad_argument_of_other_functions_is_named(void **state) {
    (void)state;
    struct input b;
    struct collet_comm *comms[2];
    struct collet_work work = {NULL, 0};
    struct collet_registration *registration;
    struct collet_window *window;
    enum collet_op op;
    void *memory;
    int two = 2;
    input_create(&b, comms);
    AT_ONCE(ALONE)
    input_check_and_destroy(&b, comms);
}

/* In another order than that of ranks, and with gaps. */
static void blocks_may_be_received_in_any_order(void **state) {
    (void)state;
    struct collet_comm *comms[2];
    const size_t counts[2] = {2, 2}, at[2] = {4, 1};
    int32_t in[2][2] = {{5, 6}, {7, 8}}, out[2][8] = {{0}};
    assert_int_equal(collet_comm_init_all(comms, 2, NULL), COLLET_SUCCESS);
    assert_int_equal(collet_group_start(), COLLET_SUCCESS);
    for (int r = 0; r < 2; r++)
        assert_int_equal(collet_allgatherv(in[r], 2, out[r], counts, at, I, comms[r], NULL), COLLET_SUCCESS);
    assert_int_equal(collet_group_end(), COLLET_SUCCESS);
    for (int r = 0; r < 2; r++) {
        assert_memory_equal(out[r], ((const int32_t[8]){0, 7, 8, 0, 5, 6, 0, 0}), sizeof(out[r]));
        assert_int_equal(collet_comm_destroy(comms[r]), COLLET_SUCCESS);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_bad_argument_of_calls_is_named),
        cmocka_unit_test(each_bad_argument_ends_its_group),
        cmocka_unit_test(each_bad_argument_of_other_functions_is_named),
        cmocka_unit_test(blocks_may_be_received_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
