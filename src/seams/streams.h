/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "streams": host streams, and the thread that drives their calls while nobody waits. Without the layer
 * there is no host stream, and every call is done by the thread that makes it.
 */
#ifndef COLLET_SEAMS_STREAMS_H
#define COLLET_SEAMS_STREAMS_H

#include "api/comm.h"

/* Is stream a host stream of this process? INVALID_ARGUMENT or INVALID_USAGE: no; the text has the remedy. */
enum collet_result stream_check(const void *stream);

/* Makes a copy of the post, with its place in its stream, that is kept until the call is done; also of its partner. issue: the group's
 * number. The caller holds the process's lock, which gives places in streams and in communicators in one order. So any two calls that
 * share a stream and a communicator have the same order in both, and all calls of a group get one place per stream. The first call
 * starts the communicator's thread collet-engine. */
enum collet_result stream_post(struct post *post, uint64_t issue, struct post **copy_p);

/* Frees such a copy; the thread that drives calls it. */
void stream_post_free(struct post *copy);

/* Wakes collet-engine: there may be work. No effect if the communicator has no such thread. */
void engine_thread_wake(struct collet_comm *comm);

#endif
