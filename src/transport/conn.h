/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection: one direction between two ranks, on one channel and lane. Two rooms share this type:
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

/* A consumer's offer to its producer. Only the transport knows its content. The byte after the content names the
 * transport. */
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

/* The counters that all connections of a rank share. */
enum conn_counter { CONN_RAILS_LOST, CONN_RAILS_RETURNED, CONN_COUNTERS };

/* The rank that owns connections. A transport may see no more of it than this. */
struct conn_owner {
    struct boot *boot;
    const struct config *config;
    const struct peer_info *peers; /* [rank] */
    int nranks, rank;
    struct gpu_rank *gpu; /* NULL: the rank uses host memory */
    /* [enum prog_connects]: layout of the connections of this kind; equal on all ranks */
    struct fifo_layout layouts[PROG_CONNECTS_COUNT];
    const struct map *map; /* set by planner_create(); NULL before */
    /* True: channel c uses only the NICs of ring c mod norders. Otherwise every channel may use any NIC. */
    bool tied;
    /* [rank][LOAN_WINDOWS], in memory of the rank's GPU: see struct loan_end; NULL: the rank uses host memory. */
    uint64_t *windows;
    struct loan_team *teams; /* [LOAN_WINDOWS], in memory of the rank's GPU */
    /* The heads that lie on the rank's GPU (gpu_heads.h); NULL: the rank uses host memory. */
    struct gpu_heads *heads;
    struct conn *first; /* list of all connections of this rank, in order of creation (conn.next) */
    /* [CONN_COUNTERS]: other threads may read these at any time; NULL: nothing is counted. */
    uint64_t *counters;
    /* Minimum payload that the kernel copies between processes of this node, because that is faster than slots. 0: the
     * kernel copies nothing (layers/tuner/host_find.h). */
    uint32_t kernel_from;
    bool whole_lines; /* GPUs: all ranks agreed to place slots only where lines of LL128 arrive whole */
    bool fans;        /* data for all other ranks is written once (fifo/fan.h); equal on all ranks */
    bool joined;      /* all GPUs of this node's ranks can access each other (nvlink.h) */
};

struct conn {
    struct fifo_end end; /* must be first: executors hold a pointer to it */
    enum conn_side side;
    enum conn_state state;
    int peer, channel, lane;
    enum prog_connects connects; /* kind of connection: its slots have the size of this kind */
    bool fell_back;              /* the first transport could not reach the peer; this is the next one */
    bool far;                    /* the CPUs of this node are far from each other, and the ends may be on two of them */
    struct fifo_end *end_on_gpu; /* copy that a GPU's executor uses; NULL: none yet */
    const struct transport *transport;
    void *impl; /* private data of the transport */
    const struct conn_owner *owner;
    struct conn *lead; /* producer of a fan: the connection with the end that all consumers read from; else NULL */
    int holds;         /* proxy: number of operations that use the connection. launch: the last launch that uses it */
    uint64_t launch;
    struct conn *opposite; /* connection with the other side, same peer, channel and lane; NULL: none yet */
    struct conn *next;     /* next connection of the owner */
};

/* Each kind of algorithm whose connections have shorter slots uses CONN_LANES lanes of its own. Messages keep their lane. */
#define CONN_LANES 64

/* Does a rank have one end for all its consumers on this lane? */
static inline bool conn_is_fan(const struct conn_owner *owner, int lane) {
    return owner->fans && lane % CONN_LANES == PROG_LANE_ALL;
}

/* The end that an executor uses. */
static inline struct fifo_end *conn_end(struct conn *conn) {
    return conn->lead != NULL ? &conn->lead->end : &conn->end;
}

/* The lane of a connection, for an algorithm of this kind that asks for `lane`. */
static inline int conn_lane(const struct conn_owner *owner, enum prog_connects connects, int lane) {
    const bool shorter = owner->layouts[connects].total_bytes < owner->layouts[PROG_TO_FEW].total_bytes;
    return shorter && lane < PROG_LANE_P2P ? lane + CONN_LANES * (int)connects : lane;
}

static inline const struct fifo_layout *conn_layout(const struct conn *conn) {
    return &conn->owner->layouts[conn->connects];
}

/* "->" or "<-" between this rank and the peer, for texts. */
static inline const char *conn_arrow(const struct conn *conn) { return conn->side == CONN_PRODUCER ? "->" : "<-"; }

/* Has the peer finished, and said goodbye? Then no rank at the other end waits any more. */
static inline bool conn_peer_has_left(const struct conn *conn) {
    return boot_missing_count(conn->owner->boot) > 0 &&
           boot_peer_state(conn->owner->boot, conn->peer, NULL) == PEER_LEFT;
}

/* The key of a message about a connection, between its two ends (boot_send()). */
static inline uint64_t conn_key(const struct conn *conn, enum boot_subject subject) {
    return boot_key(subject, (uint64_t)conn->channel << 16 | (uint64_t)conn->lane);
}

/* The minimum payload that is lent this way (COLLET_DIRECT); 0: COLLET_DIRECT does not allow this way. */
uint32_t conn_least_lent(const struct config *config, const char *way, uint32_t default_bytes);
/* May this rank lend to a peer, and borrow from it, in this way of COLLET_DIRECT? */
bool conn_is_direct(const struct conn_owner *owner, const char *way);
/* Allows loans: from now on the producer lends, and the consumer borrows. default_bytes: see loan_end.least_bytes. */
void conn_allow_loans(struct conn *conn, enum loan_way way, uint32_t default_bytes);
/* Allows loans of payloads in the shared heap of two processes (layers/memory/heap.h). view: the other process's shared heap. */
void conn_allow_heap(struct conn *conn, struct heap_view *view);

#endif
