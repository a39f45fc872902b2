/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/verbs_memory.h"

#include "base/log.h"
#include "transport/verbs/verbs_near.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const char *why_no_dmabuf(const struct verbs_memory_facts *facts, bool peermem) {
    if (!facts->lib_dmabuf)
        return peermem ? "libibverbs has no ibv_reg_dmabuf_mr (rdma-core 34 has), but nvidia-peermem is loaded"
                       : "libibverbs has no ibv_reg_dmabuf_mr (install rdma-core 34 or later, or load nvidia-peermem)";
    if (!facts->nic_dmabuf)
        return peermem ? "the NIC's driver takes no dma-bufs, but nvidia-peermem is loaded"
                       : "the NIC's driver takes no dma-bufs (Linux 5.12 and a NIC that can, or load nvidia-peermem)";
    if (!facts->exports_dmabuf)
        return peermem ? "the GPU's driver exports no dma-bufs, but nvidia-peermem is loaded"
                       : "the GPU's driver exports no dma-bufs (its open kernel modules do; or load nvidia-peermem)";
    return peermem ? "registering a dma-buf failed, but nvidia-peermem is loaded"
                   : "registering a dma-buf failed (load nvidia-peermem)";
}

enum verbs_registration verbs_memory_choose(const struct verbs_memory_facts *facts, const char **why) {
    bool dmabuf = facts->exports_dmabuf && facts->lib_dmabuf && facts->nic_dmabuf && !facts->dmabuf_failed;
    bool peermem = facts->peermem && !facts->peermem_failed;
    *why = "host memory";
    if (!facts->gpu)
        return VERBS_PLAIN;
    *why = "the path between NIC and GPU is longer than COLLET_NET_GDR_LEVEL allows";
    if (facts->far)
        return VERBS_STAGED;
    *why = "the GPU's driver exports dma-bufs, and libibverbs and the NIC's driver take them";
    if (dmabuf)
        return VERBS_DMABUF;
    *why = facts->peermem_failed ? "neither as a dma-buf nor by nvidia-peermem could it be registered"
                                 : why_no_dmabuf(facts, peermem);
    return peermem ? VERBS_PEERMEM : VERBS_STAGED;
}

const char *verbs_registration_name(enum verbs_registration registration) {
    static const char *const names[] = {"as it is", "as a dma-buf", "by nvidia-peermem",
                                        "not at all: it is copied through pinned host memory"};
    return names[registration];
}

/* Asks for a dma-buf that does not exist: a driver that supports them reports that; other drivers report that they have none. */
static bool takes_dmabuf(const struct verbs_lib *lib, const struct verbs_device *device) {
    if (lib->reg_dmabuf_mr == NULL)
        return false;
    errno = 0;
    struct ibv_mr *mr = lib->reg_dmabuf_mr(device->pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE);
    if (mr != NULL)
        lib->dereg_mr(mr);
    return mr != NULL || errno == EBADF;
}

struct verbs_memory_facts verbs_memory_facts(const struct verbs_host *host, const struct verbs_device *device, bool gpu,
                                             bool exports_dmabuf) {
    return (struct verbs_memory_facts){
        .gpu = gpu,
        .exports_dmabuf = exports_dmabuf,
        .lib_dmabuf = host->lib.reg_dmabuf_mr != NULL,
        .nic_dmabuf = gpu && takes_dmabuf(&host->lib, device),
        .peermem = gpu && host->peermem,
    };
}

#define FIFO_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* Registers memory by its address. A driver without relaxed ordering may ignore that flag, or refuse. */
static struct ibv_mr *register_at(const struct verbs_lib *lib, const struct verbs_device *device, void *memory,
                                  size_t bytes, unsigned access) {
    struct ibv_mr *mr = NULL;
    if (device->relaxed)
        mr = lib->reg_mr_iova2(device->pd, memory, bytes, (uintptr_t)memory, access | IBV_ACCESS_RELAXED_ORDERING);
    return mr != NULL ? mr : lib->reg_mr(device->pd, memory, bytes, (int)access);
}

struct ibv_mr *verbs_memory_register(const struct verbs_lib *lib, const struct verbs_device *device, void *memory,
                                     size_t bytes) {
    return register_at(lib, device, memory, bytes, FIFO_ACCESS);
}

/* Remote reads flush GPU memory (verbs_direct.c). */
#define GPU_ACCESS (FIFO_ACCESS | IBV_ACCESS_REMOTE_READ)

static struct ibv_mr *register_dmabuf(const struct verbs_lib *lib, const struct verbs_device *device,
                                      const struct gpu_driver *driver, void *memory, size_t bytes) {
    int fd = driver->sharing->export_dmabuf(memory, bytes);
    if (fd < 0)
        return NULL;
    struct ibv_mr *mr = NULL;
    if (device->relaxed)
        mr = lib->reg_dmabuf_mr(device->pd, 0, bytes, (uintptr_t)memory, fd, GPU_ACCESS | IBV_ACCESS_RELAXED_ORDERING);
    if (mr == NULL)
        mr = lib->reg_dmabuf_mr(device->pd, 0, bytes, (uintptr_t)memory, fd, GPU_ACCESS);
    int error = errno;
    close(fd); /* the registration keeps the memory */
    errno = error;
    return mr;
}

struct ibv_mr *verbs_memory_register_gpu(const struct verbs_host *host, const struct verbs_device *device,
                                         const struct gpu_rank *gpu, const struct config *config, bool carries,
                                         void *memory, size_t bytes, enum verbs_registration *how, const char **why) {
    const struct gpu_driver *driver = gpu->driver;
    enum topo_class path = verbs_path_to_gpu(config, device->name, gpu->ordinal);
    struct verbs_memory_facts facts =
        verbs_memory_facts(host, device, true, driver->sharing->direct(gpu->ordinal).exports_dmabuf);
    facts.far = carries && !verbs_is_near(config, path);
    log_info(NET, "%s and GPU %d: path %s, COLLET_NET_GDR_LEVEL is %s", device->name, gpu->ordinal,
             path == PATH_NONE ? "not known" : topo_class_name(path), config->net_gdr_level);
    while ((*how = verbs_memory_choose(&facts, why)) != VERBS_STAGED) {
        struct ibv_mr *mr = *how == VERBS_DMABUF ? register_dmabuf(&host->lib, device, driver, memory, bytes)
                                                 : register_at(&host->lib, device, memory, bytes, GPU_ACCESS);
        if (mr != NULL)
            return mr;
        log_info(NET, "%s does not register %zu bytes of GPU %d %s: %s", device->name, bytes, gpu->ordinal,
                 verbs_registration_name(*how), strerror(errno));
        facts.dmabuf_failed |= *how == VERBS_DMABUF;
        facts.peermem_failed |= *how == VERBS_PEERMEM;
    }
    return NULL;
}
