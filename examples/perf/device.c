/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses what is measured: GPUs if this build can use GPUs and there are some, else host memory.
 */
#include "perf.h"

const struct perf_device *perf_device;

#if defined(COLLET_CUDA)
extern const struct perf_device perf_device_cuda;
static const struct perf_device *const built = &perf_device_cuda;
#else
static const struct perf_device *const built;
#endif

void device_choose(const struct perf_job *job) {
    if (!job->options->on_host && built && built->count() > 0)
        perf_device = built;
}

int device_of(int rank) { return rank % perf_device->count(); }
