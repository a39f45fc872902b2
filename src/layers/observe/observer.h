/* SPDX-License-Identifier: Apache-2.0
 *
 * An observer is told of operations: a library on top of this one, for COLLET_PROFILER_PLUGIN
 * (src/layers/nccl/nccl_profiler.c).
 *
 *      communicator created    open()
 *      a call begins           begin()     on host memory: when the driver takes it up; on a GPU: when it is put into its stream
 *      its messages move       message()   on host memory, over wires: seen when the driver tries the call again
 *      the call ends           end()       on host memory: when its result is there; on a GPU: at once after begin()
 *      communicator ends       close()
 *
 * The driver of the communicator makes all these calls, one after another.
 */
#ifndef COLLET_LAYERS_OBSERVE_OBSERVER_H
#define COLLET_LAYERS_OBSERVE_OBSERVER_H

#include "exec/exec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct observed_rank {
    uint64_t communicator; /* a number that no other communicator has */
    const char *name;      /* name of the communicator; may be empty */
    int nnodes, nranks, rank;
};

/* A connection over a wire that a call uses. */
struct observed_wire {
    int channel, peer;
    bool sends;
    int messages; /* maximum number of messages through this connection in the call */
    size_t chunk_bytes;
    void *event; /* private data of the observer */
};

/* States of a message, in turn. WAITING: a sender waits until the executor has filled a slot; a receiver waits until the wire has filled
 * a slot. MOVED: a sender's message is on its way until a credit comes back; a receiver's message waits until the executor has taken it.
 * OVER: the credit has come, or the executor has taken the message. */
enum observed_state { OBSERVED_WAITING, OBSERVED_MOVED, OBSERVED_OVER };

struct observed_message {
    const struct observed_wire *wire;
    int number; /* number of the message on its wire in the call */
    enum observed_state state;
    size_t bytes; /* MOVED: bytes of the message */
};

struct observer {
    enum collet_result (*open)(const char *name, const struct observed_rank *rank, void **context_p);
    void *(*begin)(void *context, const struct exec_call *call); /* returns the event; NULL: end() is not called */
    void (*begin_wire)(void *context, void *event, struct observed_wire *wire);
    /* handle: the result of this function for the message's previous state; at first NULL. */
    void *(*message)(void *context, const struct observed_message *message, void *handle);
    void (*end_wire)(void *context, struct observed_wire *wire);
    void (*end)(void *context, void *event);
    void (*close)(void *context);
};

/* Sets the observer for communicators with COLLET_PROFILER_PLUGIN. */
void observer_take(const struct observer *observer);

/* ---- the observer of one communicator ---- */

struct observing {
    const struct observer *observer; /* NULL: nobody observes */
    void *context;
};

enum collet_result observing_open(struct observing *observing, const struct chan *chan);
/* Does nothing if *observing is zeroed. */
void observing_close(struct observing *observing);
/* A call that is observed. */
struct observed;
struct observed *observing_begin(const struct observing *observing, const struct exec_call *call); /* NULL: no memory */
void observing_look(struct observed *observed); /* tells the observer which messages have moved */
void observing_end(struct observed *observed);  /* does nothing for NULL */

#endif
