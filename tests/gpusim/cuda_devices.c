/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine's GPUs, those of them that the process sees, contexts, and who reaches whom.
 *
 *    GPUSIM_GPUS=2             how many the machine has
 *    GPUSIM_LINKS=NVL          what joins any two, or a file that says it (cuda_links.c)
 *    GPUSIM_MIG=0              into how many instances each GPU is divided; a process sees one instance at most
 *    GPUSIM_PEERS=8            how many peers a GPU may have, where not all are joined by NVSwitches (any two by NVLink)
 *    GPUSIM_NO_MEMOPS=0        streams write no words and wait for none: 1: the call is refused; 2: the driver does not have it
 *    GPUSIM_SMS=16             multiprocessors of each GPU
 *    GPUSIM_CAPABILITY=90      or one per GPU, with commas; the last one is that of all further ones
 *    GPUSIM_SEED=1             decides what the machine does where it may choose
 *    GPUSIM_MEAN=1             0: it is as kind as can be
 *    CUDA_VISIBLE_DEVICES      which of them the process sees: ordinals, or beginnings of UUIDs as nvidia-smi prints them
 */
#include "gpusim/gpusim.h"
#include "gpusim/machine.h"
#include "gpusim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_device devices[SIM_GPUS_MAX];
static int ndevices, nplaces, instances;
static bool is_read;

/* The thread's contexts; the last one is current. */
static _Thread_local struct {
    int depth;
    struct sim_device *devices[32];
} stack;

/* ---- the machine ---- */

static struct sim_device device_at(int place) {
    return (struct sim_device){
        .ordinal = ndevices,
        .gpu = instances > 0 ? place / instances : place,
        .instance = instances > 0 ? place % instances + 1 : 0,
        .place = (uint32_t)place,
        .pool = 1u << ndevices,
    };
}

static void uuid_of(const struct sim_device *device, char uuid[16]) {
    memset(uuid, 0, 16);
    snprintf(uuid, 16, "sim gpu %02u/%02u", (unsigned)device->gpu % 100, (unsigned)device->instance % 100);
}

/* GPU-73696d20-6770-7520-3030-2f3030000000, or MIG-… of an instance. */
static void uuid_print(const struct sim_device *device, char *text, size_t room) {
    char uuid[16];
    uuid_of(device, uuid);
    size_t n = (size_t)snprintf(text, room, "%s", device->instance > 0 ? "MIG" : "GPU");
    for (int k = 0; k < 16; k++)
        n += (size_t)snprintf(text + n, room - n, "%s%02x", k == 0 || (k >= 4 && k <= 10 && k % 2 == 0) ? "-" : "",
                              (unsigned char)uuid[k]);
}

/* Of MIG instances a process sees the first that is named. False: there is none at this place. */
static bool see(int place) {
    if (place < 0 || place >= nplaces)
        return false;
    if (instances == 0 || ndevices == 0) {
        devices[ndevices] = device_at(place);
        ndevices++;
    }
    return true;
}

/* The place that a word of CUDA_VISIBLE_DEVICES names: an ordinal, or the beginning of one UUID and of no other. −1: none. */
static int place_named(const char *word, size_t length) {
    int found = -1, matches = 0;
    if (strspn(word, "0123456789") == length && length > 0)
        return atoi(word);
    for (int place = 0; place < nplaces; place++) {
        struct sim_device device = device_at(place);
        char uuid[64];
        uuid_print(&device, uuid, sizeof(uuid));
        if (length > strlen("GPU-") && strncmp(uuid, word, length) == 0) {
            found = place;
            matches++;
        }
    }
    return matches == 1 ? found : -1;
}

/* Words after one that names nothing do not count, as CUDA has it. */
static void see_named(const char *words) {
    size_t length = strcspn(words, ",");
    while (see(place_named(words, length)) && words[length] == ',') {
        words += length + 1;
        length = strcspn(words, ",");
    }
}

/* A program that fails says how to repeat what it saw. */
static void say_seed(int status, void *unused) {
    (void)unused;
    if (status != 0)
        fprintf(stderr, "GPUSIM_SEED=%llu\n", (unsigned long long)sim_number("GPUSIM_SEED", 1));
}

static struct gpusim_device_limits read_limits(void) {
    struct gpusim_device_limits limits = gpusim_small_h100;
    limits.sms = (uint32_t)sim_number("GPUSIM_SMS", limits.sms);
    if (limits.sms == 0)
        sim_violation("GPUSIM_SMS: a GPU has one multiprocessor at least");
    return limits;
}

static void read_machine(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int gpus = (int)sim_number("GPUSIM_GPUS", 2);
    const struct gpusim_device_limits limits = read_limits();
    is_read = true;
    on_exit(say_seed, NULL);
    instances = (int)sim_number("GPUSIM_MIG", 0);
    nplaces = instances > 0 ? gpus * instances : gpus;
    if (nplaces > SIM_GPUS_MAX)
        sim_violation("GPUSIM_GPUS: %d GPUs at most", SIM_GPUS_MAX);
    sim_links_read(gpus);
    gpusim_reset((uint32_t)nplaces, &limits, sim_number("GPUSIM_SEED", 1));
    if (sim_number("GPUSIM_MEAN", 1) == 0)
        gpusim_set_meanness(&(struct gpusim_meanness){.drain = 1});
    sim_mps_begin();
    for (int place = 0; visible == NULL && place < nplaces; place++)
        see(place);
    if (visible != NULL)
        see_named(visible);
}

int sim_device_count(void) {
    if (!is_read)
        read_machine();
    return ndevices;
}

struct sim_device *sim_device(int ordinal) {
    return ordinal < 0 || ordinal >= sim_device_count() ? NULL : &devices[ordinal];
}

/* Instances of one GPU do not reach each other, nor anything else. */
enum sim_link sim_link(uint32_t place, uint32_t other) {
    if (place == other)
        return LINK_NVL;
    return instances > 0 ? LINK_NONE : sim_gpus_link((int)place, (int)other);
}

/* ---- contexts ---- */

static void make_context(struct sim_device *device) {
    static uint64_t made; /* with the lock */
    if (!device->has_context)
        device->context = ++made;
    device->has_context = true;
}

uint32_t gpusim_contexts(void) {
    uint32_t set = 0;
    for (int k = 0; k < ndevices; k++)
        set |= (uint32_t)devices[k].has_context << k;
    return set;
}

struct sim_device *sim_device_here(void) {
    struct sim_device *device = stack.depth == 0 ? &devices[0] : stack.devices[stack.depth - 1];
    make_context(device);
    return device;
}

cudaError_t sim_device_failed(void) {
    return (stack.depth == 0 ? &devices[0] : stack.devices[stack.depth - 1])->failed;
}

cudaError_t cudaSetDevice(int ordinal) {
    SIM_CALL(SIM_SAFE);
    if (sim_device(ordinal) == NULL)
        return sim_result(cudaErrorInvalidDevice);
    stack.depth += stack.depth == 0;
    stack.devices[stack.depth - 1] = sim_device(ordinal);
    make_context(sim_device(ordinal));
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *ordinal) {
    SIM_CALL(SIM_SAFE);
    *ordinal = stack.depth == 0 ? 0 : stack.devices[stack.depth - 1]->ordinal;
    return cudaSuccess;
}

/* "Destroys all allocations and resets all state": what others still have of it is of no use to them. */
cudaError_t cudaDeviceReset(void) {
    SIM_CALL(SIM_UNSAFE);
    struct sim_device *device = sim_device_here();
    sim_wait_for_kernels(device);
    sim_streams_end(device);
    sim_memory_end(device);
    sim_kernels_unload(device);
    for (int k = 0; k < ndevices; k++)
        if (device->peers >> k & 1)
            gpusim_peer_access(device->place, devices[k].place, false);
    device->peers = 0;
    device->pool = 1u << device->ordinal;
    device->legacy = NULL;
    device->has_context = false;
    return cudaSuccess;
}

CUresult sim_cuCtxPushCurrent(CUcontext context) {
    SIM_DRIVER_CALL(SIM_SAFE);
    if (!((const struct sim_device *)context)->has_context)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (stack.depth == 32)
        return CUDA_ERROR_UNKNOWN;
    stack.devices[stack.depth++] = (struct sim_device *)context;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPopCurrent(CUcontext *context) {
    SIM_DRIVER_CALL(SIM_SAFE);
    if (stack.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = (CUcontext)stack.devices[--stack.depth];
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *context) {
    SIM_DRIVER_CALL(SIM_SAFE);
    *context = stack.depth == 0 ? NULL : (CUcontext)stack.devices[stack.depth - 1];
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext context, unsigned long long *id) {
    SIM_DRIVER_CALL(SIM_SAFE);
    if (!((const struct sim_device *)context)->has_context)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *id = ((const struct sim_device *)context)->context;
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    SIM_DRIVER_CALL(SIM_UNSAFE);
    if (sim_device(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    make_context(sim_device(device));
    *context = (CUcontext)sim_device(device);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal) {
    SIM_DRIVER_CALL(SIM_SAFE);
    if (sim_device(ordinal) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

/* ---- what they are ---- */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 0;
    SIM_CALL(SIM_SAFE);
    *count = sim_device_count();
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }

int sim_capability(const struct sim_device *device) {
    const char *text = getenv("GPUSIM_CAPABILITY");
    for (int gpu = 0; text != NULL && gpu < device->gpu && strchr(text, ',') != NULL; gpu++)
        text = strchr(text, ',') + 1;
    return text == NULL ? 90 : atoi(text);
}

static void name_of(const struct sim_device *device, char *name, size_t room) {
    const char *model = getenv("GPUSIM_MODEL");
    snprintf(name, room, "%s%s", model != NULL ? model : "Simulated GPU", device->instance > 0 ? " MIG 1g" : "");
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    SIM_DRIVER_CALL(SIM_SAFE);
    if (sim_device(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    uuid_of(sim_device(device), uuid->bytes);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int room, CUdevice device) {
    SIM_DRIVER_CALL(SIM_SAFE);
    if (sim_device(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    name_of(sim_device(device), name, (size_t)room);
    return CUDA_SUCCESS;
}

/* Of domain:bus:device.function. */
static int bus_number(const struct sim_device *device) {
    unsigned bus = 0;
    sscanf(sim_gpu_bus(device->gpu), "%*x:%x", &bus);
    return (int)bus;
}

static int attribute_of(const struct sim_device *device, enum cudaDeviceAttr which) {
    const struct gpusim_device_limits *limits = gpusim_limits();
    switch ((int)which) {
    case cudaDevAttrComputeCapabilityMajor: return sim_capability(device) / 10;
    case cudaDevAttrComputeCapabilityMinor: return sim_capability(device) % 10;
    case cudaDevAttrMultiProcessorCount: return (int)sim_mps_sms();
    case cudaDevAttrMaxThreadsPerBlock: return (int)limits->max_block_threads;
    case cudaDevAttrMaxSharedMemoryPerBlock:
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return (int)limits->sm_shared_bytes;
    case cudaDevAttrPciBusId: return bus_number(device);
    case cudaDevAttrWarpSize: return 32;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS: return sim_number("GPUSIM_NO_MEMOPS", 0) == 0;
    case cudaDevAttrMpsEnabled: return sim_number("GPUSIM_SLICE_US", 0) == 0 || sim_mps_percent() > 0;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: return sim_multicasts(device);
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess: return 1;
    }
    return 0;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int ordinal) {
    SIM_CALL(SIM_SAFE);
    if (sim_device(ordinal) == NULL)
        return sim_result(cudaErrorInvalidDevice);
    *value = attribute_of(sim_device(ordinal), which);
    return cudaSuccess;
}

CUresult sim_cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
    return cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)which, device) == cudaSuccess ? CUDA_SUCCESS
                                                                                            : CUDA_ERROR_INVALID_DEVICE;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int ordinal) {
    SIM_CALL(SIM_SAFE);
    const struct sim_device *device = sim_device(ordinal);
    if (device == NULL)
        return sim_result(cudaErrorInvalidDevice);
    memset(properties, 0, sizeof(*properties));
    name_of(device, properties->name, sizeof(properties->name));
    uuid_of(device, properties->uuid.bytes);
    properties->totalGlobalMem = (size_t)4 << 30;
    properties->sharedMemPerBlock = gpusim_limits()->sm_shared_bytes;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = (int)gpusim_limits()->max_block_threads;
    properties->major = sim_capability(device) / 10;
    properties->minor = sim_capability(device) % 10;
    properties->multiProcessorCount = (int)sim_mps_sms();
    properties->unifiedAddressing = properties->managedMemory = properties->canMapHostMemory = 1;
    properties->pciBusID = bus_number(device);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int room, int ordinal) {
    SIM_CALL(SIM_SAFE);
    if (sim_device(ordinal) == NULL)
        return sim_result(cudaErrorInvalidDevice);
    snprintf(text, (size_t)room, "%s", sim_gpu_bus(sim_device(ordinal)->gpu));
    return cudaSuccess;
}

/* ---- who reaches whom ---- */

cudaError_t cudaDeviceCanAccessPeer(int *can, int ordinal, int other) {
    SIM_CALL(SIM_SAFE);
    if (sim_device(ordinal) == NULL || sim_device(other) == NULL)
        return sim_result(cudaErrorInvalidDevice);
    *can = ordinal != other && sim_link(sim_device(ordinal)->place, sim_device(other)->place) != LINK_NONE;
    return cudaSuccess;
}

static bool is_joined_to_all(const struct sim_device *device) {
    for (int k = 0; k < sim_device_count(); k++)
        if (sim_link(device->place, sim_device(k)->place) != LINK_NVL)
            return false;
    return true;
}

/* "On non-NVSwitch enabled systems, each device can support a system-wide maximum of eight peer connections." */
static bool has_all_peers(const struct sim_device *device) {
    uint64_t most = is_joined_to_all(device) ? SIM_GPUS_MAX : 8;
    return (uint64_t)__builtin_popcount(device->peers) >= sim_number("GPUSIM_PEERS", most);
}

cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned flags) {
    SIM_CALL(SIM_UNSAFE);
    struct sim_device *device = sim_device_here(), *peer = sim_device(other);
    if (flags != 0)
        return sim_result(cudaErrorInvalidValue);
    if (peer == NULL || peer == device)
        return sim_result(cudaErrorInvalidDevice);
    if (sim_link(device->place, peer->place) == LINK_NONE)
        return sim_result(cudaErrorPeerAccessUnsupported);
    if (device->peers >> other & 1)
        return sim_result(cudaErrorPeerAccessAlreadyEnabled);
    if (has_all_peers(device))
        return sim_result(cudaErrorTooManyPeers);
    device->peers |= 1u << other;
    gpusim_peer_access(device->place, peer->place, true);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr which, int ordinal, int other) {
    SIM_CALL(SIM_SAFE);
    if (sim_device(ordinal) == NULL || sim_device(other) == NULL || ordinal == other)
        return sim_result(cudaErrorInvalidDevice);
    enum sim_link link = sim_link(sim_device(ordinal)->place, sim_device(other)->place);
    *value = which == cudaDevP2PAttrNativeAtomicSupported ? link == LINK_NVL : link != LINK_NONE;
    return cudaSuccess;
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                               enum cudaFlushGPUDirectRDMAWritesScope scope) {
    SIM_CALL(SIM_SAFE);
    (void)target, (void)scope;
    return sim_result(cudaErrorNotSupported);
}
