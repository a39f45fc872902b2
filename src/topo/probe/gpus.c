/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs and their links, as NVIDIA's management library (NVML) knows them. The library is opened when it is needed, and is never
 * required. So far this ran on a machine with one GPU only; tests give topo_add_gpus() functions of their own.
 *
 * NVML lists a GPU's links one by one, with the bus id at the other end. This id belongs to another GPU of the graph, or to
 * something else, which is an NVSwitch. A virtual machine may hide its switches; then the ends of all links are unknown. So
 * an active link that ends at no known GPU counts as a link to the switch.
 */
#include "topo/probe/gpus.h"

#include "base/log.h"
#include "base/low.h"
#include "topo/probe/speeds.h"

#include <dlfcn.h>
#include <string.h>

enum { LINKS_MAX = 18, CAPABILITY_READ = 0 };

/* Finds a GPU by its bus id. NVML writes PCI domains with eight digits, the kernel with four. */
static int find_gpu(const struct topo *topo, const struct gpus_pci *pci) {
    char busid[TOPO_BUSID_BYTES];
    snprintf(busid, sizeof busid, "%04x:%02x:%02x.0", pci->domain & 0xffff, pci->bus & 0xff, pci->device & 0xff);
    int node = topo_find_busid(topo, busid);
    return node >= 0 && topo->nodes[node].kind == TOPO_GPU ? node : -1;
}

static bool has_links(const struct topo *topo, int gpu) {
    for (int l = topo->nodes[gpu].first_link; l >= 0; l = topo->links[l].next)
        if (topo->links[l].medium == MEDIUM_NVLINK)
            return true;
    return false;
}

static void add_links(struct topo *topo, const struct gpus_nvml *nvml, void *device, int gpu) {
    double gbps = speed_of_gpu_link(&topo->nodes[gpu].gpu);
    for (unsigned link = 0; link < LINKS_MAX; link++) {
        struct gpus_pci remote = {0};
        unsigned active = 0;
        if (nvml->DeviceGetNvLinkState(device, link, &active) != 0 || active != 1)
            continue;
        bool known = nvml->DeviceGetNvLinkRemotePciInfo_v2(device, link, &remote) == 0;
        int to = known ? find_gpu(topo, &remote) : -1;
        topo_add_link(topo, gpu, to >= 0 ? to : topo_nvswitch(topo), MEDIUM_NVLINK, 1, gbps);
    }
}

static void note_peers_apart(const struct gpus_nvml *nvml, void *const *devices, unsigned count) {
    for (unsigned a = 0; a < count; a++)
        for (unsigned b = 0; b < count; b++) {
            unsigned status = 0;
            if (a != b && devices[a] != NULL && devices[b] != NULL &&
                nvml->DeviceGetP2PStatus(devices[a], devices[b], CAPABILITY_READ, &status) == 0 && status != 0)
                log_info(GRAPH, "GPU %u cannot read the memory of GPU %u (NVML status %u)", a, b, status);
        }
}

/* Numbers the GPUs as NVML does, and adds links to GPUs that have none. The graph must not be finished yet. */
static void topo_add_gpus(struct topo *topo, const struct gpus_nvml *nvml) {
    enum { GPUS_MAX = 64 };
    void *devices[GPUS_MAX] = {NULL};
    unsigned count = 0;
    if (nvml->DeviceGetCount_v2(&count) != 0)
        return;
    count = count < GPUS_MAX ? count : GPUS_MAX;
    for (unsigned i = 0; i < count; i++) {
        struct gpus_pci pci = {0};
        int major = 0, minor = 0;
        if (nvml->DeviceGetHandleByIndex_v2(i, &devices[i]) != 0 || nvml->DeviceGetPciInfo_v3(devices[i], &pci) != 0)
            continue;
        int node = find_gpu(topo, &pci);
        if (node < 0) {
            log_info(GRAPH, "GPU %u at %.31s is not on the PCI bus that this process sees: passed over", i, pci.busid);
            continue;
        }
        if (topo->nodes[node].gpu.dev < 0)
            topo->nodes[node].gpu.dev = (int)i;
        topo->nodes[node].gpu.gdr = true;
        if (nvml->DeviceGetCudaComputeCapability(devices[i], &major, &minor) == 0)
            topo->nodes[node].gpu.sm = 10 * major + minor;
        if (!has_links(topo, node))
            add_links(topo, nvml, devices[i], node);
    }
    note_peers_apart(nvml, devices, count);
}

/* ------------------------------------------------------------------------------------------------------ the library */

static bool open_nvml(void *library, struct gpus_nvml *nvml) {
    struct {
        const char *name;
        void *function; /* Address of a function pointer. */
    } symbols[] = {
#define X(name, arguments) {"nvml" #name, &nvml->name},
        GPUS_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (address == NULL) {
            log_info(GRAPH, "libnvidia-ml.so.1 has no %s: GPU links remain unknown", symbols[i].name);
            return false;
        }
        memcpy(symbols[i].function, &address, sizeof address);
    }
    return true;
}

void topo_probe_gpus(struct topo *topo) {
    struct gpus_nvml nvml;
    SCOPED_LOW;
    void *library = topo_count(topo, 0, TOPO_GPU) > 0 ? dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL)
        return;
    if (open_nvml(library, &nvml) && nvml.Init_v2() == 0) {
        topo_add_gpus(topo, &nvml);
        nvml.Shutdown();
    }
    dlclose(library);
}
