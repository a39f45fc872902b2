/* SPDX-License-Identifier: Apache-2.0
 *
 * Where flushing belongs once GPUs receive: a NIC's completion does not promise that what it wrote into GPU memory is
 * visible to a running kernel. Between taking the completion and moving the consumer's tail (deliver_slots() in verbs.c)
 * a read through the NIC from that memory, or the CUDA driver's own flush, has to come; host memory needs neither.
 */
#include "transport/verbs_memory.h"

#include <errno.h>
#include <unistd.h>

enum verbs_registration verbs_memory_choose(const struct verbs_memory_facts *facts, const char **why) {
    *why = "host memory";
    if (!facts->gpu)
        return VERBS_PLAIN;
    *why = "the GPU's driver exports dma-bufs, and libibverbs and the NIC's driver take them";
    if (facts->exports_dmabuf && facts->lib_dmabuf && facts->nic_dmabuf)
        return VERBS_DMABUF;
    bool peermem = facts->peermem;
    if (!facts->lib_dmabuf)
        *why = peermem ? "libibverbs has no ibv_reg_dmabuf_mr (rdma-core 34 has), but nvidia-peermem is loaded"
                       : "libibverbs has no ibv_reg_dmabuf_mr (install rdma-core 34 or later, or load nvidia-peermem)";
    else if (!facts->nic_dmabuf)
        *why = peermem ? "the NIC's driver takes no dma-bufs, but nvidia-peermem is loaded"
                       : "the NIC's driver takes no dma-bufs (Linux 5.12 and a NIC that can, or load nvidia-peermem)";
    else
        *why = peermem ? "the GPU's driver exports no dma-bufs, but nvidia-peermem is loaded"
                       : "the GPU's driver exports no dma-bufs (its open kernel modules do; or load nvidia-peermem)";
    return peermem ? VERBS_PEERMEM : VERBS_STAGED;
}

const char *verbs_registration_name(enum verbs_registration registration) {
    static const char *const names[] = {"as it is", "as a dma-buf", "by nvidia-peermem",
                                        "not at all: it is copied through pinned host memory"};
    return names[registration];
}

/* Asked for a dma-buf that does not exist, a driver that takes them says so; others say that they take none. */
static bool takes_dmabuf(const struct verbs_lib *lib, const struct verbs_device *device) {
    if (lib->reg_dmabuf_mr == NULL)
        return false;
    errno = 0;
    struct ibv_mr *mr = lib->reg_dmabuf_mr(device->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE);
    if (mr != NULL)
        lib->dereg_mr(mr);
    return mr != NULL || errno == EBADF;
}

struct verbs_memory_facts verbs_memory_facts(const struct verbs_lib *lib, const struct verbs_device *device, bool gpu,
                                             bool exports_dmabuf) {
    return (struct verbs_memory_facts){
        .gpu = gpu,
        .exports_dmabuf = exports_dmabuf,
        .lib_dmabuf = lib->reg_dmabuf_mr != NULL,
        .nic_dmabuf = gpu && takes_dmabuf(lib, device),
        .peermem = gpu && access("/sys/module/nvidia_peermem", F_OK) == 0,
    };
}

struct ibv_mr *verbs_memory_register(const struct verbs_lib *lib, const struct verbs_device *device, void *memory,
                                     size_t bytes) {
    struct verbs_memory_facts facts = verbs_memory_facts(lib, device, false, false);
    const char *why;
    errno = ENOTSUP;
    if (verbs_memory_choose(&facts, &why) != VERBS_PLAIN)
        return NULL;
    return lib->reg_mr(device->pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}
