/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver's functions that the runtime hands out by their names.
 */
#include "gpusim/sim.h"

#include <string.h>

#define FUNCTIONS(X)                                                                                                   \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetAttribute)                                                                                            \
    X(cuDeviceGetName)                                                                                                 \
    X(cuDeviceGetUuid)                                                                                                 \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuCtxPushCurrent)                                                                                                \
    X(cuCtxPopCurrent)                                                                                                 \
    X(cuCtxGetCurrent)                                                                                                 \
    X(cuCtxGetId)                                                                                                      \
    X(cuStreamGetId)                                                                                                   \
    X(cuStreamBatchMemOp)                                                                                              \
    X(cuMemGetAddressRange)                                                                                            \
    X(cuMemGetAllocationGranularity)                                                                                   \
    X(cuMemCreate)                                                                                                     \
    X(cuMemRelease)                                                                                                    \
    X(cuMemExportToShareableHandle)                                                                                    \
    X(cuMemImportFromShareableHandle)                                                                                  \
    X(cuMemAddressReserve)                                                                                             \
    X(cuMemAddressFree)                                                                                                \
    X(cuMemMap)                                                                                                        \
    X(cuMemUnmap)                                                                                                      \
    X(cuMemSetAccess)                                                                                                  \
    X(cuMulticastGetGranularity)                                                                                       \
    X(cuMulticastCreate)                                                                                               \
    X(cuMulticastAddDevice)                                                                                            \
    X(cuMulticastBindAddr)                                                                                             \
    X(cuMulticastUnbind)

#define DECLARE(name) extern void sim_##name(void);
FUNCTIONS(DECLARE)

#define ROW(name) {#name, sim_##name},
static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {FUNCTIONS(ROW)};

/* What a driver of before CUDA 11.7 lacks. */
static bool is_missing(const char *name) {
    return strcmp(name, "cuStreamBatchMemOp") == 0 && sim_number("GPUSIM_NO_MEMOPS", 0) == 2;
}

static cudaError_t find_function(const char *name, void **function, enum cudaDriverEntryPointQueryResult *found) {
    *function = NULL;
    *found = cudaDriverEntryPointSymbolNotFound;
    for (size_t k = 0; k < sizeof(functions) / sizeof(*functions); k++)
        if (strcmp(functions[k].name, name) == 0 && !is_missing(name)) {
            memcpy(function, &functions[k].function, sizeof(*function));
            *found = cudaDriverEntryPointSuccess;
        }
    return *found == cudaDriverEntryPointSuccess ? cudaSuccess : sim_result(cudaErrorSymbolNotFound);
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *found) {
    (void)version, (void)flags;
    return find_function(name, function, found);
}
#endif

#if CUDART_VERSION < 13000
cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *found) {
    (void)flags;
    return find_function(name, function, found);
}
#endif
