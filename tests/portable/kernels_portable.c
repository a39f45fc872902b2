/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel headers that host and device share, included by one file that every build compiles as C11, as C++17 and,
 * if nvcc is found, as CUDA. What is outside their common subset fails here. Compiled, never run.
 *
 * The interpreter is instantiated with the plainest reduction there is, so that its whole code is generated.
 */
#if defined(__CUDACC__)
#include "kernels/cuda/block_own.cuh"
#endif
#include "fifo/fifo.h"
#include "fifo/geometry.h"
#include "kernels/interp.h"
#include "fifo/port.h"
#include "fifo/proto.h"
#include "kernels/reduce.h"
#include "kernels/worker.h"
#include "program/step.h"

#include "../../examples/perf/span.h" /* what perf programs fill and check with, on hosts and GPUs */

#if defined(__CUDACC__)
#define ENTRY extern "C" __global__
#elif defined(__cplusplus)
#define ENTRY extern "C"
#else
#define ENTRY
#endif

PORT_FN void portable_reduce(struct interp_worker *w, const struct prog_step *step, int ndst, int nsrc,
                             uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        float sum = ((const float *)w->src[0])[i];
        for (int k = 1; k < nsrc; k++)
            sum = reduce_sum_float(sum, ((const float *)w->src[k])[i]);
        if (step->finish && w->op->args.divisor > 1)
            sum = reduce_divide_float(sum, reduce_rest_float(w->op->args.divisor));
        for (int k = 0; k < ndst; k++)
            ((float *)w->dst[k])[i] = sum;
    }
}

ENTRY void portable_run(struct interp_worker *worker) {
    enum interp_result result;
    do {
        const struct interp_try next = interp_try_of(worker);
        result = interp_try_step(worker, &next, portable_reduce, PROTO_EACH_END);
    } while (result == INTERP_BUSY || result == INTERP_STEPPED);
    worker->done = result == INTERP_DONE;
}
