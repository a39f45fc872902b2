/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "streams": host streams, and the thread that drives their calls while nobody waits. Without the layer
 * there is no host stream, and every call is done by the thread that makes it.
 */
#ifndef COLLET_SEAMS_STREAMS_H
#define COLLET_SEAMS_STREAMS_H

#include "api/comm.h"

/* INVALID_ARGUMENT or INVALID_USAGE with a remedy unless stream is a host stream of this process. */
enum collet_result stream_check(const void *stream);

/* With the process's lock, under which the calls of one thread get their places in streams and in communicators: so every two calls
 * that share a stream and a communicator are in the same order in both, and the calls of a group get one place in each stream.
 * A copy of the post that stays until it is done, with its place in its stream; its partner's too. issue: the group's number. From the first one on the
 * communicator has the thread collet-engine. */
enum collet_result stream_post(struct post *post, uint64_t issue, struct post **copy_p);

/* Takes such a copy back, by whichever thread drives. */
void stream_post_free(struct post *copy);

/* There may be something to be done for the thread collet-engine. No effect where the communicator has no such thread. */
void engine_thread_wake(struct collet_comm *comm);

#endif
