/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "gpu".
 */
long exec_copies_close(void);
long exec_copies_close(void) { return 0; }
long exec_copies_prepare(void);
long exec_copies_prepare(void) { return 0; }
long exec_gpu_end(void);
long exec_gpu_end(void) { return 0; }
long exec_gpu_load(void);
long exec_gpu_load(void) { return 0; }
long exec_gpu_may_switch(void);
long exec_gpu_may_switch(void) { return 0; }
long exec_gpu_meet(void);
long exec_gpu_meet(void) { return 0; }
long exec_gpu_unwatch(void);
long exec_gpu_unwatch(void) { return 0; }
long exec_gpu_watch(void);
long exec_gpu_watch(void) { return 0; }
long gpu_find(void);
long gpu_find(void) { return 0; }
long gpu_rank_create(void);
long gpu_rank_create(void) { return 0; }
long gpu_rank_destroy(void);
long gpu_rank_destroy(void) { return 0; }
long gpu_rank_take(void);
long gpu_rank_take(void) { return 0; }
long gpu_rank_wait(void);
long gpu_rank_wait(void) { return 0; }
long gpu_windows_end(void);
long gpu_windows_end(void) { return 0; }
long launch_run(void);
long launch_run(void) { return 0; }
long proxy_hold(void);
long proxy_hold(void) { return 0; }
long proxy_leave(void);
long proxy_leave(void) { return 0; }
long proxy_pause(void);
long proxy_pause(void) { return 0; }
long proxy_release(void);
long proxy_release(void) { return 0; }
long proxy_resume(void);
long proxy_resume(void) { return 0; }
long proxy_serve(void);
long proxy_serve(void) { return 0; }
long gpu_limit(void);
long gpu_limit(void) { return 0; }
long gpu_choose(void);
long gpu_choose(void) { return 0; }
long gpu_may_lend(void);
long gpu_may_lend(void) { return 0; }
