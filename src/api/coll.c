/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives and messages of collet.h: check the arguments, make one request, hand it to the group. What a call needs
 * follows from its line in ../program/registry.h; the functions themselves are at the end.
 */
#include "api/group.h"
#include "api/overlap.h"
#include "base/log.h"
#include "base/types.h"
#include "plan/tuner.h"

#include <string.h>

/* What is to be checked of a call, beside the communicator. */
struct call_check {
    const void *in;
    void *out;
    bool needs_in, needs_out;
    const char *count_name;
    size_t blocks; /* buffers hold up to this many times count */
    bool reduces;
};

static enum collet_result check_buffers(const struct exec_request *r, const struct call_check *c) {
    size_t bytes;
    if (__builtin_mul_overflow(r->count, 4 * collet_type_size(r->type) * c->blocks, &bytes))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s is %zu: that many %s elements do not fit into memory",
                       c->count_name, r->count, type_name(r->type));
    if (r->count > 0 && c->needs_in && c->in == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "sendbuff is NULL, but %s is %zu", c->count_name, r->count);
    if (r->count > 0 && c->needs_out && c->out == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "recvbuff is NULL, but %s is %zu", c->count_name, r->count);
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

static enum collet_result hand_over(struct collet_comm *comm, const struct exec_request *request,
                                    const struct call_check *check, void *stream) {
    bool p2p = prog_is_p2p(request->collective);
    log_trace(COLL, "rank %d of %s: %s of %zu %s, op %s, %s %d", comm->rank,
              comm->name[0] != '\0' ? comm->name : "(unnamed)", prog_collective_name(request->collective),
              request->count, type_name(request->type), check->reduces ? op_name(request->op) : "none",
              p2p ? "peer" : "root", request->root);
    if (request->count == 0 && !prog_keeps_empty(request->collective))
        return COLLET_SUCCESS;
    return group_call(comm, request, check->in, check->out, stream);
}

/* As collet.h calls the count of a block where one of the buffers is a single block. */
static const char *count_name_of(const struct prog_facts *facts) {
    if (facts->in == PROG_SINGLE)
        return "sendcount";
    return facts->out == PROG_SINGLE ? "recvcount" : "count";
}

/* Of a communicator that check_call() will refuse nothing is known. */
static struct call_check check_of(const struct collet_comm *comm, const struct exec_request *r, const void *in,
                                  void *out) {
    const struct prog_facts *facts = &prog_facts[r->collective];
    bool live = comm_is_live(comm), is_root = live && comm->rank == r->root;
    bool per_rank = facts->in == PROG_PER_RANK || facts->out == PROG_PER_RANK;
    return (struct call_check){
        .in = in,
        .out = out,
        .needs_in = facts->in != PROG_NONE && (facts->root != PROG_FROM_ROOT || is_root),
        .needs_out = facts->out != PROG_NONE && (facts->root != PROG_TO_ROOT || is_root),
        .count_name = count_name_of(facts),
        .blocks = live && per_rank ? (size_t)comm->nranks : 1,
        .reduces = facts->reduces,
    };
}

static enum collet_result coll_call(struct exec_request request, const void *in, void *out, struct collet_comm *comm,
                                    void *stream) {
    bool p2p = prog_is_p2p(request.collective);
    struct call_check check = check_of(comm, &request, in, out);
    if (comm_is_live(comm) && check_rank(comm, request.root, p2p ? "peer" : "root") != COLLET_SUCCESS)
        return refuse(comm, COLLET_ERR_INVALID_ARGUMENT);
    enum collet_result result = check_call(comm, &request, &check, stream);
    if (result != COLLET_SUCCESS)
        return refuse(comm, result);
    if (p2p) { /* a message is bytes: the two ends need not name the same type */
        request.count *= collet_type_size(request.type);
        request.type = COLLET_UINT8;
    }
    return hand_over(comm, &request, &check, stream);
}

/* ---- the functions of collet.h ----
 *
 * Signatures follow from the columns `root` and `does it reduce`; those of messages from which buffer there is. */

#define NO_ROOT_COPIES(NAME, name, in)                                                                                 \
    enum collet_result collet_##name(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,        \
                                     struct collet_comm *comm, void *stream) {                                         \
        return coll_call((struct exec_request){PROG_##NAME, count, type, COLLET_SUM, 0}, sendbuff, recvbuff, comm,     \
                         stream);                                                                                      \
    }
#define NO_ROOT_REDUCES(NAME, name, in)                                                                                \
    enum collet_result collet_##name(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,        \
                                     enum collet_op op, struct collet_comm *comm, void *stream) {                      \
        return coll_call((struct exec_request){PROG_##NAME, count, type, op, 0}, sendbuff, recvbuff, comm, stream);    \
    }
#define FROM_ROOT_COPIES(NAME, name, in)                                                                               \
    enum collet_result collet_##name(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,        \
                                     int root, struct collet_comm *comm, void *stream) {                               \
        return coll_call((struct exec_request){PROG_##NAME, count, type, COLLET_SUM, root}, sendbuff, recvbuff, comm,  \
                         stream);                                                                                      \
    }
#define TO_ROOT_COPIES FROM_ROOT_COPIES
#define TO_ROOT_REDUCES(NAME, name, in)                                                                                \
    enum collet_result collet_##name(const void *sendbuff, void *recvbuff, size_t count, enum collet_type type,        \
                                     enum collet_op op, int root, struct collet_comm *comm, void *stream) {            \
        return coll_call((struct exec_request){PROG_##NAME, count, type, op, root}, sendbuff, recvbuff, comm, stream); \
    }
#define PEER_COPIES(NAME, name, in) PEER_FROM_##in(NAME, name)
#define PEER_FROM_WHOLE(NAME, name)                                                                                    \
    enum collet_result collet_##name(const void *sendbuff, size_t count, enum collet_type type, int peer,              \
                                     struct collet_comm *comm, void *stream) {                                         \
        return coll_call((struct exec_request){PROG_##NAME, count, type, COLLET_SUM, peer}, sendbuff, NULL, comm,      \
                         stream);                                                                                      \
    }
#define PEER_FROM_NONE(NAME, name)                                                                                     \
    enum collet_result collet_##name(void *recvbuff, size_t count, enum collet_type type, int peer,                    \
                                     struct collet_comm *comm, void *stream) {                                         \
        return coll_call((struct exec_request){PROG_##NAME, count, type, COLLET_SUM, peer}, NULL, recvbuff, comm,      \
                         stream);                                                                                      \
    }

#define X(NAME, name, in, out, reduces, root, in_place) root##_##reduces(NAME, name, in)
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
    struct exec_request request = {PROG_ALLREDUCE, count, type, COLLET_SUM, 0};
    struct plan_choice choice;
    if (collective == NULL || !collective_named(collective, &request.collective))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "collective is \"%s\": pass a name like \"allreduce\"",
                       collective != NULL ? collective : "(NULL)");
    struct call_check check = check_of(comm, &request, NULL, NULL);
    check.needs_in = check.needs_out = false;
    COLLET_TRY(check_call(comm, &request, &check, NULL));
    if (text == NULL || size == 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "text is NULL or size is 0: nothing can be written there");
    call_lock_acquire(&comm->lock, 0);
    enum collet_result result = comm_check_locked(comm);
    if (result == COLLET_SUCCESS)
        result = plan_choose(comm->planner, &request, &choice);
    call_lock_release(&comm->lock);
    if (result == COLLET_SUCCESS)
        tuner_choice_text(&choice, text, size);
    return result;
}
