/* SPDX-License-Identifier: Apache-2.0
 *
 * What PyTorch asks of CUDA beyond what the simulated machine has, so that its NCCL backend runs there (torch.sh):
 *
 *   torch ──▶ libcudart.so.13 of the simulated machine       memory, streams, events, graphs, kernels of collet
 *     ├─────▶ this, for functions of the runtime that the machine lacks: answers without effect, or cudaErrorNotSupported
 *     ├─────▶ this, for kernels of torch itself: they are left out, as PyPI's builds have no PTX that the machine can execute
 *     └─────▶ this, as libcuda.so.1: functions of the driver, passed on where the machine has them
 *
 * So only what needs no kernel of torch has a meaning: copies, collectives, captures and replays.
 */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <string.h>

/* ---- kernels of torch ---- */

static int is_of_collet(const void *function) {
    Dl_info found;
    return dladdr(function, &found) != 0 &&
           (strstr(found.dli_fname, "libnccl.so") != NULL || strstr(found.dli_fname, "libcollet.so") != NULL);
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             cudaStream_t stream) {
    static __typeof__(&cudaLaunchKernel) next;
    if (!is_of_collet(kernel))
        return cudaSuccess;
    if (next == NULL)
        next = (__typeof__(next))dlsym(RTLD_NEXT, "cudaLaunchKernel");
    return next(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel) {
    static __typeof__(&cudaFuncGetAttributes) next;
    if (next == NULL)
        next = (__typeof__(next))dlsym(RTLD_NEXT, "cudaFuncGetAttributes");
    if (is_of_collet(kernel))
        return next(attributes, kernel);
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    return cudaSuccess;
}

/* ---- functions of the runtime that the machine lacks ---- */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
    (void)stream;
    *priority = 0;
    return cudaSuccess;
}

/* torch asks whether a graph is empty, to warn of it. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    (void)graph, (void)nodes;
    *count = 1;
    return cudaSuccess;
}

#define LACKING(name)                                                                                                  \
    extern cudaError_t name##_lacking(void) __asm__(#name);                                                            \
    cudaError_t name##_lacking(void) { return cudaErrorNotSupported; }
LACKING(cudaGetSymbolAddress)
LACKING(cudaGraphDebugDotPrint)
LACKING(cudaGraphNodeGetDependencies)
LACKING(cudaIpcGetEventHandle)
LACKING(cudaIpcOpenEventHandle)
LACKING(cudaLaunchCooperativeKernel)
LACKING(cudaMemPoolGetAttribute)
LACKING(cudaMemPoolSetAttribute)
LACKING(cudaMemPoolTrimTo)
LACKING(cudaMemcpyToSymbol)
LACKING(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
LACKING(cudaProfilerStart)
LACKING(cudaProfilerStop)
LACKING(cudaStreamAddCallback)

/* ---- the driver ---- */

typedef int driver_function(long, long, long, long, long, long); /* none that is here has more arguments */

static driver_function *driver_find(const char *name) {
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion(name, &function, 13000, 0, &found) != cudaSuccess)
        (void)cudaGetLastError(); /* torch must not find this one there */
    return (driver_function *)function;
}

#define DRIVER(name)                                                                                                   \
    int name(long a, long b, long c, long d, long e, long f) {                                                         \
        static driver_function *function;                                                                              \
        if (function == NULL)                                                                                          \
            function = driver_find(#name);                                                                             \
        return function != NULL ? function(a, b, c, d, e, f) : cudaErrorNotSupported;                                  \
    }
DRIVER(cuCtxFromGreenCtx)
DRIVER(cuCtxGetCurrent)
DRIVER(cuCtxPopCurrent)
DRIVER(cuCtxPushCurrent)
DRIVER(cuCtxSetCurrent)
DRIVER(cuDevResourceGenerateDesc)
DRIVER(cuDevSmResourceSplitByCount)
DRIVER(cuDeviceGet)
DRIVER(cuDeviceGetAttribute)
DRIVER(cuDeviceGetDevResource)
DRIVER(cuGreenCtxCreate)
DRIVER(cuGreenCtxDestroy)
DRIVER(cuGreenCtxStreamCreate)
DRIVER(cuMemAddressFree)
DRIVER(cuMemAddressReserve)
DRIVER(cuMemCreate)
DRIVER(cuMemExportToShareableHandle)
DRIVER(cuMemGetAllocationGranularity)
DRIVER(cuMemGetAllocationPropertiesFromHandle)
DRIVER(cuMemImportFromShareableHandle)
DRIVER(cuMemMap)
DRIVER(cuMemRelease)
DRIVER(cuMemRetainAllocationHandle)
DRIVER(cuMemSetAccess)
DRIVER(cuMemUnmap)
DRIVER(cuMemsetD32Async)
DRIVER(cuMulticastAddDevice)
DRIVER(cuMulticastBindMem)
DRIVER(cuMulticastCreate)
DRIVER(cuMulticastUnbind)
DRIVER(cuStreamWriteValue32)
DRIVER(cuGetProcAddress)

int cuGetErrorString(int error, const char **text) {
    *text = cudaGetErrorString((cudaError_t)error);
    return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    (void)device;
    *flags = 0;
    *active = 1;
    return 0;
}
