/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections of one rank: found by (peer, channel, lane, side), made on first use, kept until the communicator ends.
 *
 *    consumer                                   control plane                             producer
 *    conn_get ── transport.offer ──▶ memory ─────── blob ──────▶ transport.accept ── maps or connects
 *             ◀──────────────────────── transport.ready on both ends ─────────────▶
 *
 * The consumer owns the memory. Both steps are resumable: conn_try() moves a connection forward and returns, so that one
 * thread can set up connections of many ranks.
 */
#ifndef COLLET_CHAN_CHAN_H
#define COLLET_CHAN_CHAN_H

#include "base/call_lock.h"
#include "base/config.h"
#include "boot/boot.h"
#include "gpu/gpu.h"
#include "fifo/fifo.h"

enum conn_side { CONN_PRODUCER, CONN_CONSUMER };
enum conn_state { CONN_NEW, CONN_SETUP, CONN_READY };

#define CONN_BLOB_BYTES 512
struct conn_blob {
    size_t bytes;
    char data[CONN_BLOB_BYTES];
};

struct transport;
struct chan;
struct proxy_client;
struct topo_rings;

struct conn {
    struct fifo_end end; /* first: executors hold a pointer to it */
    enum conn_side side;
    enum conn_state state;
    int peer, channel, lane;
    struct fifo_end *end_on_gpu; /* a GPU's executor moves this copy; NULL: not made yet */
    const struct transport *transport;
    void *impl; /* the transport's own */
    struct chan *chan;
    struct conn *next; /* all connections of this rank, in order of creation */
};

/* The connections of one rank of one communicator, and what they are made with. */
struct chan {
    struct boot *boot;
    struct gpu_rank *gpu;       /* NULL: on host memory */
    struct proxy_client *proxy; /* carries slots over networks (proxy/proxy.h); NULL: the executor does */
    const struct config *config;
    const struct peer_info *peers;
    int nranks, rank;
    const struct topo_rings *rings; /* channel c leaves hosts by the NICs of ring c mod their number; NULL: by any */
    uint32_t spin;                  /* polls before a waiting rank yields its CPU */
    uint32_t yield_ns;              /* … and yields before it sleeps; 0: the waiting policy's own */
    bool far;                       /* the CPUs of this node are far from each other; told by who creates the chan */
    bool whole_lines;          /* of GPUs: all agreed on slots where lines of LL128 arrive whole; told by the planner */
    uint64_t cache_bytes;      /* this rank's part of the last cache */
    int64_t timeout_ms;        /* longest time without progress */
    struct fifo_layout layout; /* of every connection; equal on all ranks */
    struct conn *first, **last;
    struct conn **index; /* open-addressed by key */
    uint32_t index_size, nconns;
    uint64_t *gpu_buses;    /* of ranks, plus 1; 0: not told yet (transport/ipc.c) */
    uint64_t meetings;      /* of all ranks, before first uses of programs on GPUs */
    struct call_lock *lock; /* attend.c: held by who uses this struct; NULL: not listed */
    struct chan *next_chan; /* attend.c: in the list of the process's */
};

/* The layout that a communicator of nranks ranks gets, whose slots are messages (transport.h) or not. */
struct fifo_layout chan_layout(const struct config *config, int nranks, bool messages);

/* gpu: NULL for a rank on host memory. */
enum collet_result chan_create(struct boot *boot, const struct config *config, int nranks, int rank,
                               struct gpu_rank *gpu, struct chan **chan_p);
void chan_destroy(struct chan *chan); /* closes all connections; NULL is fine */

/* The connection, created in state NEW if it is asked for the first time. Errors: NO_MEMORY, UNSUPPORTED (no allowed
 * transport reaches the peer; the text says why for each). */
enum collet_result conn_get(struct chan *chan, int peer, int channel, int lane, enum conn_side side,
                            struct conn **conn_p);

/* The same, but NULL if it was never asked for. */
struct conn *conn_find(const struct chan *chan, int peer, int channel, int lane, enum conn_side side);

/* The key of a message about a connection, between its two ends (boot_send()). */
static inline uint64_t conn_key(const struct conn *conn, enum boot_subject subject) {
    return boot_key(subject, (uint64_t)conn->channel << 8 | (uint64_t)conn->lane);
}

/* The failure of a connection whose slots cannot lie where its chan's whole_lines says that all do. */
enum collet_result conn_err_not_whole(const struct conn *conn);

/* Moves a connection toward READY: SUCCESS when it is, IN_PROGRESS while it is not, or a failure. */
enum collet_result conn_try(struct conn *conn);

/* attend.c: a rank that waits does meanwhile what other ranks may be waiting for. */
void chan_attend(struct chan *chan); /* on any connection of the communicator, whose thread this is … */
void chan_attend_others(void);       /* … and on those of the process's other communicators that nobody is using */
/* From now on chan is one of those others, while nobody holds the lock of its calls. */
void chan_list(struct chan *chan, struct call_lock *lock);
void chan_unlist(struct chan *chan); /* never listed is fine */

/* The transport that two ranks use with each other: the first of the registry that is allowed and reaches; the answer is
 * the same on every rank. NULL if there is none. */
const struct transport *chan_pair_transport(const struct chan *chan, int a, int b);

/* Where everything is in a connection of nslots slots of slot_bytes, LL and LL128 slots of ll_bytes payload. */
struct fifo_layout fifo_layout_of(uint32_t nslots, uint32_t slot_bytes, uint32_t ll_bytes);
/* Points end into memory laid out so, with both counters at first_step. The consumer's side also initialises memory. */
void fifo_end_init(struct fifo_end *end, void *memory, const struct fifo_layout *layout, const struct config *config);
void fifo_memory_init(void *memory, const struct fifo_layout *layout, const struct config *config);
/* The same where memory is that of the GPU that chan's rank is on. */
enum collet_result fifo_memory_init_on_gpu(const struct chan *chan, void *memory);

#endif
