/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the slots of a plugin's connection lie. If the plugin can use GPU memory, the Simple slots lie there. The rest of
 * the FIFO, which the CPU reads, stays in host memory. The two ends may differ, because messages do not depend on it.
 *
 * Not run on hardware.
 */
#include "base/log.h"
#include "transport/ipc/gpu_pages.h"
#include "layers/nccl/plug_end.h"
#include "transport/verbs/verbs_near.h"

#include <string.h>
#include <unistd.h>

static size_t gpu_bytes_of(const struct conn *conn) {
    return gpu_pages_bytes((size_t)conn->end.nslots * conn->end.strides[PROTOCOL_SIMPLE]);
}

static int register_gpu(const struct conn *conn, size_t bytes) {
    struct plug_end *end = conn->impl;
    const struct plug_table *table = end->host->table;
    const struct gpu_rank *gpu = conn->owner->gpu;
    int pointers = end->host->devices[end->device].pointers, result = PLUG_SYSTEM_ERROR, fd = -1;
    if ((pointers & PLUG_DMABUF) && table->reg_mr_dmabuf != NULL &&
        gpu->driver->sharing->direct(gpu->ordinal).exports_dmabuf)
        fd = gpu->driver->sharing->export_dmabuf(end->gpu_slots, bytes);
    if (fd >= 0) {
        result = table->reg_mr_dmabuf(end->line, end->gpu_slots, bytes, PLUG_GPU, 0, fd, &end->gpu_registration);
        close(fd); /* the registration keeps the memory */
    }
    if (result != PLUG_SUCCESS && (pointers & PLUG_GPU))
        result = table->reg_mr(end->line, end->gpu_slots, bytes, PLUG_GPU, &end->gpu_registration);
    return result;
}

static bool gpu_slots_create(struct conn *conn, const char **why) {
    struct plug_end *end = conn->impl;
    const struct gpu_rank *gpu = conn->owner->gpu;
    size_t bytes = gpu_bytes_of(conn);
    *why = "there is no memory left for them";
    if (gpu_pages_take(gpu, bytes, (void **)&end->gpu_slots) != COLLET_SUCCESS)
        return false;
    *why = "the plugin does not register it";
    if (register_gpu(conn, bytes) == PLUG_SUCCESS)
        return true;
    gpu_pages_give_back(gpu, end->gpu_slots, bytes);
    end->gpu_slots = NULL;
    return false;
}

static const char *why_no_gpu_slots(const struct conn *conn) {
    const struct plug_end *end = conn->impl;
    const struct config *config = conn->owner->config;
    const struct plug_device *device = &end->host->devices[end->device];
    if (!device->nic.gdr)
        return "the plugin takes host memory alone";
    if (!config->net_gdr)
        return "COLLET_NET_GDR is 0";
    if (config->checksum)
        return "COLLET_CHECKSUM is 1, and the CPU computes it";
    if (!verbs_is_near(config, verbs_path_to_gpu(config, device->nic.name, conn->owner->gpu->ordinal)))
        return "the path between NIC and GPU is longer than COLLET_NET_GDR_LEVEL allows";
    return NULL;
}

static void place_slots(struct conn *conn) {
    struct plug_end *end = conn->impl;
    const struct gpu_rank *gpu = conn->owner->gpu;
    if (gpu == NULL)
        return;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    const char *why = why_no_gpu_slots(conn);
    bool there = why == NULL && gpu_slots_create(conn, &why);
    log_info(NET, "rank %d %s %d: slots in memory of %s %d by %s%s%s", conn->owner->rank, conn_arrow(conn), conn->peer,
             there ? "GPU" : "the host, not of GPU", gpu->ordinal, end->host->table->name, there ? "" : ": ",
             there ? "" : why);
    if (!there)
        return;
    conn->end.slots[PROTOCOL_SIMPLE] = end->gpu_slots;
    end->flush = conn->side == CONN_CONSUMER &&
                 (end->host->devices[end->device].flush || !gpu->driver->sharing->direct(gpu->ordinal).ordered);
}

enum collet_result plug_memory_register(struct conn *conn) {
    struct plug_end *end = conn->impl;
    int result = end->host->table->reg_mr(end->line, end->memory, end->bytes, PLUG_HOST, &end->registration);
    if (result != PLUG_SUCCESS)
        return err_set(COLLET_ERR_SYSTEM, "net plugin %s cannot register %zu bytes: error %d%s", end->host->table->name,
                       end->bytes, result, ": is there a limit of locked memory (ulimit -l)?");
    end->registered = true;
    place_slots(conn);
    return COLLET_SUCCESS;
}

void plug_memory_forget(struct conn *conn) {
    struct plug_end *end = conn->impl;
    const struct gpu_rank *gpu = conn->owner->gpu;
    if (end->registered)
        end->host->table->dereg_mr(end->line, end->registration);
    if (end->gpu_slots == NULL)
        return;
    end->host->table->dereg_mr(end->line, end->gpu_registration);
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    gpu_pages_give_back(gpu, end->gpu_slots, gpu_bytes_of(conn));
}
