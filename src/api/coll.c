/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives and messages of collet.h: check the arguments, make one request, hand it to the group. What a call needs
 * follows from its line in ../program/registry.h; the functions themselves are at the end.
 */
#include "layers/vectors/counts.h"
#include "api/group.h"
#include "layers/vectors/op.h"
#include "api/overlap.h"
#include "layers/streams/stream.h"
#include "base/log.h"
#include "base/types.h"
#include "seams/gpu.h"
#include "plan/choice.h"

#include <stdlib.h>
#include <string.h>

/* As collet.h calls the count of a block where one of the buffers is a single block. */
static const char *count_name_of(const struct prog_facts *facts) {
    if (facts->in == PROG_SINGLE)
        return "sendcount";
    return facts->out == PROG_SINGLE ? "recvcount" : "count";
}

/* The block's bytes, if the larger buffer of a call fits into memory. */
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

/* Only the root's input is read, or its output written, where a collective has a root. */
static enum collet_result check_buffers(const struct collet_comm *comm, const struct exec_request *r,
                                        size_t block_bytes, const void *in, const void *out) {
    const struct prog_facts *facts = &prog_facts[r->collective];
    bool is_root = comm->rank == r->root;
    bool reads = facts->in != PROG_NONE && (facts->root != PROG_FROM_ROOT || is_root);
    bool writes = facts->out != PROG_NONE && (facts->root != PROG_TO_ROOT || is_root);
    if (block_bytes == 0)
        return COLLET_SUCCESS;
    if (reads && in == NULL)
        return err_null("sendbuff", r);
    if (writes && out == NULL)
        return err_null("recvbuff", r);
    if (!reads || !writes)
        return COLLET_SUCCESS;
    return overlap_check(r->collective, overlap_range_of(in, facts->in, block_bytes, comm->nranks),
                         overlap_range_of(out, facts->out, block_bytes, comm->nranks),
                         block_bytes * (size_t)comm->rank);
}

static enum collet_result check_rank(const struct collet_comm *comm, int rank, const char *argument) {
    if (rank >= 0 && rank < comm->nranks)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is %d: 0 … %d in this communicator", argument, rank,
                   comm->nranks - 1);
}

/* All but the buffers. An operator that was created becomes what it is. */
static enum collet_result check_request(struct collet_comm *comm, struct exec_request *r, const void *stream,
                                        size_t *block_bytes) {
    COLLET_TRY(comm_check_usable(comm));
    COLLET_TRY(check_rank(comm, r->root, prog_is_p2p(r->collective) ? "peer" : "root"));
    if (stream != NULL && comm->device == COLLET_DEVICE_HOST)
        COLLET_TRY(stream_check(stream));
    if (!type_valid(r->type))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "type is %d: see enum collet_type", (int)r->type);
    if (prog_facts[r->collective].reduces)
        COLLET_TRY(op_resolve(comm, r));
    return check_size(comm, r, block_bytes);
}

/* What a refused call leaves behind: its text in the communicator, and an open group that will not run. */
static enum collet_result refuse(struct collet_comm *comm, enum collet_result result) {
    comm_fail_without_memory(comm, result);
    if (comm_is_live(comm))
        comm_remember(comm, result);
    return group_poison(result);
}

static void log_call(const struct collet_comm *comm, const struct exec_request *r) {
    log_trace(COLL, "rank %d of %s: %s of %zu %s, op %s, %s %d", comm->rank,
              comm->name[0] != '\0' ? comm->name : "(unnamed)", prog_collective_name(r->collective), r->count,
              type_name(r->type), prog_facts[r->collective].reduces ? op_name(r->op) : "none",
              prog_is_p2p(r->collective) ? "peer" : "root", r->root);
}

static enum collet_result coll_call(struct exec_request *request, const void *in, void *out, struct collet_comm *comm,
                                    void *stream) {
    size_t block_bytes;
    enum collet_result result = check_request(comm, request, stream, &block_bytes);
    if (result == COLLET_SUCCESS)
        result = check_buffers(comm, request, block_bytes, in, out);
    if (result != COLLET_SUCCESS)
        return refuse(comm, result);
    if (prog_is_p2p(request->collective)) { /* a message is bytes: the two ends need not name the same type */
        request->named_type = (uint8_t)(1 + request->type);
        request->count = block_bytes;
        request->type = COLLET_UINT8;
    }
    log_call(comm, request);
    if (request->count == 0 && !prog_keeps_empty(request->collective))
        return COLLET_SUCCESS;
    return group_call(comm, request, in, out, stream);
}

/* ---- blocks with counts of their own ---- */

static enum collet_result counted_check(struct collet_comm *comm, struct exec_request *request, const void *in,
                                        void *out, const struct counts *in_counts, const struct counts *out_counts,
                                        const void *stream) {
    size_t ignored;
    COLLET_TRY(check_request(comm, request, stream, &ignored));
    if (comm_is_on_gpu(comm))
        return err_set(COLLET_ERR_UNSUPPORTED,
                       "collet_%s() is for communicators of host memory: a GPU does not get counts of blocks yet; use "
                       "collet_send() and collet_recv() in a group",
                       prog_collective_name(request->collective));
    COLLET_TRY(counts_read(request, comm->rank, comm->nranks, in_counts, out_counts));
    return counts_check_buffers(request, comm->rank, comm->nranks, in, out);
}

static enum collet_result counted_call(struct exec_request *request, const void *in, void *out,
                                       const struct counts *in_counts, const struct counts *out_counts,
                                       struct collet_comm *comm, void *stream) {
    enum collet_result result = counted_check(comm, request, in, out, in_counts, out_counts, stream);
    bool empty = request->count == 0 && !prog_keeps_empty(request->collective);
    if (result != COLLET_SUCCESS || empty) {
        free(request->extents);
        return result != COLLET_SUCCESS ? refuse(comm, result) : COLLET_SUCCESS;
    }
    log_call(comm, request);
    return group_call(comm, request, in, out, stream);
}

enum collet_result collet_allgatherv(const void *sendbuff, size_t sendcount, void *recvbuff, const size_t *recvcounts,
                                     const size_t *displs, enum collet_type type, struct collet_comm *comm,
                                     void *stream) {
    return counted_call(&(struct exec_request){.collective = PROG_ALLGATHERV, .type = type}, sendbuff, recvbuff,
                        &(struct counts){"sendcount", &sendcount, NULL},
                        &(struct counts){"recvcounts", recvcounts, displs}, comm, stream);
}

enum collet_result collet_reducescatterv(const void *sendbuff, void *recvbuff, const size_t *recvcounts,
                                         enum collet_type type, enum collet_op op, struct collet_comm *comm,
                                         void *stream) {
    return counted_call(&(struct exec_request){.collective = PROG_REDUCESCATTERV, .type = type, .op = op}, sendbuff,
                        recvbuff, &(struct counts){"recvcounts", recvcounts, NULL},
                        &(struct counts){"recvcounts", NULL, NULL}, comm, stream);
}

enum collet_result collet_alltoallv(const void *sendbuff, const size_t *sendcounts, const size_t *sdispls,
                                    void *recvbuff, const size_t *recvcounts, const size_t *rdispls,
                                    enum collet_type type, struct collet_comm *comm, void *stream) {
    return counted_call(&(struct exec_request){.collective = PROG_ALLTOALLV, .type = type}, sendbuff, recvbuff,
                        &(struct counts){"sendcounts", sendcounts, sdispls},
                        &(struct counts){"recvcounts", recvcounts, rdispls}, comm, stream);
}

/* ---- the functions of collet.h ----
 *
 * Signatures follow from the columns `root` and `does it reduce`; those of messages from which buffer there is. Functions of
 * collectives with COUNTS are above. */

#define REQUEST(NAME, op_, root_)                                                                                      \
    (&(struct exec_request){.collective = PROG_##NAME, .count = count, .type = type, .op = op_, .root = root_})

#define NO_ROOT_COPIES(NAME, name, in, out) NO_ROOT_COPIES_INTO_##out(NAME, name)
#define NO_ROOT_COPIES_INTO_COUNTS(NAME, name)
#define NO_ROOT_REDUCES_COUNTS(NAME, name)
#define NO_ROOT_COPIES_INTO_PER_RANK(NAME, name)                                                                       \
    enum collet_result collet_##name(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,        \
                                     struct collet_comm *comm, void *stream) {                                         \
        return coll_call(REQUEST(NAME, COLLET_SUM, 0), sendbuff, recvbuff, comm, stream);                              \
    }
#define NO_ROOT_REDUCES(NAME, name, in, out) NO_ROOT_REDUCES_##in(NAME, name)
#define NO_ROOT_REDUCES_WHOLE(NAME, name)                                                                              \
    enum collet_result collet_##name(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,        \
                                     enum collet_op op, struct collet_comm *comm, void *stream) {                      \
        return coll_call(REQUEST(NAME, op, 0), sendbuff, recvbuff, comm, stream);                                      \
    }
#define NO_ROOT_REDUCES_PER_RANK NO_ROOT_REDUCES_WHOLE
#define NO_ROOT_REDUCES_NONE(NAME, name)                                                                               \
    enum collet_result collet_##name(struct collet_comm *comm, void *stream) {                                         \
        struct exec_request request = {.collective = PROG_##NAME, .type = COLLET_UINT8};                               \
        return coll_call(&request, NULL, NULL, comm, stream);                                                          \
    }
#define FROM_ROOT_COPIES(NAME, name, in, out)                                                                          \
    enum collet_result collet_##name(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,        \
                                     int root, struct collet_comm *comm, void *stream) {                               \
        return coll_call(REQUEST(NAME, COLLET_SUM, root), sendbuff, recvbuff, comm, stream);                           \
    }
#define TO_ROOT_COPIES FROM_ROOT_COPIES
#define TO_ROOT_REDUCES(NAME, name, in, out)                                                                           \
    enum collet_result collet_##name(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,        \
                                     enum collet_op op, int root, struct collet_comm *comm, void *stream) {            \
        return coll_call(REQUEST(NAME, op, root), sendbuff, recvbuff, comm, stream);                                   \
    }
#define PEER_COPIES(NAME, name, in, out) PEER_FROM_##in(NAME, name)
#define PEER_FROM_WHOLE(NAME, name)                                                                                    \
    enum collet_result collet_##name(const void *sendbuff, size_t count, enum collet_type type, int peer,              \
                                     struct collet_comm *comm, void *stream) {                                         \
        return coll_call(REQUEST(NAME, COLLET_SUM, peer), sendbuff, NULL, comm, stream);                               \
    }
#define PEER_FROM_NONE(NAME, name)                                                                                     \
    enum collet_result collet_##name(void *recvbuff, size_t count, enum collet_type type, int peer,                    \
                                     struct collet_comm *comm, void *stream) {                                         \
        return coll_call(REQUEST(NAME, COLLET_SUM, peer), NULL, recvbuff, comm, stream);                               \
    }

#define X(NAME, name, in, out, reduces, root, in_place) root##_##reduces(NAME, name, in, out)
PROG_COLLECTIVES(X)
#undef X

/* ---- what would be done ---- */

static bool collective_named(const char *name, enum prog_collective *collective) {
    for (int c = 0; c < PROG_COLLECTIVE_COUNT; c++)
        if (!prog_is_p2p((enum prog_collective)c) && strcmp(prog_collective_name((enum prog_collective)c), name) == 0) {
            *collective = (enum prog_collective)c;
            return true;
        }
    return false;
}

enum collet_result collet_comm_plan(struct collet_comm *comm, const char *collective, size_t count,
                                    enum collet_type type, char *text, size_t size) {
    struct exec_request request = {.count = count, .type = type};
    struct plan_choice choice;
    if (collective == NULL || !collective_named(collective, &request.collective))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "collective is \"%s\": pass a name like \"allreduce\"",
                       collective != NULL ? collective : "(NULL)");
    size_t block_bytes;
    COLLET_TRY(check_request(comm, &request, NULL, &block_bytes));
    if (text == NULL || size == 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "text is NULL or size is 0: nothing can be written there");
    request.may_switch = comm->gpu != NULL && exec_gpu_may_switch(comm->chan, &request);
    COLLET_TRY(comm_choose(comm, &request, &choice));
    plan_choice_text(&choice, text, size);
    return COLLET_SUCCESS;
}
