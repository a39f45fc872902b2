/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "streams".
 */
long engine_thread_start(void);
long engine_thread_start(void) { return 0; }
long engine_thread_stop(void);
long engine_thread_stop(void) { return 0; }
long engine_thread_wake(void);
long engine_thread_wake(void) { return 0; }
long stream_check(void);
long stream_check(void) { return 0; }
long stream_issue_begin(void);
long stream_issue_begin(void) { return 0; }
long stream_issue_end(void);
long stream_issue_end(void) { return 0; }
long stream_post(void);
long stream_post(void) { return 0; }
long stream_post_free(void);
long stream_post_free(void) { return 0; }
