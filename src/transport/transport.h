/* SPDX-License-Identifier: Apache-2.0
 *
 * What a transport does: make one end's slots appear at the other end. One file per transport, one line in registry.c.
 *
 * Where the consumer's memory can be mapped by the producer (self, shm), the work is over once it is mapped: both ends
 * touch the same slots. Otherwise (tcp, verbs) each end has FIFO memory of its own with the same layout, the executor
 * works on that, and progress() carries published slots one way, and where the wire needs them credits the other way:
 *
 *    producer's FIFO: tail moved by executor ─▶ progress() sends slots ─▶ progress() stores them, moves consumer's tail
 *    producer's FIFO: head moved by progress() ◀─────── credits ───────── progress() sees executor move consumer's head
 *
 * No function blocks. All are called by the thread that runs the communicator, or a proxy (layers/gpu/proxy.h), never by two at
 * once for connections of one rank; where progress() copies, two at once may call it for connections that are not between the
 * same ranks, channel and lane. The executor may run at the same time, in another thread or on a GPU.
 */
#ifndef COLLET_TRANSPORT_TRANSPORT_H
#define COLLET_TRANSPORT_TRANSPORT_H

#include "base/cpus.h"
#include "transport/conn.h"

#define CONN_LINK_BYTES 288 /* size of the text that link_text() writes */

struct transport {
    const char *name; /* its name in COLLET_TRANSPORT */
    uint32_t bit;     /* its bit in collet_config.transports: unique, below 1 << BOOT_CARDS */

    bool remote;   /* fifo_end.remote: progress() carries slots over a wire */
    bool messages; /* each slot is a message, or takes system calls: fewer, longer slots are better */
    bool copies;   /* progress() takes CPU time per byte: several threads are faster than one */
    bool fans;     /* the producer makes the memory, and offers it to all other ranks (fan.c) */
    bool encrypts; /* supports COLLET_ENCRYPT: nobody on the way can read the data */

    /* What a rank on this device tells all other ranks when it joins; reaches() uses it. 0: nothing. NULL: this transport never
     * tells anything. */
    uint64_t (*card)(int device);
    bool card_is_device; /* the card is the identity of the rank's device */

    /* Can these two ranks use this transport? The function is symmetric and pure, because both ends must get the same answer. False: *why
     * says why not (a static string). */
    bool (*reaches)(const struct peer_info *a, const struct peer_info *b, const char **why);

    /* Consumer: creates its end: memory, conn->end and conn->impl. Writes what the producer must know to *offer. */
    enum collet_result (*offer)(struct conn *conn, struct conn_blob *offer);

    /* Producer: creates its end from the consumer's offer. (The peer is trusted, but lengths are checked.) */
    enum collet_result (*accept)(struct conn *conn, const struct conn_blob *offer);

    /* Either end, called again and again after that. SUCCESS: slots may be used. IN_PROGRESS: not yet. UNSUPPORTED: the peer cannot be
     * reached after all; the transport tells the other end too. NULL: slots may be used at once. */
    enum collet_result (*ready)(struct conn *conn);

    /* Either end, whenever the executor has time: moves slots and credits. SUCCESS: something moved. IN_PROGRESS: nothing did. Else
     * a failure that names the peer. NULL: the ends share memory. */
    enum collet_result (*progress)(struct conn *conn);

    /* Has progress() no work of its own left? Producer: the operating system or NIC has every published slot. Consumer: every
     * credit that is due is sent. A call is complete only when all its connections are idle, because between calls nobody makes
     * progress. NULL if progress is NULL. */
    bool (*idle)(const struct conn *conn);

    /* Either end, from time to time while this rank waits in a call that does not use the connection, or is in no call. It does what the
     * other end may wait for; otherwise both could wait for each other. It never fails: the error goes to the next call on the
     * connection, or to the communicator. verbs uses it for rails that died or come back (verbs_failover.c), tcp to notice a dead
     * network. NULL: not needed. */
    void (*attend)(struct conn *conn);

    /* The CPUs near the NIC of a connection, for the thread that carries its slots. NULL, or an empty set: not known. */
    const struct os_cpu_set *(*cpus)(const struct conn *conn);

    /* Consumer: describes the link on which a step's slot came, for people. NULL: the ends share memory. */
    void (*link_text)(const struct conn *conn, uint64_t step, char text[CONN_LINK_BYTES]);

    /* Either end, after its call failed: stops all sends from the program's memory before it returns. The communicator is over. NULL if
     * only progress() touches the program's memory. */
    void (*stop)(struct conn *conn);

    /* Frees conn->impl and its memory. It also works on an incomplete end (impl NULL). */
    void (*close)(struct conn *conn);
};

/* Has the wire of the connection nothing to do? */
static inline bool conn_is_idle(const struct conn *conn) {
    return conn->transport->idle == NULL || conn->transport->idle(conn);
}

/* Consumer: writes that the data of a step changed on the way, on which link, and how that was found. */
#define CONN_BY_CHECKSUM "its CRC32C differs (COLLET_CHECKSUM)"
void conn_text_changed(const struct conn *conn, uint64_t step, const char *found, char text[ERR_TEXT_BYTES]);

/* All transports in order of preference; the last entry is NULL (registry.c). */
extern const struct transport *const transports[];

/* How all other ranks of a host read what one of them writes (fan.c). It is no choice between two ranks, so it is not in that list. */
extern const struct transport transport_fan;

/* The transport's number, for its card and its messages. */
static inline int transport_number(const struct transport *transport) { return __builtin_ctz(transport->bit); }
/* The transport of this name; NULL: none. */
const struct transport *transport_named(const char *name);

/* Fills in all cards of a rank that is about to join. */
void transport_cards(int device, uint64_t cards[BOOT_CARDS]);
/* The card of a rank for this transport. */
static inline uint64_t transport_card(const struct transport *transport, const struct peer_info *peer) {
    return peer->cards[transport_number(transport)];
}
/* Do the cards of two ranks say that they use one device? */
bool transport_shares_device(const struct peer_info *a, const struct peer_info *b);

/* The key of a message between the ends of a connection (boot_send()). letter: which message of the transport it is,
 * 0 … 255. */
static inline uint64_t transport_key(const struct conn *conn, unsigned letter) {
    uint64_t number = (uint64_t)transport_number(conn->transport);
    return conn_key(conn, BOOT_TRANSPORT) | number << 40 | (uint64_t)letter << 32;
}

#endif
