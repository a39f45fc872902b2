/* SPDX-License-Identifier: Apache-2.0
 *
 * Multicast objects of CUDA, from 12.1 on, for GPUs that NVSwitches of the third generation or later join (H100 …).
 *
 * Never run on hardware: that needs two GPUs and a switch.
 */
#include "layers/gpu/cuda_team.h"

#include "layers/gpu/cuda_blocks.h"
#include "layers/gpu/cuda_entry.h"
#include "layers/gpu/cuda_vmm.h"
#include "layers/gpu/kernels.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>

#if CUDA_VERSION >= 12010

static struct {
    CUresult (*device_of)(CUdevice *device, int ordinal);
    CUresult (*attribute_of)(int *value, CUdevice_attribute attribute, CUdevice device);
    CUresult (*granularity)(size_t *bytes, const CUmulticastObjectProp *what, CUmulticastGranularity_flags which);
    CUresult (*create)(CUmemGenericAllocationHandle *object, const CUmulticastObjectProp *what);
    CUresult (*add)(CUmemGenericAllocationHandle object, CUdevice device);
    CUresult (*bind)(CUmemGenericAllocationHandle object, size_t at, CUdeviceptr memory, size_t bytes,
                     unsigned long long flags);
    CUresult (*unbind)(CUmemGenericAllocationHandle object, CUdevice device, size_t at, size_t bytes);
} multicast;

static enum collet_result find_multicast(void) {
    const struct cuda_function functions[] = {
        {"cuDeviceGet", &multicast.device_of},
        {"cuDeviceGetAttribute", &multicast.attribute_of},
        {"cuMulticastGetGranularity", &multicast.granularity},
        {"cuMulticastCreate", &multicast.create},
        {"cuMulticastAddDevice", &multicast.add},
        {"cuMulticastBindAddr", &multicast.bind},
        {"cuMulticastUnbind", &multicast.unbind},
    };
    COLLET_TRY(cuda_vmm_find());
    return cuda_vmm_find_all(functions, sizeof(functions) / sizeof(*functions), 12010);
}

static uint64_t gpus_that_can; /* bit: ordinal of a GPU */

static bool has_switches(int ordinal) {
    CUdevice device;
    int can = 0;
    return gpu_cuda_kernels.team_sum != NULL && cuda_entry("cuMulticastCreate", 12010) != NULL &&
           find_multicast() == COLLET_SUCCESS && multicast.device_of(&device, ordinal) == CUDA_SUCCESS &&
           multicast.attribute_of(&can, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device) == CUDA_SUCCESS && can;
}

/* Ends a team at once. This may wait for the GPU; gpu_teams.end() never waits. */
static void end_now(void *ended) {
    struct gpu_team *team = ended;
    CUdevice device;
    if (team->address != NULL)
        cuda_vmm_unmap(team->address, team->bytes);
    if (team->bound_bytes > 0 && multicast.device_of(&device, team->ordinal) == CUDA_SUCCESS)
        multicast.unbind(team->object, device, 0, team->bound_bytes);
    if (team->object != 0)
        cuda_vmm.release(team->object);
    *team = (struct gpu_team){0};
}

void cuda_team_open(int ordinal) {
    cuda_blocks_end_teams_by(end_now);
    if (ordinal < 64 && has_switches(ordinal))
        __atomic_fetch_or(&gpus_that_can, 1ull << ordinal, __ATOMIC_RELAXED);
}

bool cuda_can_team(int ordinal) {
    return ordinal < 64 && (__atomic_load_n(&gpus_that_can, __ATOMIC_RELAXED) >> ordinal & 1) != 0;
}

static CUmulticastObjectProp team_of(int ngpus, uint64_t bytes) {
    return (CUmulticastObjectProp){
        .numDevices = (unsigned)ngpus, .size = bytes, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
}

size_t cuda_team_granule(int ordinal, size_t page) {
    const CUmulticastObjectProp what = team_of(2, page);
    size_t granule;
    bool known = cuda_can_team(ordinal) &&
                 multicast.granularity(&granule, &what, CU_MULTICAST_GRANULARITY_MINIMUM) == CUDA_SUCCESS;
    return known && granule > page ? granule : page;
}

static enum collet_result team_create(int ngpus, uint64_t bytes, struct gpu_team *team, int *fd_p) {
    const CUmulticastObjectProp what = team_of(ngpus, bytes);
    CUmemGenericAllocationHandle object;
    COLLET_TRY(find_multicast());
    CUDA_VMM_TRY(multicast.create(&object, &what));
    enum collet_result result = cuda_vmm_export(object, fd_p);
    if (result == COLLET_SUCCESS)
        *team = (struct gpu_team){.object = object, .bytes = bytes};
    else
        cuda_vmm.release(object);
    return result;
}

static enum collet_result team_open(int fd, uint64_t bytes, struct gpu_team *team) {
    CUmemGenericAllocationHandle object;
    COLLET_TRY(find_multicast());
    COLLET_TRY(cuda_vmm_import(fd, &object));
    *team = (struct gpu_team){.object = object, .bytes = bytes};
    return COLLET_SUCCESS;
}

static enum collet_result device_here(CUdevice *device, int *ordinal) {
    CUmemLocation here;
    COLLET_TRY(cuda_vmm_here(&here));
    CUDA_VMM_TRY(multicast.device_of(device, here.id));
    *ordinal = here.id;
    return COLLET_SUCCESS;
}

static enum collet_result team_join(struct gpu_team *team) {
    CUdevice device;
    int ordinal;
    COLLET_TRY(device_here(&device, &ordinal));
    CUDA_VMM_TRY(multicast.add(team->object, device));
    return COLLET_SUCCESS;
}

static enum collet_result team_bind(struct gpu_team *team, void *memory, uint64_t bytes) {
    CUdevice device;
    int ordinal;
    COLLET_TRY(device_here(&device, &ordinal));
    CUDA_VMM_TRY(multicast.bind(team->object, 0, (CUdeviceptr)(uintptr_t)memory, bytes, 0));
    team->ordinal = ordinal;
    team->bound_bytes = bytes;
    return COLLET_SUCCESS;
}

static enum collet_result team_map(struct gpu_team *team) {
    return cuda_vmm_map(team->bytes, team->object, &team->address);
}

/* Gives the team back, to end it later. If there is no memory for that note, ends it at once. */
static void team_end(struct gpu_team *team) {
    struct gpu_team *ended = malloc(sizeof *ended);
    if (ended != NULL)
        *ended = *team;
    if (ended != NULL && cuda_block_note(BLOCK_TEAM, team->ordinal, ended, sizeof *ended)) {
        cuda_block_give_back(ended);
    } else {
        free(ended);
        end_now(team);
    }
    *team = (struct gpu_team){0};
}

#else

void cuda_team_open(int ordinal) { (void)ordinal; }

bool cuda_can_team(int ordinal) {
    (void)ordinal;
    return false;
}

size_t cuda_team_granule(int ordinal, size_t page) {
    (void)ordinal;
    return page;
}

#endif

const struct gpu_teams cuda_teams = {
    .can_join = cuda_can_team,
#if CUDA_VERSION >= 12010
    .create = team_create,
    .open = team_open,
    .join = team_join,
    .bind = team_bind,
    .map = team_map,
    .end = team_end,
#endif
};
