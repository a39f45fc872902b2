/* SPDX-License-Identifier: Apache-2.0
 *
 * Host streams, as the calls see them: queues that outlive the calls.
 */
#ifndef COLLET_LAYERS_STREAMS_STREAM_H
#define COLLET_LAYERS_STREAMS_STREAM_H

#include "api/engine.h"

/* INVALID_ARGUMENT or INVALID_USAGE with a remedy unless stream is a host stream of this process. */
enum collet_result stream_check(const void *stream);

/* Between these two, the calls of one thread get their places in streams and in communicators: so every two calls that share
 * a stream and a communicator are in the same order in both, and the calls of a group get one place in each stream. */
void stream_issue_begin(void);
void stream_issue_end(void);

/* A copy of the post that stays until it is done, with its place in its stream; its partner's too. */
enum collet_result stream_post(struct post *post, struct post **copy_p);

/* Takes such a copy back, by whichever thread drives. */
void stream_post_free(struct post *copy);

#endif
