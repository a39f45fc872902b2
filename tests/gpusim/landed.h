/* SPDX-License-Identifier: Apache-2.0
 *
 * A copy from pageable memory that has landed on return. cudaMemcpy() alone promises no more than that the source may be changed.
 */
#ifndef COLLET_GPUSIM_LANDED_H
#define COLLET_GPUSIM_LANDED_H

#include <cuda_runtime_api.h>

static inline cudaError_t copy_landed(void *to, const void *from, size_t bytes) {
    cudaError_t error = cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
    return error != cudaSuccess ? error : cudaStreamSynchronize(cudaStreamLegacy);
}

#endif
