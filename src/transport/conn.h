/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection: one direction between two ranks, on one channel and lane. The noun between two rooms:
 *
 *    chan        makes connections, finds them, moves them from NEW to READY
 *    conn        one end: its FIFO (fifo/fifo.h), where it leads, and the rank that it belongs to
 *    transport   gives an end its memory, and makes what one end writes appear at the other (transport.h)
 */
#ifndef COLLET_TRANSPORT_CONN_H
#define COLLET_TRANSPORT_CONN_H

#include "base/err.h"
#include "boot/boot.h"
#include "fifo/layout.h"
#include "program/program.h"

enum conn_side { CONN_PRODUCER, CONN_CONSUMER };
enum conn_state { CONN_NEW, CONN_SETUP, CONN_READY };

/* What a consumer offers its producer. What is in it, the transport knows; the byte behind it names the transport. */
#define CONN_BLOB_BYTES 512
struct conn_blob {
    size_t bytes;
    char data[CONN_BLOB_BYTES + 1];
};

struct transport;
struct map;
struct gpu_heads;
struct gpu_rank;
struct conn;

/* What a rank's connections count. */
enum conn_counter { CONN_RAILS_LOST, CONN_RAILS_RETURNED, CONN_COUNTERS };

/* The rank that connections belong to: all that a transport may see of it. */
struct conn_owner {
    struct boot *boot;
    const struct config *config;
    const struct peer_info *peers; /* of all ranks */
    int nranks, rank;
    struct gpu_rank *gpu; /* NULL: the rank is on host memory */
    /* Of connections, by how many an algorithm makes; equal on all ranks. */
    struct fifo_layout layouts[PROG_CONNECTS_COUNT];
    const struct map *map;   /* of chan_plan(); NULL: not yet */
    bool tied;               /* channel c leaves hosts by the NICs of ring c mod their number; else by any NIC */
    uint64_t *windows;       /* on its GPU, [rank][LOAN_WINDOWS]: see struct loan_end; NULL on the host */
    struct loan_team *teams; /* on its GPU, [LOAN_WINDOWS] */
    struct gpu_heads *heads; /* on its GPU: gpu_heads.h; NULL on the host */
    struct conn *first;      /* all connections of this rank, in order of creation: conn.next */
    uint64_t *counters;      /* CONN_COUNTERS; others may read them at any time. NULL: nobody wants to know */
    /* Payloads of so many bytes are copied by the kernel between processes of this node, since that is faster than slots; 0: none
     * is (layers/tuner/kernel_copies.h). */
    uint32_t kernel_from;
    bool whole_lines; /* all ranks, on GPUs, agreed on slots where lines of LL128 arrive whole */
    bool joined;      /* the GPUs of this node's ranks reach each other, whether processes see them or not (nvlink.h) */
};

struct conn {
    struct fifo_end end; /* first: executors hold a pointer to it */
    enum conn_side side;
    enum conn_state state;
    int peer, channel, lane;
    enum prog_connects connects; /* those of its rank, of which it is one: its slots are as long as all of them allow */
    bool fell_back;              /* the transport that was to reach the peer did not */
    bool far;                    /* the CPUs of this node are far from each other, and the ends may be on two of them */
    struct fifo_end *end_on_gpu; /* a GPU's executor moves this copy; NULL: not made yet */
    const struct transport *transport;
    void *impl; /* the transport's own */
    const struct conn_owner *owner;
    int holds; /* of the proxy, and its alone: operations under way that use it; and the last launch that does */
    uint64_t launch;
    struct conn *opposite; /* the other side between the same ranks, channel and lane; NULL: nobody has asked for it */
    struct conn *next;     /* of the owner's connections */
};

/* Algorithms that make more connections have so many lanes each of their own kind, where slots are shorter for that. Messages keep
 * theirs. */
#define CONN_LANES 64

/* The lane of the connection that an algorithm of this kind puts on that one. */
static inline int conn_lane(const struct conn_owner *owner, enum prog_connects connects, int lane) {
    const bool shorter = owner->layouts[connects].total_bytes < owner->layouts[PROG_TO_FEW].total_bytes;
    return shorter && lane < PROG_LANE_P2P ? lane + CONN_LANES * (int)connects : lane;
}

static inline const struct fifo_layout *conn_layout(const struct conn *conn) {
    return &conn->owner->layouts[conn->connects];
}

/* "->" or "<-", between this rank and the peer, for messages. */
static inline const char *conn_arrow(const struct conn *conn) { return conn->side == CONN_PRODUCER ? "->" : "<-"; }

/* Has the peer finished, and said goodbye? Then nobody at the other end waits for anything. */
static inline bool conn_peer_has_left(const struct conn *conn) {
    return boot_missing_count(conn->owner->boot) > 0 &&
           boot_peer_state(conn->owner->boot, conn->peer, NULL) == PEER_LEFT;
}

/* The key of a message about a connection, between its two ends (boot_send()). */
static inline uint64_t conn_key(const struct conn *conn, enum boot_subject subject) {
    return boot_key(subject, (uint64_t)conn->channel << 16 | (uint64_t)conn->lane);
}

/* The shortest payload that is lent by a way of COLLET_DIRECT; 0: it does not have that way. */
uint32_t conn_least_lent(const struct config *config, const char *way, uint32_t default_bytes);
/* May this rank lend payloads to a peer, and take what a peer lends it, by this way of COLLET_DIRECT? */
bool conn_is_direct(const struct conn_owner *owner, const char *way);
/* From now on the producer lends, and the consumer takes loans; default_bytes: see loan_end.least_bytes. */
void conn_allow_loans(struct conn *conn, enum loan_way way, uint32_t default_bytes);
/* The same for what lies in the commons (layers/memory/commons.h) of two processes; view: of the other one's. */
void conn_allow_commons(struct conn *conn, struct commons_view *view);

/* Consumer: says that the data of a step is not what was sent, on which link that happened, and how it was found. */
#define CONN_LINK_BYTES 288
#define CONN_BY_CHECKSUM "its CRC32C differs (COLLET_CHECKSUM)"
void conn_text_changed(const struct conn *conn, uint64_t step, const char *found, char text[ERR_TEXT_BYTES]);

#endif
