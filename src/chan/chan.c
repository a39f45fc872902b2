/* SPDX-License-Identifier: Apache-2.0
 *
 * The connections of one rank: the table of connections, and their set-up.
 */
#include "chan/chan.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/names.h"
#include "base/spelling.h"
#include "chan/crowd.h"
#include "chan/slots.h"
#include "seams/observe.h"
#include "seams/gpu.h"
#include "transport/transport.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- choosing a transport ---- */

static enum collet_result err_no_transport(const char *name) {
    struct spelling spelling = {name, SPELLING_FAR, ""};
    for (const struct transport *const *t = transports; *t != NULL; t++)
        spelling_offer(&spelling, (*t)->name);
    return err_set(COLLET_ERR_INVALID_USAGE, "COLLET_TRANSPORT names \"%s\", which is no transport (collet-info)%s",
                   name, spelling.hint);
}

/* Checks that COLLET_TRANSPORT lists only transports, and COLLET_DIRECT only known ways. */
enum collet_result chan_check_names(const struct config *config) {
    const char *list = config->transport, *ways = config->direct;
    char name[NAME_BYTES];
    while (name_next(&list, name))
        if (transport_named(name) == NULL)
            return err_no_transport(name);
    while (name_next(&ways, name))
        if (!name_is_listed(name, "process shared cma wire off"))
            return err_set(COLLET_ERR_INVALID_USAGE,
                           "COLLET_DIRECT names \"%s\": it lists process, shared, cma and wire, or is off", name);
    return COLLET_SUCCESS;
}

static bool lacks_encryption(const struct config *config, const struct transport *t) {
    return config->encrypt && t->remote && !t->encrypts;
}

static bool allowed(const struct config *config, const struct transport *t) {
    return !lacks_encryption(config, t) && (config->transport[0] == '\0' || name_is_listed(t->name, config->transport));
}

/* The first transport, from *t on, that is allowed and connects rank a with rank b; NULL: there is none. */
static const struct transport *find_transport(const struct transport *const *t, const struct conn_owner *owner, int a,
                                              int b) {
    const char *why;
    for (; *t != NULL; t++)
        if (allowed(owner->config, *t) && (*t)->reaches(&owner->peers[a], &owner->peers[b], &why))
            return *t;
    return NULL;
}

const struct transport *chan_pair_transport(const struct chan *chan, int a, int b) {
    return find_transport(transports, &chan->owner, a, b);
}

/* Lists the reasons why each transport before `chosen` (NULL: every transport) is not used with peer. */
static void list_reasons(const struct conn_owner *owner, int peer, const struct transport *chosen, char *text,
                         size_t room) {
    text[0] = '\0';
    for (const struct transport *const *t = transports; *t != NULL && *t != chosen; t++) {
        const char *why = "";
        size_t at = strlen(text);
        if (lacks_encryption(owner->config, *t))
            why = "it does not encrypt (COLLET_ENCRYPT)";
        else if (!allowed(owner->config, *t))
            why = "not in COLLET_TRANSPORT";
        else
            (*t)->reaches(&owner->peers[owner->rank], &owner->peers[peer], &why);
        snprintf(text + at, room - at, "; not %s: %s", (*t)->name, why);
    }
}

static enum collet_result err_unreachable(const struct conn_owner *owner, int peer) {
    char reasons[256];
    list_reasons(owner, peer, NULL, reasons, sizeof(reasons));
    return err_set(COLLET_ERR_UNSUPPORTED, "no transport from rank %d to rank %d (host %s)%s", owner->rank, peer,
                   owner->peers[peer].host, reasons);
}

/* ---- table ---- */

/* Does any connection of this communicator send each slot as a message? It is enough to ask for rank 0: if any connection leads to another
 * host, one of rank 0's does. */
static bool sends_messages(const struct chan *chan) {
    for (int rank = 1; rank < chan->owner.nranks; rank++) {
        const struct transport *transport = chan_pair_transport(chan, 0, rank);
        if (transport != NULL && transport->messages)
            return true;
    }
    return false;
}

/* How many polls does a waiting rank make before it yields its CPU? A rank without its own CPU must yield at once. Other ranks yield
 * later. They must yield, too, because the scheduler may have put two of them on one CPU while another CPU is idle. A yield is
 * cheap. */
#define SPIN_ALONE 100u
#define SPIN_CROWDED 1u

/* On a machine with one CPU, the kernel's own work (network packets, for example) needs this CPU too. A yield may not let that work run, or
 * may give away a whole time slice. A sleep lets it run, and a thread that sleeps is woken at once. */
#define YIELD_ALONE_NS 100000u

/* A producer that lends a payload waits for its consumer. If both share a CPU, this wait takes one or two context switches. */
#define KERNEL_FROM_CROWDED 65536u

/* Decides how this rank waits, from which size on the operating system copies payloads,
 * and how much of the last-level cache this rank can use. */
static void waiting_init(struct chan *chan, bool kernel_copies) {
    struct conn_owner *owner = &chan->owner;
    const struct config *config = owner->config;
    struct os_cache cache;
    bool crowded = crowd_around(owner->peers, owner->nranks, owner->rank, (int)config->cpus);
    chan->patience = (struct waiter){
        .spin = config->spin >= 0 ? (uint32_t)config->spin
                : crowded         ? SPIN_CROWDED
                                  : SPIN_ALONE,
        .yield_ns = sysconf(_SC_NPROCESSORS_ONLN) == 1 ? YIELD_ALONE_NS : 0,
        .roams = !crowded,
    };
    owner->kernel_from = !kernel_copies ? 0 : crowded ? KERNEL_FROM_CROWDED : LOAN_CMA_BYTES;
    os_last_cache_get(&cache);
    chan->cache_bytes = crowd_cache_share(owner->peers, owner->nranks, owner->rank, &cache);
}

/* Are all ranks on one host, and may they share its memory? Not if there are only two ranks: a connection serves two as well as a fan. */
static bool may_fan(const struct chan *chan) {
    const struct conn_owner *owner = &chan->owner;
    bool may = owner->config->fans && owner->nranks > 2 && owner->gpu == NULL;
    for (int rank = 1; rank < owner->nranks && may; rank++) {
        const struct transport *transport = chan_pair_transport(chan, 0, rank);
        may = transport != NULL && (transport->bit & (COLLET_TRANSPORT_SELF | COLLET_TRANSPORT_SHM)) != 0;
    }
    return may;
}

enum collet_result chan_create(const struct chan_options *options, struct chan **chan_p) {
    const struct config *config = options->config;
    struct chan *chan;
    COLLET_TRY(memory_get(&chan, 1, sizeof *chan, "no memory for the connection table"));
    chan->owner = (struct conn_owner){.boot = options->boot,
                                      .config = config,
                                      .peers = boot_peers(options->boot),
                                      .nranks = options->nranks,
                                      .rank = options->rank,
                                      .gpu = options->gpu};
    const struct chan_scale scale = {
        .nranks = options->nranks,
        .node_ranks = crowd_of_node(chan->owner.peers, options->nranks, chan->owner.peers[0].node),
        .messages = sends_messages(chan),
        .on_gpus = options->gpu != NULL,
        .turns = options->turns,
    };
    chan_layouts(config, &scale, chan->owner.layouts);
    chan->far = options->far;
    chan->timeout_ms = options->timeout_ms > 0 ? options->timeout_ms : config->timeout * 1000;
    chan->name = options->name != NULL ? options->name : "";
    chan->last = &chan->owner.first;
    chan->owner.counters = chan->counters;
    chan->owner.fans = may_fan(chan);
    waiting_init(chan, options->kernel_copies);
    *chan_p = chan;
    return COLLET_SUCCESS;
}

static uint64_t key_of(const struct conn *conn) {
    return (uint64_t)conn->peer << 32 | (uint64_t)conn->channel << 16 | (uint64_t)conn->lane << 1 |
           (uint64_t)conn->side;
}

static int by_key(const void *a, const void *b) {
    uint64_t x = key_of(a), y = key_of(b);
    return (x > y) - (x < y);
}

void chan_destroy(struct chan *chan) {
    if (chan == NULL)
        return;
    for (struct conn *conn = chan->owner.first; conn != NULL; conn = conn->next)
        conn->transport->close(conn);
    for (struct conn *conn = chan->owner.first, *next; conn != NULL; conn = next) {
        next = conn->next;
        tdelete(conn, &chan->index, by_key);
        free(conn);
    }
    free(chan);
}

/* The connection with this key; NULL: conn_get() was not called for it yet. */
static struct conn *find_conn(const struct chan *chan, int peer, int channel, int lane, enum conn_side side) {
    struct conn key = {.peer = peer, .channel = channel, .lane = lane, .side = side};
    void *found = tfind(&key, &chan->index, by_key);
    return found == NULL ? NULL : *(struct conn **)found;
}

static void join_opposites(const struct chan *chan, struct conn *conn) {
    enum conn_side side = conn->side == CONN_PRODUCER ? CONN_CONSUMER : CONN_PRODUCER;
    conn->opposite = find_conn(chan, conn->peer, conn->channel, conn->lane, side);
    if (conn->opposite != NULL)
        conn->opposite->opposite = conn;
}

/* The connection with the end that the producer of a fan uses for all its consumers: the first one that was made. */
static struct conn *lead_of(const struct chan *chan, struct conn *conn) {
    struct conn *lead = chan->owner.first;
    while (lead != NULL && (lead->lead == NULL || lead->channel != conn->channel || lead->lane != conn->lane))
        lead = lead->next;
    return lead != NULL ? lead->lead : conn;
}

static enum collet_result conn_create(struct chan *chan, int peer, int channel, int lane, enum conn_side side,
                                      struct conn **conn_p) {
    const struct transport *transport =
        conn_is_fan(&chan->owner, lane) ? &transport_fan : chan_pair_transport(chan, chan->owner.rank, peer);
    if (transport == NULL)
        return err_unreachable(&chan->owner, peer);
    struct conn *conn;
    COLLET_TRY(memory_get(&conn, 1, sizeof *conn, "no memory for a connection to rank %d", peer));
    conn->side = side;
    conn->state = CONN_NEW;
    conn->peer = peer;
    conn->channel = channel;
    conn->lane = lane;
    conn->connects = lane == PROG_LANE_P2P ? PROG_TO_ALL : (enum prog_connects)(lane / CONN_LANES);
    conn->far = chan->far && crowd_apart(&chan->owner.peers[chan->owner.rank], &chan->owner.peers[peer]);
    conn->transport = transport;
    conn->owner = &chan->owner;
    if (transport->fans && side == CONN_PRODUCER)
        conn->lead = lead_of(chan, conn);
    if (tsearch(conn, &chan->index, by_key) == NULL) {
        free(conn);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a connection to rank %d", peer);
    }
    join_opposites(chan, conn);
    *chan->last = conn;
    chan->last = &conn->next;
    *conn_p = conn;
    return COLLET_SUCCESS;
}

enum collet_result conn_get(struct chan *chan, int peer, int channel, int lane, enum conn_side side,
                            struct conn **conn_p) {
    struct conn *conn = find_conn(chan, peer, channel, lane, side);
    if (conn == NULL)
        return conn_create(chan, peer, channel, lane, side, conn_p);
    *conn_p = conn;
    return COLLET_SUCCESS;
}

/* ---- set-up ---- */

/* The transport to which another connection with the same rank has fallen back; NULL: none has fallen back. */
static const struct transport *find_fallback(const struct conn *conn) {
    const struct conn *other = conn->owner->first;
    while (other != NULL && (other->peer != conn->peer || !other->fell_back))
        other = other->next;
    return other != NULL ? other->transport : NULL;
}

/* The end that creates the memory offers it to the other end. This end also chooses the transport: if a network has failed for one
 * connection, later connections do not try it again. */
static enum collet_result conn_offer(struct conn *conn) {
    struct conn_blob offer = {0};
    const struct transport *fallback = find_fallback(conn);
    if (fallback != NULL)
        conn->transport = fallback;
    COLLET_TRY(conn->transport->offer(conn, &offer));
    offer.data[offer.bytes++] = (char)transport_number(conn->transport);
    conn->state = CONN_SETUP;
    return boot_send(conn->owner->boot, conn->peer, conn_key(conn, BOOT_OFFER), offer.data, offer.bytes);
}

/* The transport with this number; NULL: it is not allowed, or does not exist. */
static const struct transport *transport_of_number(const struct config *config, int number) {
    const struct transport *const *t = transports;
    while (*t != NULL && transport_number(*t) != number)
        t++;
    return *t != NULL && allowed(config, *t) ? *t : NULL;
}

static enum collet_result conn_accept(struct conn *conn) {
    struct conn_blob offer = {0};
    COLLET_TRY(boot_try_recv(conn->owner->boot, conn->peer, conn_key(conn, BOOT_OFFER), offer.data, sizeof(offer.data),
                             &offer.bytes));
    const int number = offer.bytes > 0 ? offer.data[--offer.bytes] : -1;
    const struct transport *transport =
        conn->transport->fans ? conn->transport : transport_of_number(conn->owner->config, number);
    if (transport == NULL)
        return err_set(COLLET_ERR_INTERNAL, "rank %d offers a connection by a transport that there is not", conn->peer);
    conn->transport = transport;
    COLLET_TRY(transport->accept(conn, &offer));
    conn->state = CONN_SETUP;
    return COLLET_SUCCESS;
}

/* Logs one line per connection, which the documentation explains: both ranks, the direction, the transport, and why no transport before it
 * is used. */
static void log_connection(const struct conn *conn) {
    char reasons[256] = "";
    if (!conn->transport->fans)
        list_reasons(conn->owner, conn->peer, conn->transport, reasons, sizeof(reasons));
    log_info(CONN, "channel %d lane %d: rank %d %s %d via %s%s", conn->channel, conn->lane, conn->owner->rank,
             conn_arrow(conn), conn->peer, conn->transport->name, reasons);
}

/* Are slots written past the caches? At first that depends on the distance of the CPUs. Later the producer gauges its cache lines
 * (fifo_place.h). */
static void stores_init(struct conn *conn) {
    conn->end.place.nt_stores = (int32_t)conn->owner->config->nt_stores;
    conn->end.place.far = conn->far ? FIFO_PLACE_FAR_MAX : 0;
}

static uint32_t roam_bytes_of(const struct conn *conn) {
    const struct conn_owner *owner = conn->owner;
    int node = owner->peers[owner->rank].node;
    uint32_t roam = chan_roam_bytes(conn->transport->fans ? 1 : crowd_of_node(owner->peers, owner->nranks, node) - 1);
    if (conn->end.remote || owner->gpu != NULL)
        return 0;
    uint32_t stride = conn->end.strides[PROTOCOL_SIMPLE];
    return roam < stride ? roam : stride;
}

/* Called when the transport cannot reach the peer after all, and the other end knows this too. Both ends start again with the next
 * transport. */
static enum collet_result conn_fall_back(struct conn *conn) {
    const struct transport *const *t = transports;
    while (*t != conn->transport)
        t++;
    const struct transport *next = find_transport(t + 1, conn->owner, conn->owner->rank, conn->peer);
    if (next == NULL)
        return COLLET_ERR_UNSUPPORTED;
    log_warn(CONN, "%s; going on by %s", err_last(), next->name);
    conn->transport->close(conn);
    conn->end = (struct fifo_end){0};
    conn->impl = NULL;
    conn->transport = next;
    conn->fell_back = true;
    conn->state = CONN_NEW;
    return COLLET_IN_PROGRESS;
}

enum collet_result conn_try(struct conn *conn) {
    if (conn->state == CONN_READY)
        return COLLET_SUCCESS;
    const enum conn_side offers = conn->transport->fans ? CONN_PRODUCER : CONN_CONSUMER;
    if (conn->state == CONN_NEW)
        COLLET_TRY(conn->side == offers ? conn_offer(conn) : conn_accept(conn));
    enum collet_result result = conn->transport->ready != NULL ? conn->transport->ready(conn) : COLLET_SUCCESS;
    if (result == COLLET_ERR_UNSUPPORTED)
        return conn_fall_back(conn);
    COLLET_TRY(result);
    conn->end.remote = (uint32_t)conn->transport->remote;
    COLLET_TRY(selftest_conn_try(conn));
    conn->end.place.roam_bytes = roam_bytes_of(conn);
    stores_init(conn);
    conn->state = CONN_READY;
    if (log_wanted(LOG_INFO, LOG_CONN))
        log_connection(conn);
    return COLLET_SUCCESS;
}
