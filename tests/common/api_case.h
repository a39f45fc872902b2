/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the public calls share: a call that must fail with a code and a word of its text, or must succeed.
 */
#ifndef COLLET_TESTS_API_CASE_H
#define COLLET_TESTS_API_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "collet.h"

#include <stdbool.h>
#include <string.h>

#define assert_error(call, code, word)                                                                                 \
    do {                                                                                                               \
        assert_int_equal(call, code);                                                                                  \
        if (strstr(collet_last_error(NULL), word) == NULL)                                                             \
            fail_msg("%s: \"%s\" does not name \"%s\"", #call, collet_last_error(NULL), word);                         \
    } while (0)
#define assert_bad_argument(call, word) assert_error(call, COLLET_ERR_INVALID_ARGUMENT, word)
#define assert_bad_usage(call, word) assert_error(call, COLLET_ERR_INVALID_USAGE, word)
#define assert_success(call)                                                                                           \
    do {                                                                                                               \
        enum collet_result result_ = (call);                                                                           \
        if (result_ != COLLET_SUCCESS)                                                                                 \
            fail_msg("%s returned %d: %s", #call, (int)result_, collet_last_error(NULL));                              \
    } while (0)

__attribute__((unused)) static const struct collet_config defaults = {.size = sizeof(struct collet_config)};

static inline struct collet_comm *comm_of_one(void) {
    struct collet_comm *comm;
    assert_success(collet_comm_init_all(&comm, 1, NULL));
    return comm;
}
enum { ALLREDUCE, REDUCESCATTER, REDUCE, ALLGATHER, ALLTOALL, BROADCAST, SEND, RECV, CALLS, REDUCTIONS = ALLGATHER };

/* Calls that differ in nothing but their collective. */
static inline enum collet_result any_call(int which, const void *in, void *out, size_t count, enum collet_type type,
                                          enum collet_op op, int root, struct collet_comm *comm, void *stream) {
    switch (which) {
    case ALLREDUCE: return collet_allreduce(in, out, count, type, op, comm, stream);
    case REDUCESCATTER: return collet_reducescatter(in, out, count, type, op, comm, stream);
    case REDUCE: return collet_reduce(in, out, count, type, op, root, comm, stream);
    case ALLGATHER: return collet_allgather(in, out, count, type, comm, stream);
    case ALLTOALL: return collet_alltoall(in, out, count, type, comm, stream);
    case BROADCAST: return collet_broadcast(in, out, count, type, root, comm, stream);
    case SEND: return collet_send(in, count, type, root, comm, stream);
    default: return collet_recv(out, count, type, root, comm, stream);
    }
}

struct pair {
    struct collet_comm *comms[2];
    float in[8], out[8];
};

static inline void pair_create(struct pair *pair) {
    *pair = (struct pair){{NULL}, {1, 2, 3, 4, 5, 6, 7, 8}, {0}};
    assert_success(collet_comm_init_all(pair->comms, 2, NULL));
}

/* Both ranks still work together, and nothing wrote to `out`. */
static inline void pair_check_and_destroy(struct pair *pair) {
    float sums[2] = {0, 0};
    for (int k = 0; k < 8; k++)
        assert_true(pair->out[k] == 0);
    assert_success(collet_group_start());
    for (int rank = 0; rank < 2; rank++)
        assert_success(
            collet_allreduce(&pair->in[rank], &sums[rank], 1, COLLET_FLOAT32, COLLET_SUM, pair->comms[rank], NULL));
    assert_success(collet_group_end());
    assert_true(sums[0] == 3 && sums[1] == 3);
    assert_success(collet_comm_destroy(pair->comms[0]));
    assert_success(collet_comm_destroy(pair->comms[1]));
}

#endif
