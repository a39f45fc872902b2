/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/cuda_entry.h"

#include <cuda_runtime_api.h>

void *cuda_entry(const char *name, unsigned version) {
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
#else
    (void)version; /* this function has no version: it finds the entry of the runtime's own version */
    cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
    if (error == cudaSuccess && found == cudaDriverEntryPointSuccess)
        return function;
    cudaGetLastError();
    return NULL;
}
