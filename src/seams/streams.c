/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "streams" no call has a stream, so only stream_check() is ever called.
 */
#include "seams/streams.h"

enum collet_result stream_check(const void *stream) {
    (void)stream;
    return err_set(COLLET_ERR_UNSUPPORTED, "this build has no host streams: pass NULL as stream");
}

enum collet_result stream_post(struct post *post, uint64_t issue, struct post **copy_p) {
    (void)issue, (void)copy_p;
    return stream_check(post->stream);
}

void stream_post_free(struct post *copy) { (void)copy; }
void engine_thread_wake(struct collet_comm *comm) { (void)comm; }
