/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what NVIDIA's management library (NVML) says about GPUs. See gpus.c.
 */
#ifndef COLLET_TOPO_PROBE_GPUS_H
#define COLLET_TOPO_PROBE_GPUS_H

#include "topo/probe/topo.h"

/* nvmlPciInfo_t of NVML. GPUS_FUNCTIONS lists the functions of NVML that are used, by their names without the prefix "nvml".
 * All of them return 0 on success. */
struct gpus_pci {
    char busid_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char busid[32];
};
#define GPUS_FUNCTIONS(X)                                                                                              \
    X(Init_v2, (void))                                                                                                 \
    X(Shutdown, (void))                                                                                                \
    X(DeviceGetCount_v2, (unsigned *count))                                                                            \
    X(DeviceGetHandleByIndex_v2, (unsigned index, void **device))                                                      \
    X(DeviceGetPciInfo_v3, (void *device, struct gpus_pci *pci))                                                       \
    X(DeviceGetCudaComputeCapability, (void *device, int *major, int *minor))                                          \
    X(DeviceGetNvLinkState, (void *device, unsigned link, unsigned *is_active))                                        \
    X(DeviceGetNvLinkRemotePciInfo_v2, (void *device, unsigned link, struct gpus_pci *pci))                            \
    X(DeviceGetP2PStatus, (void *device, void *peer, unsigned capability, unsigned *status))
struct gpus_nvml {
#define X(name, arguments) int(*name) arguments;
    GPUS_FUNCTIONS(X)
#undef X
};

/* Adds what NVML knows about this machine's GPUs. If the library cannot be loaded, nothing is added. */
void topo_probe_gpus(struct topo *topo);

#endif
