/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "streams": no call has a stream, so only the check is ever asked.
 */
#include "seams/streams.h"

enum collet_result stream_check(const void *stream) {
    (void)stream;
    return err_set(COLLET_ERR_UNSUPPORTED, "this build has no host streams: pass NULL as stream");
}

void stream_issue_begin(void) {}
void stream_issue_end(void) {}

enum collet_result stream_post(struct post *post, struct post **copy_p) {
    (void)copy_p;
    return stream_check(post->stream);
}

void stream_post_free(struct post *copy) { (void)copy; }
void engine_thread_wake(struct collet_comm *comm) { (void)comm; }
void engine_thread_stop(struct collet_comm *comm) { (void)comm; }
