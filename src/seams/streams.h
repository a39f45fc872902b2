/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "streams": host streams, and the thread that drives their calls while no caller waits. Without the layer
 * there is no host stream, and the thread that makes a call also drives it.
 */
#ifndef COLLET_SEAMS_STREAMS_H
#define COLLET_SEAMS_STREAMS_H

#include "api/comm.h"

/* Is `stream` a host stream of this process? INVALID_ARGUMENT or INVALID_USAGE: it is not, and the text has the remedy. */
enum collet_result stream_check(const void *stream);

/* Copies a post, and its partner, and gives it a place in its stream. The copy lives until the call is done. issue: the number of the
 * call's group. The caller holds the process's lock while calls get their places in streams and in communicators. So two calls that
 * share a stream and a communicator have the same order in both. All calls of a group get one place per stream. The first
 * call of stream_post() starts the communicator's thread collet-engine. */
enum collet_result stream_post(struct post *post, uint64_t issue, struct post **copy_p);

/* Frees a copy that stream_post() has made. The driver calls this. */
void stream_post_free(struct post *copy);

/* Wakes the thread collet-engine, because there may be work. It has no effect if the communicator has no such thread. */
void engine_thread_wake(struct collet_comm *comm);

#endif
