/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/windows/rma.h"

#include "base/memory.h"
#include "layers/patrol/patrol.h"
#include "layers/windows/send.h"
#include "layers/windows/receive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* This channel is behind the channels of collectives. Its lane is the lane of messages, whose slots get shorter the more ranks there are. */
#define RMA_CHANNEL 4096
#define RMA_LANE PROG_LANE_P2P

struct rma {
    struct rma *next; /* next RMA engine of the process */
    struct collet_comm *comm;
    struct call_lock lock; /* protects all fields below */
    struct chan *chan;
    struct rma_window *windows;
    uint32_t nwindows;           /* number of windows so far */
    struct endpoint **endpoints; /* [nranks]; NULL: nothing was carried to or from this rank */
    struct endpoint *first;      /* list of these endpoints */
    uint64_t heard_ns;           /* time at which this rank last listened for calls */
};

/* ---- endpoints ---- */

static enum collet_result endpoint_get(struct rma *rma, int peer, struct endpoint **endpoint_p) {
    struct endpoint *endpoint = rma->endpoints[peer];
    if (endpoint == NULL) {
        COLLET_TRY(memory_get(&endpoint, 1, sizeof *endpoint, "no memory to carry to rank %d", peer));
        endpoint->peer = peer;
        endpoint->last = &endpoint->first;
        endpoint->last_note = &endpoint->first_note;
        endpoint->next = rma->first;
        rma->first = rma->endpoints[peer] = endpoint;
    }
    *endpoint_p = endpoint;
    return COLLET_SUCCESS;
}

static void endpoint_destroy(struct endpoint *endpoint) {
    for (struct note *note = endpoint->first_note, *next; note != NULL; note = next) {
        next = note->next;
        free(note);
    }
    free(endpoint);
}

/* ---- connections ---- */

static uint64_t call_key(void) { return boot_key(BOOT_RMA, 0); }

/* Asks for both connections with the peer. The peer also asks for them when it hears the call. */
static enum collet_result connect_endpoint(struct rma *rma, struct endpoint *endpoint) {
    if (endpoint->out != NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(conn_get(rma->chan, endpoint->peer, RMA_CHANNEL, RMA_LANE, CONN_CONSUMER, &endpoint->in));
    return conn_get(rma->chan, endpoint->peer, RMA_CHANNEL, RMA_LANE, CONN_PRODUCER, &endpoint->out);
}

/* This rank wants the connections: asks for them, and calls the peer. */
static enum collet_result call_peer(struct rma *rma, struct endpoint *endpoint) {
    if (endpoint->out != NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(connect_endpoint(rma, endpoint));
    return boot_send(rma->comm->boot, endpoint->peer, call_key(), "", 1);
}

/* Does the peer call for connections? Then asks for them, too. */
static enum collet_result hear_call(struct rma *rma, int peer) {
    struct endpoint *endpoint;
    char nothing[1];
    size_t bytes;
    COLLET_TRY(boot_try_recv(rma->comm->boot, peer, call_key(), nothing, sizeof nothing, &bytes));
    COLLET_TRY(endpoint_get(rma, peer, &endpoint));
    return connect_endpoint(rma, endpoint);
}

#define HEAR_EVERY_NS 100000u     /* time between two looks for calls: this … */
#define HEAR_RANK_EVERY_NS 10000u /* … and for each rank this much more */

static enum collet_result hear_calls(struct rma *rma) {
    const uint64_t now_ns = os_now_ns();
    const int nranks = rma->comm->nranks;
    if (now_ns - rma->heard_ns < HEAR_EVERY_NS + (uint64_t)nranks * HEAR_RANK_EVERY_NS)
        return COLLET_SUCCESS;
    rma->heard_ns = now_ns;
    for (int peer = 0; peer < nranks; peer++) {
        const bool known = rma->endpoints[peer] != NULL && rma->endpoints[peer]->out != NULL;
        enum collet_result result = known ? COLLET_SUCCESS : hear_call(rma, peer);
        if (result < 0)
            return result;
    }
    return COLLET_SUCCESS;
}

/* ---- turns ---- */

static enum collet_result try_both(struct endpoint *endpoint) {
    enum collet_result in = conn_try(endpoint->in);
    if (in < 0)
        return in;
    enum collet_result out = conn_try(endpoint->out);
    return out != COLLET_SUCCESS ? out : in;
}

static enum collet_result carry(struct conn *conn, bool *moved) {
    if (conn->transport->progress == NULL)
        return COLLET_SUCCESS;
    enum collet_result result = conn->transport->progress(conn);
    *moved |= result == COLLET_SUCCESS;
    return result < 0 ? result : COLLET_SUCCESS;
}

/* Errors are those of a connection. They may follow from a death that is not known yet. */
static enum collet_result turn_connections(struct endpoint *endpoint, bool *moved) {
    if (endpoint->out == NULL)
        return COLLET_SUCCESS;
    if (!endpoint->ready) {
        enum collet_result result = try_both(endpoint);
        if (result != COLLET_SUCCESS)
            return result < 0 ? result : COLLET_SUCCESS;
        endpoint->ready = *moved = true;
    }
    COLLET_TRY(carry(endpoint->in, moved));
    return carry(endpoint->out, moved);
}

static void note_break(struct endpoint *endpoint) {
    endpoint->broken_ns = os_now_ns();
    snprintf(endpoint->broken_text, sizeof endpoint->broken_text, "%s", err_last());
}

/* If the peer breaks the protocol, that ends the communicator. */
static enum collet_result turn_endpoint(struct rma *rma, struct endpoint *endpoint, bool *any_moved) {
    bool moved = false, pushed = false;
    if (endpoint->broken_ns == 0 && turn_connections(endpoint, &moved) < 0)
        note_break(endpoint);
    if (endpoint->ready)
        COLLET_TRY(endpoint_receive(endpoint, rma->windows, &moved));
    if (endpoint->broken_ns == 0 && endpoint_send(endpoint)) {
        moved = true;
        if (endpoint->ready && carry(endpoint->out, &pushed) < 0)
            note_break(endpoint);
    }
    endpoint->moves += moved;
    *any_moved |= moved;
    return COLLET_SUCCESS;
}

/* The caller holds the lock. After a failure nothing is touched any more, because memory that loans name belongs to the program again. */
static bool turn(struct rma *rma) {
    bool moved = false;
    if (boot_failed(rma->comm->boot) != COLLET_SUCCESS)
        return false;
    enum collet_result result = hear_calls(rma);
    for (struct endpoint *endpoint = rma->first; endpoint != NULL && result >= 0; endpoint = endpoint->next)
        result = turn_endpoint(rma, endpoint, &moved);
    if (result < 0)
        boot_fail(rma->comm->boot, result, err_last());
    else
        chan_attend(rma->chan, 0, os_now_ns());
    return moved;
}

bool rma_progress(struct rma *rma) {
    if (!call_lock_try(&rma->lock))
        return false;
    const bool moved = turn(rma);
    call_lock_release(&rma->lock);
    return moved;
}

/* ---- the thread ---- */

#define BUSY_ROUNDS 512u      /* number of rounds without movement before the thread sleeps */
#define PAUSE_NS 20000u       /* its first sleep; each further sleep is longer by this */
#define LONG_PAUSE_NS 1000000 /* its longest sleep, if any engine has an endpoint */
#define IDLE_PAUSE_NS 5000000 /* its sleep if no engine has an endpoint */

static uint64_t turn_all(void);
static struct rma *engines;
static struct patrol patrol = PATROL("collet-rma", turn_all, &engines);

static uint64_t pause_after(uint32_t idle_rounds, bool carries) {
    if (!carries)
        return IDLE_PAUSE_NS;
    if (idle_rounds < BUSY_ROUNDS)
        return 0;
    const uint64_t pause_ns = (uint64_t)(idle_rounds - BUSY_ROUNDS + 1) * PAUSE_NS;
    return pause_ns < LONG_PAUSE_NS ? pause_ns : LONG_PAUSE_NS;
}

static uint64_t turn_all(void) {
    static uint32_t idle_rounds;
    bool moved = false, carries = false;
    for (struct rma *rma = engines; rma != NULL; rma = rma->next) {
        if (!call_lock_try(&rma->lock))
            continue; /* the thread that holds the lock moves it */
        moved |= turn(rma);
        carries |= rma->first != NULL;
        call_lock_release(&rma->lock);
    }
    idle_rounds = moved ? 0 : idle_rounds + 1;
    return engines != NULL ? pause_after(idle_rounds, carries) : PATROL_OVER;
}

/* ---- coming and going ---- */

static enum collet_result chan_of_its_own(const struct collet_comm *comm, struct chan **chan_p) {
    const struct conn_owner *owner = &comm->chan->owner;
    const struct chan_options options = {.boot = comm->boot,
                                         .config = &comm->config,
                                         .nranks = comm->nranks,
                                         .rank = comm->rank,
                                         .far = comm->chan->far,
                                         .timeout_ms = comm->timeout_ms,
                                         .name = comm->name};
    COLLET_TRY(chan_create(&options, chan_p));
    struct conn_owner *own = &(*chan_p)->owner;
    own->map = comm->map;
    own->tied = owner->tied;
    own->whole_lines = owner->whole_lines;
    own->joined = owner->joined;
    return COLLET_SUCCESS;
}

static void rma_destroy(struct rma *rma) {
    chan_destroy(rma->chan);
    for (struct endpoint *endpoint = rma->first, *next; endpoint != NULL; endpoint = next) {
        next = endpoint->next;
        endpoint_destroy(endpoint);
    }
    free(rma->endpoints);
    free(rma);
}

static enum collet_result put_on_list(struct rma *rma) {
    patrol_lock(&patrol);
    enum collet_result result = patrol_start(&patrol);
    if (result == COLLET_SUCCESS) {
        rma->next = engines;
        engines = rma;
    }
    pthread_mutex_unlock(&patrol.lock);
    return result;
}

static void take_off_list(const struct rma *rma) {
    SCOPED_LOCK(&patrol.lock);
    struct rma **link = &engines;
    while (*link != NULL && *link != rma)
        link = &(*link)->next;
    if (*link != NULL)
        *link = rma->next;
}

enum collet_result rma_open(struct collet_comm *comm, struct rma **rma_p) {
    struct rma *rma;
    COLLET_TRY(memory_get(&rma, 1, sizeof *rma, "no memory for windows"));
    rma->comm = comm;
    enum collet_result result =
        memory_get(&rma->endpoints, (size_t)comm->nranks, sizeof(struct endpoint *), "no memory for windows");
    if (result == COLLET_SUCCESS)
        result = chan_of_its_own(comm, &rma->chan);
    if (result == COLLET_SUCCESS)
        result = put_on_list(rma);
    if (result != COLLET_SUCCESS) {
        rma_destroy(rma);
        return result;
    }
    *rma_p = rma;
    return COLLET_SUCCESS;
}

void rma_close(struct rma *rma) {
    if (rma == NULL)
        return;
    take_off_list(rma);
    rma_destroy(rma);
}

void rma_attach(struct rma *rma, struct rma_window *window) {
    call_lock_acquire(&rma->lock, 0);
    window->number = rma->nwindows++;
    window->next = rma->windows;
    rma->windows = window;
    call_lock_release(&rma->lock);
}

void rma_detach(struct rma *rma, const struct rma_window *window) {
    call_lock_acquire(&rma->lock, 0);
    struct rma_window **link = &rma->windows;
    while (*link != NULL && *link != window)
        link = &(*link)->next;
    if (*link != NULL)
        *link = window->next;
    call_lock_release(&rma->lock);
}

/* ---- what calls ask for ---- */

static enum collet_result ship(struct rma *rma, int peer, struct rma_op *op) {
    struct endpoint *endpoint;
    COLLET_TRY(endpoint_get(rma, peer, &endpoint));
    if (op->by_messages)
        COLLET_TRY(call_peer(rma, endpoint));
    *endpoint->last = op;
    endpoint->last = &op->next;
    endpoint->nops++;
    turn(rma);
    return COLLET_SUCCESS;
}

enum collet_result rma_post(struct rma *rma, int peer, struct rma_op *op) {
    op->next = NULL;
    op->piece = 0;
    op->at = op->missing = op->flush = 0;
    op->ended = false;
    op->done = 0;
    call_lock_acquire(&rma->lock, 0);
    enum collet_result result = ship(rma, peer, op);
    call_lock_release(&rma->lock);
    return result;
}

static void unqueue(struct endpoint *endpoint, const struct rma_op *op) {
    struct rma_op **link = &endpoint->first;
    while (*link != NULL && *link != op)
        link = &(*link)->next;
    if (*link == NULL)
        return;
    *link = op->next;
    endpoint->nops--;
    if (*link == NULL)
        endpoint->last = link;
}

/* Bytes that a cancelled operation has asked for will still come. They are thrown away. */
static void forget_fetches(struct endpoint *endpoint, const struct rma_op *op) {
    for (uint64_t n = endpoint->fetches_done; n != endpoint->fetches_made; n++) {
        struct fetch *fetch = &endpoint->fetches[n % ENDPOINT_FETCHES];
        if (fetch->op == op)
            fetch->op = NULL;
    }
}

void rma_cancel(struct rma *rma, struct rma_op *op, int peer) {
    call_lock_acquire(&rma->lock, 0);
    unqueue(rma->endpoints[peer], op);
    forget_fetches(rma->endpoints[peer], op);
    call_lock_release(&rma->lock);
}

uint64_t rma_moves(struct rma *rma, int peer) {
    call_lock_acquire(&rma->lock, 0);
    const struct endpoint *endpoint = rma->endpoints[peer];
    const uint64_t moves = endpoint != NULL ? endpoint->moves : 0;
    call_lock_release(&rma->lock);
    return moves;
}

enum collet_result rma_check(struct rma *rma, int peer) {
    enum collet_result result = COLLET_SUCCESS;
    call_lock_acquire(&rma->lock, 0);
    const struct endpoint *endpoint = rma->endpoints[peer];
    if (endpoint != NULL && endpoint->broken_ns != 0 && os_now_ns() - endpoint->broken_ns > BOOT_NEWS_WAIT_NS)
        result = err_adopt(COLLET_ERR_REMOTE, endpoint->broken_text);
    call_lock_release(&rma->lock);
    return result;
}

enum collet_result rma_take_note(struct rma *rma, int peer, char note[PACKET_NOTE_BYTES], size_t *bytes) {
    struct note *first = NULL;
    call_lock_acquire(&rma->lock, 0);
    struct endpoint *endpoint = rma->endpoints[peer];
    if (endpoint != NULL && (first = endpoint->first_note) != NULL) {
        endpoint->first_note = first->next;
        if (endpoint->first_note == NULL)
            endpoint->last_note = &endpoint->first_note;
    }
    call_lock_release(&rma->lock);
    if (first == NULL)
        return COLLET_IN_PROGRESS;
    memcpy(note, first->data, first->bytes);
    *bytes = first->bytes;
    free(first);
    return COLLET_SUCCESS;
}

bool rma_is_dirty(struct rma *rma, int peer) {
    call_lock_acquire(&rma->lock, 0);
    const struct endpoint *endpoint = rma->endpoints[peer];
    const bool dirty = endpoint != NULL && endpoint->dirty;
    call_lock_release(&rma->lock);
    return dirty;
}
