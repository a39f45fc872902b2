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

#include "base/os.h"
#include "transport/conn.h"

struct transport {
    const char *name; /* as in COLLET_TRANSPORT */
    uint32_t bit;     /* in collet_config.transports: one of its own, below 1 << BOOT_CARDS */

    bool remote;   /* fifo_end.remote: progress() carries slots over a wire */
    bool messages; /* each slot is a message of its own, or takes system calls: fewer and longer ones are better */
    bool copies;   /* progress() takes time per byte: several threads carry more than one */
    bool encrypts; /* COLLET_ENCRYPT is of use: nobody on the way reads what progress() carries */

    /* What a rank on this device says of itself to all others before there are connections, for reaches(); 0: nothing. NULL: it
     * never says anything. */
    uint64_t (*card)(int device);
    bool card_is_device; /* the card of a rank is the identity of its device */

    /* Can these two ranks use it? Symmetric and pure: both ends must come to the same answer. On false *why says why
     * not, in a static string. */
    bool (*reaches)(const struct peer_info *a, const struct peer_info *b, const char **why);

    /* Consumer: creates its end: memory, conn->end, conn->impl, and what the producer must know, in *offer. */
    enum collet_result (*offer)(struct conn *conn, struct conn_blob *offer);

    /* Producer: creates its end from the consumer's offer (the peer is trusted, but lengths are checked). */
    enum collet_result (*accept)(struct conn *conn, const struct conn_blob *offer);

    /* Either end, repeatedly after the above: SUCCESS once slots may be used, IN_PROGRESS before. UNSUPPORTED: the peer
     * cannot be reached after all; then the other end is told so too, by the transport. NULL: at once. */
    enum collet_result (*ready)(struct conn *conn);

    /* Either end, whenever the executor has time: moves what can be moved. SUCCESS if something moved, IN_PROGRESS if
     * not, or a failure that names the peer. NULL where ends share memory. */
    enum collet_result (*progress)(struct conn *conn);

    /* Is there nothing left for progress() to do on its own account? Producer: every published slot was handed to the
     * operating system or NIC; consumer: no credit that is due is still unsent. A call is complete only when all its
     * connections are idle, because nobody makes progress between calls. NULL where progress is. */
    bool (*idle)(const struct conn *conn);

    /* Either end, now and then while this rank waits in a call that does not use the connection, or is in no call: does what
     * the other end may be waiting for, or the two would wait for each other. Never fails: the next call on the connection is
     * told, or the communicator. verbs has it for rails that died or come back (verbs_failover.c), tcp to notice a network that is
     * dead. NULL where there is nothing of the kind. */
    void (*attend)(struct conn *conn);
    bool others_wait; /* for attend(): also while this rank is in no call */

    /* The CPUs next to the NIC that a connection goes by, for whoever carries its slots. NULL, or an empty set: not known. */
    const struct os_cpu_set *(*cpus)(const struct conn *conn);

    /* Consumer: the link that the slot of a step came by, as people know it. NULL where ends share memory. */
    void (*link_text)(const struct conn *conn, uint64_t step, char text[CONN_LINK_BYTES]);

    /* Either end, whose call has failed: when it returns, the program's memory is not sent from any more. The communicator is
     * over. NULL where only progress() touches memory of the program. */
    void (*stop)(struct conn *conn);

    /* Frees conn->impl and memory; works on a half-made end (impl NULL). */
    void (*close)(struct conn *conn);
};

/* Also: is nothing lent to its consumer any more? */
static inline bool conn_is_idle(struct conn *conn) {
    return fifo_loans_are_over(&conn->end) && (conn->transport->idle == NULL || conn->transport->idle(conn));
}

/* In order of preference; ends with NULL (registry.c). */
extern const struct transport *const transports[];

/* The number of its card, and of its messages. */
static inline int transport_number(const struct transport *transport) { return __builtin_ctz(transport->bit); }
/* NULL: there is none of this name. */
const struct transport *transport_named(const char *name);

/* All cards of a rank that is about to join. */
void transport_cards(int device, uint64_t cards[BOOT_CARDS]);
/* What a rank said of itself for this transport. */
static inline uint64_t transport_card(const struct transport *transport, const struct peer_info *peer) {
    return peer->cards[transport_number(transport)];
}
/* Are two ranks on one device, as a transport's cards say? */
bool transport_shares_device(const struct peer_info *a, const struct peer_info *b);

/* The key of a message between the two ends of a connection (boot_send()); letter: which of the transport's own messages it is,
 * 0 … 255. */
static inline uint64_t transport_key(const struct conn *conn, unsigned letter) {
    uint64_t number = (uint64_t)transport_number(conn->transport);
    return conn_key(conn, BOOT_TRANSPORT) | number << 40 | (uint64_t)letter << 32;
}

#endif
