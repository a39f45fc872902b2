/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounded bandwidths that large transfers reach. For a choice only their order matters; their digits hardly do.
 */
#include "topo/probe/speeds.h"

#include <math.h>
#include <string.h>

/* The share of the raw bandwidth that remains for data. PCI Express spends the rest on packet headers, acknowledgements and
 * credits, with payloads of 256 bytes. */
#define PCI_EFFICIENCY 0.8
#define PCI_DEFAULT_GTS 8.0
#define PCI_DEFAULT_LANES 16

/* Bits of data per bit on the lane. The codes are 8b/10b, then 128b/130b, then flits. */
static double pci_encoding(double gts) { return gts <= 5 ? 0.8 : gts <= 32 ? 128.0 / 130 : 242.0 / 256; }

static double pci_raw(double gts, int lanes) { return gts * lanes / 8 * pci_encoding(gts); }

double speed_of_pci(const struct topo_pci *pci) {
    double gts = pci->link_gts > 0 ? pci->link_gts : PCI_DEFAULT_GTS;
    int lanes = pci->link_lanes > 0 ? pci->link_lanes : PCI_DEFAULT_LANES;
    return pci_raw(gts, lanes) * PCI_EFFICIENCY;
}

void speed_guess_lanes(double raw_gbps, struct topo_pci *pci) {
    double best = INFINITY;
    for (double gts = 64; gts >= 2; gts = gts > 8 ? gts / 2 : gts == 8 ? 5 : gts - 2.5)
        for (int lanes = 16; lanes >= 1; lanes /= 2) {
            double error = fabs(pci_raw(gts, lanes) / raw_gbps - 1);
            if (error < best - 0.01) {
                best = error;
                pci->link_gts = gts;
                pci->link_lanes = lanes;
            }
        }
}

void speed_narrow(struct topo_pci *pci, const struct topo_pci *other) {
    bool unknown = pci->link_gts <= 0 || pci->link_lanes <= 0;
    if (other->link_gts <= 0 || other->link_lanes <= 0 || (!unknown && speed_of_pci(pci) <= speed_of_pci(other)))
        return;
    pci->link_gts = other->link_gts;
    pci->link_lanes = other->link_lanes;
}

double speed_of_gpu_link(const struct topo_gpu *gpu) {
    static const struct {
        const char *gcn;
        double gbps;
    } amd[] = {{"906", 24}, {"908", 24}, {"910", 36}, {"90a", 36}, {"940", 48}, {"941", 48}, {"942", 48}, {"950", 48}};
    const char *gcn = strncmp(gpu->gcn, "gfx", 3) == 0 ? gpu->gcn + 3 : gpu->gcn;
    for (size_t i = 0; i < sizeof amd / sizeof *amd; i++)
        if (strncmp(gcn, amd[i].gcn, 3) == 0)
            return amd[i].gbps;
    if (gpu->sm >= 100)
        return 40.1;
    if (gpu->sm >= 90)
        return 20.6;
    if (gpu->sm == 86 || gpu->sm == 89)
        return 12;
    return gpu->sm >= 70 || gpu->sm == 0 ? 20 : 18;
}

double speed_of_sys(const struct topo_cpu *cpu) {
    if (strcmp(cpu->vendor, "AuthenticAMD") == 0)
        return 16;
    if (strcmp(cpu->vendor, "GenuineIntel") == 0) /* By generation: Sapphire Rapids, Skylake, older. */
        return cpu->modelid >= 143 ? 40 : cpu->modelid >= 85 ? 10 : 6;
    return strncmp(cpu->arch, "ppc", 3) == 0 ? 32 : 16;
}

double speed_of_nic(const struct topo_node *nic) {
    if (nic->nic.mbits > 0)
        return (double)nic->nic.mbits / 8000;
    return nic->pci.link_gts > 0 ? speed_of_pci(&nic->pci) : SPEED_NIC_MBITS / 8000.0;
}
