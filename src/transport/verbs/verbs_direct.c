/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/verbs_direct.h"

#include "transport/ipc/gpu_pages.h"
#include "transport/verbs/verbs_end.h"
#include "transport/verbs/verbs_memory.h"

#include <errno.h>
#include <string.h>

#define READ_BYTES 4u
#define SCRATCH_BYTES 4096u

/* ----------------------------------------------------------------------------------------------------------- a rail's read */

static bool loop_create(const struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_direct_rail *rail = &end->direct.rails[r];
    const struct verbs_port *port = end->rails[r].port;
    struct verbs_depths depths = {.sends = 1, .receives = 1};
    struct verbs_address self = {.gid = port->gids[end->kind], .lid = port->lid, .mtu = (uint8_t)port->mtu};
    rail->target = end->host->lib.reg_mr(port->device->pd, end->direct.scratch, SCRATCH_BYTES, IBV_ACCESS_LOCAL_WRITE);
    rail->cq = end->host->lib.create_cq(port->device->context, 2, &end->rails[r].cq_failed, NULL, 0);
    if (rail->target == NULL || rail->cq == NULL ||
        verbs_qp_create(end->host, port, rail->cq, &depths, &rail->loop) != COLLET_SUCCESS)
        return false;
    self.qpn[0] = rail->loop.qp->qp_num;
    return verbs_qp_connect(end->host, &rail->loop, port, end->kind, &self, 0, 0, conn->owner->config) ==
           COLLET_SUCCESS;
}

static void loop_destroy(struct verbs_end *end, struct verbs_direct_rail *rail) {
    verbs_qp_destroy(end->host, &rail->loop);
    if (rail->cq != NULL)
        end->host->lib.destroy_cq(rail->cq);
    if (rail->target != NULL)
        end->host->lib.dereg_mr(rail->target);
    rail->cq = NULL;
    rail->target = NULL;
}

/* Posts a read. False: the device refuses. */
static bool post_read(struct verbs_end *end, struct verbs_direct_rail *rail) {
    struct ibv_sge target = {(uintptr_t)end->direct.scratch, READ_BYTES, rail->target->lkey};
    struct ibv_send_wr *bad, read = {
                                 .sg_list = &target,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_READ,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {.remote_addr = (uintptr_t)end->direct.memory, .rkey = rail->slots->rkey},
                             };
    rail->asked = rail->landed;
    return ibv_post_send(rail->loop.qp, &read, &bad) == 0;
}

/* Slots of this rail that were not flushed count as not received: when the rail is settled, they are requested again. */
static void forget_unflushed(struct verbs_end *end, int r) {
    struct verbs_direct *direct = &end->direct;
    struct verbs_direct_rail *rail = &direct->rails[r];
    for (int slot = 0; slot < FIFO_MAX_SLOTS; slot++)
        if (end->arrived[slot] != 0 && direct->rail[slot] == r && (int32_t)(direct->landed[slot] - rail->flushed) > 0)
            end->arrived[slot] = 0;
    rail->asked = rail->flushed = rail->landed;
}

static void read_failed(struct conn *conn, int r, const char *why) {
    verbs_rail_lost(conn, r, "is cut off: reading back what it wrote into this end's GPU failed (%s)", why);
    forget_unflushed(conn->impl, r);
}

static bool read_progress(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    struct verbs_direct_rail *rail = &end->direct.rails[r];
    struct ibv_wc wc;
    bool more = false;
    if (rail->asked != rail->flushed && ibv_poll_cq(rail->cq, 1, &wc) == 1) {
        if (wc.status != IBV_WC_SUCCESS) {
            read_failed(conn, r, end->host->lib.wc_status_str(wc.status));
            return false;
        }
        rail->flushed = rail->asked;
        more = true;
    }
    if (rail->asked == rail->flushed && rail->landed != rail->asked && !post_read(end, rail))
        read_failed(conn, r, "the device takes no reads");
    return more;
}

static bool driver_flush(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    const struct gpu_rank *gpu = conn->owner->gpu;
    bool needed = false;
    for (int r = 0; r < end->nrails; r++)
        needed |= end->direct.rails[r].landed != end->direct.rails[r].flushed;
    if (!needed)
        return false;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    if (gpu->driver->sharing->flush() != COLLET_SUCCESS) {
        verbs_set_broken(conn, "%s", err_last());
        return false;
    }
    for (int r = 0; r < end->nrails; r++)
        end->direct.rails[r].flushed = end->direct.rails[r].asked = end->direct.rails[r].landed;
    return true;
}

bool verbs_direct_progress(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    bool more = false;
    if (end->direct.flush == VERBS_FLUSH_DRIVER)
        return driver_flush(conn);
    for (int r = 0; end->direct.flush == VERBS_FLUSH_READ && r < end->nrails; r++)
        more |= read_progress(conn, r);
    return more;
}

void verbs_direct_landed(struct verbs_end *end, uint32_t slot, int r, bool in_gpu) {
    struct verbs_direct *direct = &end->direct;
    bool flush = in_gpu && direct->memory != NULL && direct->flush != VERBS_FLUSH_NONE;
    direct->rail[slot] = flush ? (int8_t)r : -1;
    if (flush)
        direct->landed[slot] = ++direct->rails[r].landed;
}

bool verbs_direct_visible(const struct verbs_end *end, uint32_t slot) {
    const struct verbs_direct *direct = &end->direct;
    int r = direct->rail[slot];
    return direct->memory == NULL || r < 0 || (int32_t)(direct->rails[r].flushed - direct->landed[slot]) >= 0;
}

bool verbs_direct_settled(struct verbs_end *end, int r) {
    if (verbs_device_is_gone(end->rails[r].port->device))
        forget_unflushed(end, r);
    return end->direct.rails[r].landed == end->direct.rails[r].flushed;
}

bool verbs_direct_renew(struct conn *conn, int r) {
    struct verbs_end *end = conn->impl;
    if (end->direct.flush != VERBS_FLUSH_READ)
        return true;
    loop_destroy(end, &end->direct.rails[r]);
    return loop_create(conn, r);
}

/* ------------------------------------------------------------------------------------------------------ coming and going */

/* Must this rail have slots in GPU memory when the connection begins? Not if the rail is in reserve, or its device has failed. */
static bool is_opened_at_once(const struct verbs_end *end, int r) {
    return verbs_rail_carries(end, r) && !verbs_device_is_gone(end->rails[r].port->device);
}

/* Registers the slots for one rail. False: its NIC cannot; *why says why. */
static bool slots_register(const struct conn *conn, int r, const char **why) {
    struct verbs_end *end = conn->impl;
    struct verbs_direct *direct = &end->direct;
    const struct gpu_rank *gpu = conn->owner->gpu;
    const struct verbs_device *device = end->rails[r].port->device;
    enum verbs_registration how;
    direct->rails[r].slots =
        verbs_memory_register_gpu(end->host, device, gpu, conn->owner->config, verbs_rail_carries(end, r),
                                  direct->memory, direct->bytes, &how, why);
    if (direct->rails[r].slots != NULL)
        log_info(NET, "rank %d %s %d: slots in memory of GPU %d, registered with %s %s: %s", conn->owner->rank,
                 conn_arrow(conn), conn->peer, gpu->ordinal, device->name, verbs_registration_name(how), *why);
    return direct->rails[r].slots != NULL;
}

static bool flush_create(const struct conn *conn, const char **why) {
    struct verbs_end *end = conn->impl;
    struct verbs_direct *direct = &end->direct;
    struct gpu_direct can = conn->owner->gpu->driver->sharing->direct(conn->owner->gpu->ordinal);
    bool loops = true;
    direct->flush = VERBS_FLUSH_NONE;
    if (conn->side == CONN_PRODUCER || can.ordered)
        return true;
    for (int r = 0; r < end->nrails && loops; r++)
        loops = !is_opened_at_once(end, r) || loop_create(conn, r);
    direct->flush = loops ? VERBS_FLUSH_READ : VERBS_FLUSH_DRIVER;
    for (int r = 0; r < end->nrails && !loops; r++)
        loop_destroy(end, &direct->rails[r]);
    log_info(NET, "rank %d <- %d: what comes is flushed by %s", conn->owner->rank, conn->peer,
             loops ? "reads of the NIC" : "the GPU's driver, since a NIC has no queue pair to itself");
    *why = "what a NIC writes into it could not be flushed: no queue pair to itself, and no flush by the GPU's driver";
    return loops || can.flushes;
}

static bool slots_create(const struct conn *conn, size_t bytes, const char **why) {
    struct verbs_end *end = conn->impl;
    struct verbs_direct *direct = &end->direct;
    const struct gpu_driver *driver = conn->owner->gpu->driver;
    direct->bytes = gpu_pages_bytes(bytes);
    *why = "there is no memory left for them";
    if (gpu_pages_take(conn->owner->gpu, direct->bytes, (void **)&direct->memory) != COLLET_SUCCESS ||
        driver->memory->pinned_create(SCRATCH_BYTES, &direct->scratch) != COLLET_SUCCESS)
        return false;
    for (int r = 0; r < end->nrails; r++)
        if (is_opened_at_once(end, r) && !slots_register(conn, r, why))
            return false;
    return flush_create(conn, why);
}

void verbs_direct_create(struct conn *conn, size_t bytes) {
    const struct gpu_rank *gpu = conn->owner->gpu;
    const struct config *config = conn->owner->config;
    const char *why = config->net_gdr ? "COLLET_CHECKSUM is 1, and the CPU computes it" : "COLLET_NET_GDR is 0";
    if (gpu == NULL)
        return;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    if (config->net_gdr && !config->checksum && slots_create(conn, bytes, &why))
        return;
    verbs_direct_destroy(conn);
    log_info(NET, "rank %d %s %d: slots in pinned host memory, not in that of GPU %d: %s", conn->owner->rank,
             conn_arrow(conn), conn->peer, gpu->ordinal, why);
}

enum collet_result verbs_direct_register(struct conn *conn, int r) {
    const struct verbs_end *end = conn->impl;
    const struct gpu_rank *gpu = conn->owner->gpu;
    const char *why;
    if (end->direct.memory == NULL || end->direct.rails[r].slots != NULL)
        return COLLET_SUCCESS;
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    if (slots_register(conn, r, &why))
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_UNSUPPORTED, "%s does not register slots in memory of GPU %d: %s",
                   end->rails[r].port->device->name, gpu->ordinal, why);
}

void verbs_direct_destroy(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    struct verbs_direct *direct = &end->direct;
    const struct gpu_rank *gpu = conn->owner->gpu;
    if (gpu == NULL)
        return;
    for (int r = 0; r < VERBS_RAILS_MAX; r++) {
        loop_destroy(end, &direct->rails[r]);
        if (direct->rails[r].slots != NULL)
            end->host->lib.dereg_mr(direct->rails[r].slots);
    }
    GPU_ENTERED(gpu->driver, gpu->ordinal);
    if (direct->scratch != NULL)
        gpu->driver->memory->pinned_destroy(direct->scratch);
    gpu_pages_give_back(gpu, direct->memory, direct->bytes);
    *direct = (struct verbs_direct){.memory = NULL};
}
