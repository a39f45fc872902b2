/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives and messages of collet.h: check the arguments, make one request, hand it to the group.
 */
#include "api/group.h"
#include "api/overlap.h"
#include "base/log.h"
#include "base/types.h"

/* What is to be checked of a call, beside the communicator. */
struct call_check {
    const void *in;
    void *out;
    bool needs_in, needs_out;
    const char *in_name, *out_name, *count_name;
    size_t blocks; /* buffers hold up to this many times count */
    bool reduces;
};

static enum collet_result check_buffers(const struct exec_request *r, const struct call_check *c) {
    size_t bytes;
    if (__builtin_mul_overflow(r->count, 4 * collet_type_size(r->type) * c->blocks, &bytes))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is %zu: that many %s elements do not fit into memory",
                       c->count_name, r->count, type_name(r->type));
    if (r->count > 0 && c->needs_in && c->in == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL, but %s is %zu", c->in_name, c->count_name, r->count);
    if (r->count > 0 && c->needs_out && c->out == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL, but %s is %zu", c->out_name, c->count_name, r->count);
    return COLLET_SUCCESS;
}

static enum collet_result check_call(struct collet_comm *comm, const struct exec_request *r, const struct call_check *c,
                                     const void *stream) {
    COLLET_TRY(comm_check_usable(comm));
    if (stream != NULL && comm->device == COLLET_DEVICE_HOST)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "stream is not NULL: a host communicator has no streams");
    if (!type_valid(r->type))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "type is %d: see enum collet_type", (int)r->type);
    if (c->reduces && !op_valid(r->op))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "op is %d: see enum collet_op", (int)r->op);
    COLLET_TRY(check_buffers(r, c));
    return overlap_check(r, comm->rank, comm->nranks, c->needs_in ? c->in : NULL, c->needs_out ? c->out : NULL);
}

static enum collet_result check_rank(const struct collet_comm *comm, int rank, const char *argument) {
    if (rank >= 0 && rank < comm->nranks)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is %d: 0 … %d in this communicator", argument, rank,
                   comm->nranks - 1);
}

/* What a refused call leaves behind: its text in the communicator, and an open group that will not run. */
static enum collet_result refuse(struct collet_comm *comm, enum collet_result result) {
    if (comm_is_live(comm))
        comm_remember(comm, result);
    return group_poison(result);
}

static enum collet_result call(struct collet_comm *comm, const struct exec_request *request,
                               const struct call_check *check, void *stream) {
    enum collet_result result = check_call(comm, request, check, stream);
    if (result != COLLET_SUCCESS)
        return refuse(comm, result);
    bool p2p = prog_is_p2p(request->collective);
    log_trace(COLL, "rank %d of %s: %s of %zu %s, op %s, %s %d", comm->rank,
              comm->name[0] != '\0' ? comm->name : "(unnamed)", prog_collective_name(request->collective),
              request->count, type_name(request->type), check->reduces ? op_name(request->op) : "none",
              p2p ? "peer" : "root", request->root);
    if (request->count == 0 && !p2p)
        return COLLET_SUCCESS;
    return group_call(comm, request, check->in, check->out, stream);
}

/* Blocks of buffers of nranks·count elements; 1 for a communicator that check_call() will refuse. */
static size_t blocks_of(const struct collet_comm *comm) { return comm_is_live(comm) ? (size_t)comm->nranks : 1; }

enum collet_result collet_allreduce(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                    enum collet_op op, struct collet_comm *comm, void *stream) {
    struct exec_request request = {PROG_ALLREDUCE, count, type, op, 0};
    struct call_check check = {sendbuff, recvbuff, true, true, "sendbuff", "recvbuff", "count", 1, true};
    return call(comm, &request, &check, stream);
}

enum collet_result collet_allgather(const void *sendbuff, void *recvbuff, size_t sendcount, enum collet_type type,
                                    struct collet_comm *comm, void *stream) {
    struct exec_request request = {PROG_ALLGATHER, sendcount, type, COLLET_SUM, 0};
    struct call_check check = {sendbuff,    recvbuff,        true, true, "sendbuff", "recvbuff",
                               "sendcount", blocks_of(comm), false};
    return call(comm, &request, &check, stream);
}

enum collet_result collet_reducescatter(const void *sendbuff, void *recvbuff, size_t recvcount, enum collet_type type,
                                        enum collet_op op, struct collet_comm *comm, void *stream) {
    struct exec_request request = {PROG_REDUCESCATTER, recvcount, type, op, 0};
    struct call_check check = {sendbuff,    recvbuff,        true, true, "sendbuff", "recvbuff",
                               "recvcount", blocks_of(comm), true};
    return call(comm, &request, &check, stream);
}

enum collet_result collet_alltoall(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                   struct collet_comm *comm, void *stream) {
    struct exec_request request = {PROG_ALLTOALL, count, type, COLLET_SUM, 0};
    struct call_check check = {sendbuff, recvbuff, true, true, "sendbuff", "recvbuff", "count", blocks_of(comm), false};
    return call(comm, &request, &check, stream);
}

enum collet_result collet_broadcast(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type, int root,
                                    struct collet_comm *comm, void *stream) {
    if (comm_is_live(comm) && check_rank(comm, root, "root") != COLLET_SUCCESS)
        return refuse(comm, COLLET_ERR_INVALID_ARGUMENT);
    bool is_root = comm_is_live(comm) && comm->rank == root;
    struct exec_request request = {PROG_BROADCAST, count, type, COLLET_SUM, root};
    struct call_check check = {sendbuff, recvbuff, is_root, true, "sendbuff", "recvbuff", "count", 1, false};
    return call(comm, &request, &check, stream);
}

enum collet_result collet_reduce(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                 enum collet_op op, int root, struct collet_comm *comm, void *stream) {
    if (comm_is_live(comm) && check_rank(comm, root, "root") != COLLET_SUCCESS)
        return refuse(comm, COLLET_ERR_INVALID_ARGUMENT);
    bool is_root = comm_is_live(comm) && comm->rank == root;
    struct exec_request request = {PROG_REDUCE, count, type, op, root};
    struct call_check check = {sendbuff, recvbuff, true, is_root, "sendbuff", "recvbuff", "count", 1, true};
    return call(comm, &request, &check, stream);
}

/* A message is bytes: the two ends need not name the same type. */
static enum collet_result message(enum prog_collective direction, const void *in, void *out, size_t count,
                                  enum collet_type type, int peer, struct collet_comm *comm, void *stream) {
    if (comm_is_live(comm) && check_rank(comm, peer, "peer") != COLLET_SUCCESS)
        return refuse(comm, COLLET_ERR_INVALID_ARGUMENT);
    bool sends = direction == PROG_SEND;
    struct exec_request request = {direction, count, type, COLLET_SUM, peer};
    struct call_check check = {in, out, sends, !sends, "sendbuff", "recvbuff", "count", 1, false};
    enum collet_result result = check_call(comm, &request, &check, stream);
    if (result != COLLET_SUCCESS)
        return refuse(comm, result);
    request.count = count * collet_type_size(type);
    request.type = COLLET_UINT8;
    return call(comm, &request, &check, stream);
}

enum collet_result collet_send(const void *sendbuff, size_t count, enum collet_type type, int peer,
                               struct collet_comm *comm, void *stream) {
    return message(PROG_SEND, sendbuff, NULL, count, type, peer, comm, stream);
}

enum collet_result collet_recv(void *recvbuff, size_t count, enum collet_type type, int peer, struct collet_comm *comm,
                               void *stream) {
    return message(PROG_RECV, NULL, recvbuff, count, type, peer, comm, stream);
}
