/* SPDX-License-Identifier: Apache-2.0
 *
 * How memory is registered with a NIC.
 *
 *    whose memory   what is there                                           registered
 *    host's         –                                                       as it is (ibv_reg_mr)
 *    GPU's          NIC is far from the GPU (verbs_near.h)                  not at all: it is copied to pinned host memory
 *                   GPU driver exports dma-bufs, libibverbs and NIC take    as a dma-buf (ibv_reg_dmabuf_mr)
 *                   else nvidia-peermem is loaded                           by its address (ibv_reg_mr)
 *                   else                                                    not at all: it is copied to pinned host memory
 *
 * If a way fails when it is tried, the next line's way is used. Connections register their FIFOs once, when they are made.
 * Of the program's memory, only registered memory is registered (registration.h). So no memory can be freed while it is registered.
 *
 * If the device supports it, memory is registered for relaxed ordering (COLLET_IB_PCI_RELAXED_ORDERING): on their way to
 * memory, the NIC's writes may then overtake each other. This is safe because nobody polls memory for a flag that a NIC
 * writes. Steps, heads and landings are taken from completions, and a NIC writes a completion in strict order, after all
 * earlier data. Memory that a CPU or a GPU polls would have to be registered without relaxed ordering. A read that flushes
 * (verbs_direct.h) never overtakes writes.
 *
 * The lines for GPU memory have not been run on hardware.
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_MEMORY_H
#define COLLET_TRANSPORT_VERBS_VERBS_MEMORY_H

#include "layers/gpu/gpu.h"
#include "transport/verbs/verbs_device.h"

enum verbs_registration { VERBS_PLAIN, VERBS_DMABUF, VERBS_PEERMEM, VERBS_STAGED };

struct verbs_memory_facts {
    bool gpu;            /* the memory is on a GPU; the other fields only matter then */
    bool exports_dmabuf; /* the GPU's driver says that it exports dma-bufs */
    bool lib_dmabuf, nic_dmabuf;
    bool peermem;
    bool dmabuf_failed, peermem_failed; /* the way was tried, and failed */
    bool far;                           /* the NIC is far from the GPU */
};

/* Chooses how to register. *why: a static text. */
enum verbs_registration verbs_memory_choose(const struct verbs_memory_facts *facts, const char **why);
const char *verbs_registration_name(enum verbs_registration registration);

/* Collects the facts about this host and device. The caller, which knows the GPU, must set `far`. */
struct verbs_memory_facts verbs_memory_facts(const struct verbs_host *host, const struct verbs_device *device, bool gpu,
                                             bool exports_dmabuf);

/* Registers host memory for RDMA writes. NULL: the device refuses, see errno. */
struct ibv_mr *verbs_memory_register(const struct verbs_lib *lib, const struct verbs_device *device, void *memory,
                                     size_t bytes);

/* Registers memory of the current GPU in the best way that works. NULL: no way works. *how and *why (a static text) say which way was
 * used, or why none works. carries: the rail is not in reserve (a NIC in reserve may be far). */
struct ibv_mr *verbs_memory_register_gpu(const struct verbs_host *host, const struct verbs_device *device,
                                         const struct gpu_rank *gpu, const struct config *config, bool carries,
                                         void *memory, size_t bytes, enum verbs_registration *how, const char **why);

#endif
