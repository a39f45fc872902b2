/* SPDX-License-Identifier: Apache-2.0 */
#include "onesided.h"

/* The newest window of the calling thread, which drives one rank. */
static _Thread_local struct {
    struct collet_comm *comm;
    void *buff;
    size_t bytes;
    struct collet_window *window;
} newest;

enum collet_result onesided_window(struct collet_comm *comm, void *buff, size_t bytes, struct collet_window **window) {
    enum collet_result result = COLLET_SUCCESS;
    if (newest.comm != comm || newest.buff != buff || newest.bytes != bytes) {
        result = newest.comm == comm ? collet_win_deregister(comm, newest.window) : COLLET_SUCCESS;
        newest.comm = comm;
        newest.buff = buff;
        newest.bytes = bytes;
        if (result == COLLET_SUCCESS)
            result = collet_win_register(comm, buff, bytes, &newest.window);
    }
    *window = newest.window;
    return result;
}

struct perf_origin onesided_origin(const struct perf_call *call, size_t element) {
    return (struct perf_origin){onesided_before(call), element, SIZE_MAX};
}

const char *onesided_refuses(const struct perf_job *job) {
    if (job->options->gpus > 1)
        return "a thread has one rank here: puts and gets are not part of a group (-g 1)";
    if (perf_device != NULL && job->options->registered != PERF_IN_WINDOWS)
        return "windows of GPUs need buffers of collet_mem_alloc() that stay: -R 2";
    return NULL;
}
