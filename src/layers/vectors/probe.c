/* SPDX-License-Identifier: Apache-2.0
 *
 * A probe waits until a message has come from any rank, and leaves the message where it is.
 *
 *    lane of receives from rank 0    m4 runs             a receive was issued: its messages are not the probe's affair
 *    lane of receives from rank 1    (empty)  ◀── look ──┐
 *    lane of receives from rank 2    (empty)  ◀── look ──┤  is there data in the connection of messages?
 *    lane of probes                  p0  ────────────────┘
 *
 * A probe is a post like others (api/engine.h): a receive whose peer is PROBE_ANY, and whose buffer gets the rank that was found.
 */
#include "seams/vectors.h"

#include "api/group.h"
#include "base/os.h"
#include "layers/gpu/proxy.h"
#include "program/program.h"
#include "seams/streams.h"
#include "transport/transport.h"

/* Has a message of this rank begun to come? If there is no connection yet, it is made, because no message can come
 * without it. */
static enum collet_result look_at(struct chan *chan, int peer, bool *is_there) {
    struct conn *conn;
    *is_there = false;
    COLLET_TRY(conn_get(chan, peer, 0, PROG_LANE_P2P, CONN_CONSUMER, &conn));
    enum collet_result result = conn_try(conn);
    if (result != COLLET_SUCCESS)
        return result < 0 ? result : COLLET_SUCCESS;
    if (conn->transport->progress != NULL && (result = conn->transport->progress(conn)) < 0)
        return result;
    *is_there = fifo_has_data(&conn->end);
    return COLLET_SUCCESS;
}

static struct lane *engine_receives_of(const struct engine *engine, int peer) { return engine->lanes + 2 + 2 * peer; }

/* IN_PROGRESS: the probe may wait longer. Otherwise TIMEOUT. */
static enum collet_result check_wait(const struct collet_comm *comm, uint64_t *idle_since_ns) {
    const uint64_t now_ns = os_now_ns();
    if (*idle_since_ns == 0)
        *idle_since_ns = now_ns;
    if (now_ns - *idle_since_ns < (uint64_t)comm->chan->timeout_ms * 1000000)
        return COLLET_IN_PROGRESS;
    return err_set(COLLET_ERR_TIMEOUT,
                   "no message has come to rank %d for %.1f s, of no rank, and collet_probe() waits for one "
                   "(COLLET_TIMEOUT or config.timeout_ms sets the limit)",
                   comm->rank, (double)(now_ns - *idle_since_ns) / 1e9);
}

/* Looks at all ranks, beginning after the rank that was found last, so that none is neglected. */
enum collet_result probe_try(struct collet_comm *comm, struct post *probe, uint64_t *idle_since_ns) {
    struct engine *engine = &comm->engine;
    for (int k = 1; k <= comm->nranks; k++) {
        int peer = (engine->probed + k) % comm->nranks;
        bool is_there;
        if (peer == comm->rank || engine_receives_of(engine, peer)->first != NULL)
            continue;
        proxy_pause(comm->chan);
        enum collet_result result = look_at(comm->chan, peer, &is_there);
        proxy_resume(comm->chan);
        if (result != COLLET_SUCCESS)
            return result;
        if (is_there) {
            engine->probed = *(int *)probe->out = peer;
            return COLLET_SUCCESS;
        }
    }
    return check_wait(comm, idle_since_ns);
}

static enum collet_result probe_check(const int *peer, struct collet_comm *comm, const void *stream) {
    COLLET_TRY(comm_check_usable(comm));
    if (comm_is_on_gpu(comm))
        return err_set(COLLET_ERR_UNSUPPORTED, "collet_probe() is for communicators of host memory");
    if (peer == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "peer is NULL: pass where the rank goes");
    if (comm->nranks == 1)
        return err_set(COLLET_ERR_INVALID_USAGE, "there is no other rank: no message can come");
    return stream != NULL ? stream_check(stream) : COLLET_SUCCESS;
}

enum collet_result collet_probe(int *peer, struct collet_comm *comm, void *stream) {
    struct post post = {.request = {.collective = PROG_RECV, .type = COLLET_UINT8, .root = PROBE_ANY},
                        .out = peer,
                        .comm = comm,
                        .stream = stream};
    enum collet_result result = probe_check(peer, comm, stream);
    if (result != COLLET_SUCCESS) {
        if (comm_is_live(comm))
            comm_remember(comm, result);
        return group_poison(result);
    }
    return group_call(&post);
}
