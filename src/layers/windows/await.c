/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/windows/await.h"

#include "base/log.h"
#include "base/memory.h"

enum collet_result await_check(const struct rma_awaited *awaited, uint64_t idle_ns) {
    const struct collet_comm *comm = awaited->comm;
    const struct boot *boot = comm->boot;
    const int peer = awaited->peer;
    const uint64_t limit_ns = (uint64_t)comm->chan->timeout_ms * 1000000u;
    COLLET_TRY(boot_check(boot));
    if (boot_missing_count(boot) > 0 && boot_peer_settled(boot, peer, false) != PEER_ALIVE)
        return err_set(COLLET_ERR_REMOTE, "rank %d %s, and rank %d waited for %s rank %d", peer, boot_fate(boot, peer),
                       comm->rank, awaited->what, peer);
    if (awaited->rma != NULL)
        COLLET_TRY(rma_check(awaited->rma, peer));
    if (awaited->in_stream || idle_ns < limit_ns || boot_peer_state(boot, peer, NULL) != PEER_ALIVE)
        return COLLET_SUCCESS; /* if the rank is dying, the news of its death will be a better error than a timeout */
    if (boot_has_ended_here(boot, peer))
        return err_set(COLLET_ERR_REMOTE, "rank %d died, and rank %d waited for %s rank %d", peer, comm->rank,
                       awaited->what, peer);
    return err_set(COLLET_ERR_TIMEOUT,
                   "rank %d waited %.1f s for %s rank %d%s (COLLET_TIMEOUT or config.timeout_ms sets the limit)",
                   comm->rank, (double)idle_ns / 1e9, awaited->what, peer, awaited->hint);
}

/* While bytes move, a wait checks the peer once in so many turns. While none move, it checks the peer as often as the pauses allow. */
#define LOOK_EVERY_TURNS 64u

/* The duration of a wait, and the time since which nothing has moved between this rank and the peer. */
struct progress {
    uint64_t moves, moved_ns;
    struct late late;
};

static uint64_t idle_ns_of(const struct rma_awaited *awaited, struct progress *progress) {
    const uint64_t now_ns = os_now_ns();
    const uint64_t moves = awaited->rma != NULL ? rma_moves(awaited->rma, awaited->peer) : 0;
    if (progress->moved_ns == 0)
        late_begin(&progress->late, now_ns, awaited->comm->config.warn_after);
    if (progress->moved_ns == 0 || moves != progress->moves)
        progress->moved_ns = now_ns;
    progress->moves = moves;
    return now_ns - progress->moved_ns;
}

static enum collet_result look(const struct rma_awaited *awaited, struct progress *progress) {
    COLLET_TRY(await_check(awaited, idle_ns_of(awaited, progress)));
    if (late_look(&progress->late))
        log_always(COLL, "rank %d %s: for %s rank %d", awaited->comm->rank, late_text(&progress->late), awaited->what,
                   awaited->peer);
    return COLLET_SUCCESS;
}

enum collet_result await(const struct rma_awaited *awaited) {
    struct waiter waiter = awaited->comm->engine.patience;
    struct progress progress = {.moves = 0};
    enum collet_result result = COLLET_SUCCESS;
    for (uint32_t turns = 1; !awaited->is_there(awaited->about) && result == COLLET_SUCCESS; turns++) {
        const bool moved = awaited->rma != NULL && rma_progress(awaited->rma);
        if (moved)
            wait_progressed(&waiter);
        if (moved ? turns % LOOK_EVERY_TURNS == 0 : wait_pause(&waiter))
            result = look(awaited, &progress);
    }
    return awaited->is_there(awaited->about) ? COLLET_SUCCESS : result; /* a dead rank may have sent the rest before */
}

static bool is_done(const void *op) { return op_is_done(op); }

enum collet_result await_op(struct collet_comm *comm, struct rma *rma, int peer, struct rma_op *op, const char *what) {
    const struct rma_awaited awaited = {comm, rma, peer, what, "", is_done, op, false};
    COLLET_TRY(rma_post(rma, peer, op));
    enum collet_result result = op_is_done(op) ? COLLET_SUCCESS : await(&awaited);
    if (result == COLLET_SUCCESS)
        return COLLET_SUCCESS;
    boot_fail(comm->boot, result, err_last());
    rma_cancel(rma, op, peer);
    return result;
}

/* ---- flushes ---- */

/* Ships a flush to each rank for which something was put. *loads_p: one operation per rank; in shipped operations `flushes` is true. */
static enum collet_result ship_flushes(const struct collet_comm *comm, struct rma *rma, struct rma_op **loads_p) {
    COLLET_TRY(memory_get(loads_p, (size_t)comm->nranks, sizeof **loads_p, "no memory for flushes"));
    for (int peer = 0; peer < comm->nranks; peer++)
        if (rma_is_dirty(rma, peer)) {
            struct rma_op *op = &(*loads_p)[peer];
            *op = (struct rma_op){.flushes = true, .by_messages = true};
            COLLET_TRY(rma_post(rma, peer, op));
        }
    return COLLET_SUCCESS;
}

static void take_back_flushes(const struct collet_comm *comm, struct rma *rma, struct rma_op *ops) {
    for (int peer = 0; ops != NULL && peer < comm->nranks; peer++)
        if (ops[peer].flushes && !op_is_done(&ops[peer]))
            rma_cancel(rma, &ops[peer], peer);
}

enum collet_result await_flushes(struct collet_comm *comm, struct rma *rma) {
    SCOPED_FREE struct rma_op *ops = NULL;
    enum collet_result result = ship_flushes(comm, rma, &ops);
    for (int peer = 0; peer < comm->nranks && result == COLLET_SUCCESS; peer++) {
        const struct rma_awaited awaited = {comm, rma, peer, "a flush at", "", is_done, &ops[peer], false};
        if (ops[peer].flushes)
            result = await(&awaited);
    }
    take_back_flushes(comm, rma, ops);
    return result;
}

static bool may_be_flushed(const struct collet_comm *comm, const struct rma_op *ops) {
    for (int peer = 0; peer < comm->nranks; peer++)
        if (ops[peer].flushes && !op_is_done(&ops[peer]) && boot_peer_state(comm->boot, peer, NULL) == PEER_ALIVE)
            return true;
    return false;
}

void await_last_flushes(struct collet_comm *comm, struct rma *rma) {
    SCOPED_FREE struct rma_op *ops = NULL;
    struct waiter waiter = comm->engine.patience;
    const uint64_t end_ns = os_now_ns() + LAST_FLUSHES_NS;
    if (boot_failed(comm->boot) != COLLET_SUCCESS || ship_flushes(comm, rma, &ops) != COLLET_SUCCESS)
        return;
    while (may_be_flushed(comm, ops) && boot_failed(comm->boot) == COLLET_SUCCESS && os_now_ns() < end_ns)
        if (!rma_progress(rma))
            wait_pause(&waiter);
    take_back_flushes(comm, rma, ops);
}
