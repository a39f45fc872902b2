/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives and messages of collet.h: make one post, check it, hand it on. What a call needs follows from its line in
 * ../program/registry.h. The functions of collet.h themselves are at the end.
 */
#include "api/coll.h"

#include "api/engine.h"
#include "api/group.h"
#include "api/overlap.h"
#include "base/log.h"
#include "base/types.h"
#include "seams/gpu.h"
#include "seams/streams.h"
#include "seams/vectors.h"
#include "plan/choice.h"

#include <string.h>

/* The name of the count argument in collet.h. If only one of the two buffers is a single block, count is the length of that buffer. */
static const char *count_name_of(const struct prog_facts *facts) {
    if (facts->in == PROG_SINGLE)
        return "sendcount";
    return facts->out == PROG_SINGLE ? "recvcount" : "count";
}

/* Checks that the larger buffer of the call fits into memory. *block_bytes: bytes of one block. */
static enum collet_result check_size(const struct collet_comm *comm, const struct exec_request *r,
                                     size_t *block_bytes) {
    const struct prog_facts *facts = &prog_facts[r->collective];
    bool per_rank = facts->in == PROG_PER_RANK || facts->out == PROG_PER_RANK;
    size_t elem_bytes = type_size(r->type), bytes;
    if (__builtin_mul_overflow(r->count, 4 * elem_bytes * (per_rank ? (size_t)comm->nranks : 1), &bytes))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is %zu: that many %s elements do not fit into memory",
                       count_name_of(facts), r->count, type_name(r->type));
    *block_bytes = r->count * elem_bytes;
    return COLLET_SUCCESS;
}

static enum collet_result err_null(const char *buffer, const struct exec_request *r) {
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is NULL, but %s is %zu", buffer,
                   count_name_of(&prog_facts[r->collective]), r->count);
}

/* Checks the buffers that this rank uses: if there is a root, only the root reads its input or writes its output. */
static enum collet_result check_buffers(const struct post *post, size_t block_bytes) {
    const struct collet_comm *comm = post->comm;
    const struct exec_request *r = &post->request;
    const struct prog_facts *facts = &prog_facts[r->collective];
    bool is_root = comm->rank == r->root;
    bool reads = facts->in != PROG_NONE && (facts->root != PROG_FROM_ROOT || is_root);
    bool writes = facts->out != PROG_NONE && (facts->root != PROG_TO_ROOT || is_root);
    if (block_bytes == 0)
        return COLLET_SUCCESS;
    if (reads && post->in == NULL)
        return err_null("sendbuff", r);
    if (writes && post->out == NULL)
        return err_null("recvbuff", r);
    if (!reads || !writes)
        return COLLET_SUCCESS;
    const uintptr_t in = (uintptr_t)post->in, out = (uintptr_t)post->out;
    const size_t all = block_bytes * (size_t)comm->nranks;
    const struct overlap_range read = {in, in + (facts->in == PROG_PER_RANK ? all : block_bytes)};
    const struct overlap_range written = {out, out + (facts->out == PROG_PER_RANK ? all : block_bytes)};
    return overlap_check(r->collective, read, written, block_bytes * (size_t)comm->rank);
}

static enum collet_result check_rank(const struct collet_comm *comm, const struct exec_request *r) {
    if (r->root >= 0 && r->root < comm->nranks)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is %d: 0 … %d in this communicator",
                   prog_is_p2p(r->collective) ? "peer" : "root", r->root, comm->nranks - 1);
}

enum collet_result coll_err_no_op(enum collet_op op) {
    return err_set(COLLET_ERR_INVALID_ARGUMENT,
                   "op is %d: none of enum collet_op, and not created on this communicator, or destroyed", (int)op);
}

/* Puts COLLET_PREMULSUM and a factor into the request, in place of an operator that the program created. */
static enum collet_result resolve_created_op(const struct collet_comm *comm, struct exec_request *r) {
    process_lock(); /* The call does not hold the communicator's own lock yet */
    const struct created_op *op = comm->ops;
    while (op != NULL && op->number != r->op)
        op = op->next;
    const struct created_op found = op != NULL ? *op : (struct created_op){.number = COLLET_SUM};
    process_unlock();
    if (op == NULL)
        return coll_err_no_op(r->op);
    if (found.type != r->type)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "op %d was created for type %s, but type is %s", (int)found.number,
                       type_name(found.type), type_name(r->type));
    r->op = COLLET_PREMULSUM;
    r->scaling = found.scaling;
    r->factor = found.factor;
    return COLLET_SUCCESS;
}

/* Checks an operator other than the basic ones. An average of a small type gets a factor, because its sum could overflow. */
static enum collet_result resolve_rare_op(const struct collet_comm *comm, struct exec_request *r) {
    if (!op_valid(r->op))
        return resolve_created_op(comm, r);
    if (r->op == COLLET_PREMULSUM)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "op is COLLET_PREMULSUM itself: create one with collet_op_create_premul_sum()");
    if (!op_takes(r->op, r->type))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "op is %s, which is for integers, but type is %s", op_name(r->op),
                       type_name(r->type));
    if (r->op == COLLET_AVG) {
        r->factor = type_average_factor(r->type, (uint32_t)comm->nranks);
        r->scaling = r->factor != 0 ? WORK_BY_VALUE : WORK_UNSCALED;
    }
    return COLLET_SUCCESS;
}

enum collet_result coll_check(struct collet_comm *comm, struct exec_request *r, const void *stream,
                              size_t *block_bytes) {
    COLLET_TRY(comm_check_usable(comm));
    COLLET_TRY(check_rank(comm, r));
    if (stream != NULL && comm->device == COLLET_DEVICE_HOST)
        COLLET_TRY(stream_check(stream));
    if (!type_valid(r->type))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "type is %d: see enum collet_type", (int)r->type);
    const bool rare = (unsigned)r->op >= COLLET_AVG; /* Every type has the operators before AVG */
    if (prog_facts[r->collective].reduces && rare)
        COLLET_TRY(resolve_rare_op(comm, r));
    return check_size(comm, r, block_bytes);
}

enum collet_result coll_refuse(struct collet_comm *comm, enum collet_result result) {
    comm_fail_without_memory(comm, result);
    if (comm_is_live(comm))
        comm_remember(comm, result);
    return group_poison(result);
}

void coll_log(const struct collet_comm *comm, const struct exec_request *r) {
    log_trace(COLL, "rank %d of %s: %s of %zu %s, op %s, %s %d", comm->rank,
              comm->name[0] != '\0' ? comm->name : "(unnamed)", prog_collective_name(r->collective), r->count,
              type_name(r->type), prog_facts[r->collective].reduces ? op_name(r->op) : "none",
              prog_is_p2p(r->collective) ? "peer" : "root", r->root);
}

enum collet_result coll_call(const struct exec_request *request, const void *in, void *out, struct collet_comm *comm,
                             void *stream) {
    struct post post = {.request = *request, .comm = comm, .in = in, .out = out, .stream = stream};
    size_t block_bytes;
    enum collet_result result = coll_check(comm, &post.request, stream, &block_bytes);
    if (result == COLLET_SUCCESS)
        result = check_buffers(&post, block_bytes);
    if (result != COLLET_SUCCESS)
        return coll_refuse(comm, result);
    if (prog_is_p2p(request->collective)) { /* A message is bytes: the types of its two ends may differ */
        post.request.named_type = (uint8_t)(1 + request->type);
        post.request.count = block_bytes;
        post.request.type = COLLET_UINT8;
    }
    coll_log(comm, &post.request);
    return block_bytes == 0 && !prog_keeps_empty(request->collective) ? COLLET_SUCCESS : group_call(&post);
}

/* ---- the functions of collet.h ---- */

enum collet_result collet_allreduce(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                    enum collet_op op, struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_ALLREDUCE, .count = count, .type = type, .op = op};
    return coll_call(&request, sendbuff, recvbuff, comm, stream);
}

enum collet_result collet_reduce(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                 enum collet_op op, int root, struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_REDUCE, .count = count, .type = type, .op = op, .root = root};
    return coll_call(&request, sendbuff, recvbuff, comm, stream);
}

enum collet_result collet_broadcast(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type, int root,
                                    struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_BROADCAST, .count = count, .type = type, .root = root};
    return coll_call(&request, sendbuff, recvbuff, comm, stream);
}

enum collet_result collet_allgather(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                    struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_ALLGATHER, .count = count, .type = type};
    return coll_call(&request, sendbuff, recvbuff, comm, stream);
}

enum collet_result collet_reducescatter(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                        enum collet_op op, struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_REDUCESCATTER, .count = count, .type = type, .op = op};
    return coll_call(&request, sendbuff, recvbuff, comm, stream);
}

enum collet_result collet_alltoall(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,
                                   struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_ALLTOALL, .count = count, .type = type};
    return coll_call(&request, sendbuff, recvbuff, comm, stream);
}

enum collet_result collet_gather(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type, int root,
                                 struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_GATHER, .count = count, .type = type, .root = root};
    return coll_call(&request, sendbuff, recvbuff, comm, stream);
}

enum collet_result collet_scatter(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type, int root,
                                  struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_SCATTER, .count = count, .type = type, .root = root};
    return coll_call(&request, sendbuff, recvbuff, comm, stream);
}

enum collet_result collet_barrier(struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_BARRIER, .type = COLLET_UINT8};
    return coll_call(&request, NULL, NULL, comm, stream);
}

enum collet_result collet_send(const void *sendbuff, size_t count, enum collet_type type, int peer,
                               struct collet_comm *comm, void *stream) {
    struct exec_request request = {.collective = PROG_SEND, .count = count, .type = type, .root = peer};
    return coll_call(&request, sendbuff, NULL, comm, stream);
}

enum collet_result collet_recv(void *recvbuff, size_t count, enum collet_type type, int peer, struct collet_comm *comm,
                               void *stream) {
    struct exec_request request = {.collective = PROG_RECV, .count = count, .type = type, .root = peer};
    return coll_call(&request, NULL, recvbuff, comm, stream);
}

/* ---- what would be done ---- */

enum collet_result comm_choose(struct collet_comm *comm, const struct exec_request *request,
                               struct plan_choice *choice) {
    engine_take(comm, 0);
    enum collet_result result = comm_check_locked(comm);
    if (result == COLLET_SUCCESS)
        result = plan_choose(comm->planner, request, choice);
    engine_give(comm);
    return result;
}

enum collet_result collet_comm_plan(struct collet_comm *comm, const char *collective, size_t count,
                                    enum collet_type type, char *text, size_t size) {
    struct exec_request request = {.count = count, .type = type};
    struct plan_choice choice;
    if (collective == NULL || !prog_collective_find(collective, strlen(collective), &request.collective))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "collective is \"%s\": pass a name like \"allreduce\"",
                       collective != NULL ? collective : "(NULL)");
    size_t block_bytes;
    COLLET_TRY(coll_check(comm, &request, NULL, &block_bytes));
    if (text == NULL || size == 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "text is NULL or size is 0: nothing can be written there");
    COLLET_TRY(comm_choose(comm, &request, &choice));
    plan_choice_text(&choice, text, size);
    return COLLET_SUCCESS;
}
