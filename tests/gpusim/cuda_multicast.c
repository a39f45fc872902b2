/* SPDX-License-Identifier: Apache-2.0
 *
 * Multicast objects: a team of GPUs, and memory of each of them, under one address.
 *
 *    cuMulticastCreate ─▶ cuMulticastAddDevice of each ─▶ cuMulticastBindAddr of each ─▶ cuMemMap, cuMemSetAccess ─▶ multimem
 *
 * An object is a file as memory is, of which there is the head alone, so that it can be exported and imported. CUDA's bind and map
 * wait until the whole team is there; here they must not have to, since what they wait for may be kept out. And here a mapping has
 * what was bound before it.
 */
#include "gpusim/machine.h"
#include "gpusim/sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* −1: it is not in the team. */
static int member_of(const struct sim_team *team, uint32_t place) {
    for (uint32_t k = 0; k < team->added; k++)
        if (team->members[k].place == place)
            return (int)k;
    return -1;
}

static void expect_team(const struct sim_team *team, const char *call) {
    if (team->added < team->wanted)
        sim_violation("%s waits for %u GPUs of a multicast object, and may keep out those that add them", call,
                      team->wanted - team->added);
}

bool sim_multicasts(const struct sim_device *device) {
    for (int k = 0; k < sim_device_count(); k++)
        if (sim_link(device->place, sim_device(k)->place) != LINK_NVL)
            return false;
    return device->instance == 0 && sim_capability(device) >= 90;
}

CUresult sim_cuMulticastGetGranularity(size_t *bytes, const CUmulticastObjectProp *what,
                                       CUmulticastGranularity_flags which) {
    SIM_DRIVER_CALL(SIM_SAFE);
    (void)what, (void)which;
    *bytes = SIM_GRANULE;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastCreate(CUmemGenericAllocationHandle *handle, const CUmulticastObjectProp *what) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    if (what->numDevices < 1 || what->numDevices > SIM_GPUS_MAX || what->size % SIM_GRANULE != 0 || what->size == 0 ||
        what->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_file *file = sim_file_make(0, 0);
    if (file == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    file->head->bytes = what->size;
    file->head->team.wanted = what->numDevices;
    *handle = (CUmemGenericAllocationHandle)(uintptr_t)file;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice ordinal) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    struct sim_team *team = &((struct sim_file *)(uintptr_t)handle)->head->team;
    const struct sim_device *device = sim_device(ordinal);
    if (device == NULL || team->wanted == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_multicasts(device))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (member_of(team, device->place) >= 0)
        return CUDA_ERROR_INVALID_DEVICE;
    uint32_t k = __atomic_fetch_add(&team->added, 1, __ATOMIC_ACQ_REL);
    if (k >= team->wanted)
        return CUDA_ERROR_INVALID_DEVICE;
    team->members[k].place = device->place;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t at, CUdeviceptr address, size_t bytes,
                                 unsigned long long flags) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    struct sim_file_head *head = ((struct sim_file *)(uintptr_t)handle)->head;
    const struct sim_range *range = sim_range_at((void *)(uintptr_t)address);
    if (head->team.wanted == 0 || flags != 0 || at != 0 || bytes > head->bytes || bytes % SIM_GRANULE != 0 ||
        range == NULL || range->kind != MEMORY_MAPPED || (uintptr_t)range->base != address || bytes > range->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    expect_team(&head->team, "cuMulticastBindAddr");
    int k = member_of(&head->team, range->file->head->place);
    if (k < 0)
        return CUDA_ERROR_INVALID_DEVICE;
    head->team.members[k].pid = (int32_t)getpid();
    head->team.members[k].fd = range->file->fd;
    head->team.members[k].address = address;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice ordinal, size_t at, size_t bytes) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    struct sim_team *team = &((struct sim_file *)(uintptr_t)handle)->head->team;
    const struct sim_device *device = sim_device(ordinal);
    int k = device == NULL ? -1 : member_of(team, device->place);
    if (k < 0 || at != 0 || bytes == 0 || team->members[k].address == 0)
        return CUDA_ERROR_INVALID_VALUE;
    team->members[k].address = 0;
    return CUDA_SUCCESS;
}

/* Where this process has what a member has bound: where the member has it, or mapped anew. NULL: nowhere. */
static void *replica_here(const struct sim_member *member, size_t bytes) {
    char path[64];
    if (member->address == 0 || member->pid == (int32_t)getpid())
        return (void *)(uintptr_t)member->address;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", member->pid, member->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *base = fd < 0 ? NULL : sim_addresses_take(bytes);
    if (base != NULL && (!sim_addresses_back(base, bytes, fd, SIM_HEAD_BYTES) ||
                         !gpusim_range_add(base, bytes, GPUSIM_IMPORTED, member->place)))
        base = NULL;
    if (fd >= 0)
        close(fd);
    return base;
}

CUresult sim_team_map(const struct sim_file_head *head, void *base) {
    expect_team(&head->team, "cuMemMap");
    cudaError_t error = sim_range_add(MEMORY_MULTICAST, base, head->bytes, 0, NULL);
    for (uint32_t k = 0; k < head->team.wanted && error == cudaSuccess; k++)
        gpusim_range_bind(base, k, head->team.wanted, replica_here(&head->team.members[k], head->bytes));
    return (CUresult)error;
}
