/* SPDX-License-Identifier: Apache-2.0
 *
 * Somebody outside who is told of operations: a library over this one, for COLLET_PROFILER_PLUGIN (src/compat/nccl_profiler.c).
 *
 *      communicator created    open()
 *      a call begins           begin()     on host memory: when the driver takes it up; on a GPU: when it is put into its stream
 *      it ends                 end()       on host memory: when its result is there; on a GPU: at once after begin()
 *      communicator ends       close()
 *
 * The driver of the communicator makes all these calls, one after another.
 */
#ifndef COLLET_EXEC_OBSERVER_H
#define COLLET_EXEC_OBSERVER_H

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
};

struct observed_call {
    const char *collective, *algorithm, *protocol; /* names; constant */
    uint64_t sequence;
    const void *in;
    void *out, *stream;
    size_t count;
    enum collet_type type;
    int root; /* of a message: its peer */
    int nchannels;
    bool is_message; /* a send or a receive */
    int nwires;
    struct observed_wire *wires;
};

struct observer {
    enum collet_result (*open)(const char *name, const struct observed_rank *rank, void **context_p);
    void *(*begin)(void *context, const struct observed_call *call); /* what end() gets; NULL: end() is not called */
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
void observing_close(struct observing *observing); /* zeroed is fine */
void *observing_begin(const struct observing *observing, const struct exec_call *call);
void observing_end(const struct observing *observing, void *event); /* NULL is fine */

#endif
