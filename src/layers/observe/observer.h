/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody outside who is told of operations: a library over this one, for COLLET_PROFILER_PLUGIN (src/layers/nccl/nccl_profiler.c).
 *
 *      communicator created    open()
 *      a call begins           begin()     on host memory: when the driver takes it up; on a GPU: when it is put into its stream
 *      its messages move       message()   on host memory, over wires: seen when the driver tries the call again
 *      it ends                 end()       on host memory: when its result is there; on a GPU: at once after begin()
 *      communicator ends       close()
 *
 * The driver of the communicator makes all these calls, one after another.
 */
#ifndef COLLET_LAYERS_OBSERVE_OBSERVER_H
#define COLLET_LAYERS_OBSERVE_OBSERVER_H

#include "collet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct observed_rank {
    uint64_t communicator; /* a number that only its ranks have */
    const char *name;      /* of the communicator; may be empty */
    int nnodes, nranks, rank;
};

/* A connection over a wire that a call uses. */
struct observed_wire {
    int channel, peer;
    bool sends;
    int messages; /* at most so many go through it in the call */
    size_t chunk_bytes;
    void *event; /* the observer's own */
};

/* Of a message in turn. A sender waits for the executor to fill a slot, a receiver for the wire to do so. Then a sender's message is
 * on its way until a credit comes back, a receiver's waits until the executor has taken it. */
enum observed_state { OBSERVED_WAITING, OBSERVED_MOVED, OBSERVED_OVER };

struct observed_message {
    const struct observed_wire *wire;
    int number; /* number of the message on its wire in the call */
    enum observed_state state;
    size_t bytes; /* bytes of a message that has moved */
};

struct observed_call {
    const char *collective, *algorithm, *protocol; /* names; constant */
    uint64_t sequence;
    const void *in;
    void *out, *stream;
    size_t count;
    enum collet_type type;
    int root; /* for a message: its peer */
    int nchannels;
    bool is_message; /* a send or a receive */
    bool on_host;    /* it is observed until it ends */
};

struct observer {
    enum collet_result (*open)(const char *name, const struct observed_rank *rank, void **context_p);
    void *(*begin)(void *context, const struct observed_call *call); /* the call's event; NULL: end() is not called */
    void (*begin_wire)(void *context, void *event, struct observed_wire *wire);
    /* handle: what it returned for the last state of the message, at first NULL. */
    void *(*message)(void *context, const struct observed_message *message, void *handle);
    void (*end_wire)(void *context, struct observed_wire *wire);
    void (*end)(void *context, void *event);
    void (*close)(void *context);
};

/* From now on, of communicators with COLLET_PROFILER_PLUGIN. */
void observer_take(const struct observer *observer);

/* ---- of a communicator ---- */

struct chan;
struct exec_call;
struct observing {
    const struct observer *observer; /* NULL: nobody observes */
    void *context;
};

enum collet_result observing_open(struct observing *observing, const struct chan *chan);
void observing_close(struct observing *observing);                                                 /* zeroed is fine */
struct observed;                                                                                   /* a call */
struct observed *observing_begin(const struct observing *observing, const struct exec_call *call); /* NULL: no memory */
void observing_end(struct observed *observed);                                                     /* NULL is fine */

#endif
