/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/costs.h"

#include <math.h>

/* LINK_MEMORY, LINK_MEMORY_FAR and the costs of CPUs were fitted by collet-tune to 2 and 4 ranks on 2 CPUs (docs/tuning.md). Only their
 * ratios matter.
 *
 * LINK_NET follows from calls over TCP on one host. 8 bytes take 5.2 µs from call to result. These are system calls of sender and
 * receiver, and little else: the packet is in the receiver's socket before the sender's call returns. The sender copies each byte into the
 * kernel, and the receiver copies it out, at 10 GB/s. Between hosts the topology adds the link's bandwidth.
 *
 * The costs of GPUs are assumed from data sheets and published figures, not measured (docs/tuning.md#ranks-on-gpus has all sources). What
 * the kernels do is counted (make bench-gpu-sim). "NCCL" below is NCCL's src/graph/tuning.cc of 2022 and 2023.
 *
 *      hop    step + 2 peers + fence + α of a ring. For NVLink, PCI and the network it is hwLat of NCCL. Within a GPU it is two thirds of
 *             NVLink's. Through the host it is twice PCI's: one way to write a line, one more to read it. Over the network it contains
 *             proxy and NIC, and is fitted: NCCL has 2.7, 4.0 and 14.0 µs, but 8 bytes take 93 µs round a ring of two hosts of
 *             eight A100 (four hops over the network), and 47 µs along a tree (two hops). So each such hop takes 12.3 µs more
 *      peer   In Simple, each end has a lane (thread of a block). In LL a lane looks for 4 peers at once, or for one if there are lanes
 *             enough, in LL128 for 2. A look takes 200 cycles of L2 (doi 10.1016/j.ultsonch.2023.106546, table 3): 142 ns of an A100. Counted: no
 *             look is at memory of another GPU. Guessed: headers and counters of Simple take some 60 ns more
 *      fence  Counted: a step of plain payload has one, whatever the number of peers; a step in lines has none. A fence waits until the
 *             step's stores are there and this is known here: as long as a line takes in both directions. Over a network payload is
 *             plain in every protocol, and is stored in pinned memory of the host
 *      byte   A block moves 20 GB/s round a ring (NCCL's perChMaxRingLL128Bws of sm_70 and sm_80; 36.7 GB/s of sm_90, 40 of sm_100:
 *             cards.c). A ring touches each byte three times: 1 ÷ 60 GB/s. With LL only 8 of 16 bytes of a line are data, with
 *             LL128 120 of 128. Counted: a lane of LL has 8 bytes of a peer under way at once, a lane of LL128 at least 2 × 15. In the
 *             400 cycles of a load (same table) 512 lanes move 4 and 15 KB: 14 and 54 GB/s, so lines under way are no tighter limit
 *      call   Launch, first loads and end: 8.6 µs. NCCL has 6.6 (baseLat), but two A100 take 10.1 µs for 32 bytes
 *      turn   The slice of time of processes that share an H200, measured on 2026-11-26
 *      block  Guessed, so that many blocks do not pay for a few bytes each
 *      switch Sums and stores of NVSwitches reach 0.85 of a link's bandwidth (tuning.cc of 2026, nvlsEfficiency of sm_90; 0.74 of sm_100)
 */
#define GPU_BYTE_NS (1.0 / 60)
#define GPU_STEP(step_ns, peer_ns, byte_ns, hop_ns, fence_ns)                                                          \
    { step_ns, peer_ns, byte_ns, hop_ns - step_ns - 2 * peer_ns - fence_ns, 0, fence_ns }
#define GPU_CLASS(simple_hop_ns, ll_hop_ns, ll128_hop_ns, simple_fence_ns, lines_fence_ns)                             \
    {                                                                                                                  \
        [PROTOCOL_SIMPLE] = GPU_STEP(400, 200, GPU_BYTE_NS, simple_hop_ns, simple_fence_ns),                           \
        [PROTOCOL_LL] = GPU_STEP(100, 35, GPU_BYTE_NS * 2, ll_hop_ns, lines_fence_ns),                                 \
        [PROTOCOL_LL128] = GPU_STEP(200, 70, GPU_BYTE_NS * 128 / 120, ll128_hop_ns, lines_fence_ns),                   \
    }
#define GPU_FENCE(ll_hop_ns) (2 * (ll_hop_ns - 100 - 2 * 35)) /* α of LL, in both directions. */

const struct cost_table costs_default =
    {
        .step =
            {
                [LINK_MEMORY] = {[PROTOCOL_SIMPLE] = {5.6, 83, 0.02, 7.4, 0, 0},
                                 [PROTOCOL_LL] = {19, 38, 0.1, 18, 0, 0},
                                 [PROTOCOL_LL128] = {12, 47, 0.037, 17, 0, 0}},
                [LINK_MEMORY_FAR] = {[PROTOCOL_SIMPLE] = {5.6, 263, 0.0269, 125, 0, 0},
                                     [PROTOCOL_LL] = {19, 78, 0.48, 134, 0, 0},
                                     [PROTOCOL_LL128] = {12, 115, 0.19, 119, 0, 0}},
                [LINK_LENT] = {[PROTOCOL_SIMPLE] = {0, 83, 0.02, 7.4, 0, 0}},
                [LINK_LENT_CMA] = {[PROTOCOL_SIMPLE] = {0, 1917, 0.018, 7.4, 0, 0}},
                [LINK_NET] = {[PROTOCOL_SIMPLE] = {15, 2200, 0.10, 800, 0, 0},
                              [PROTOCOL_LL] = {15, 2200, 0.40, 800, 0, 0},
                              [PROTOCOL_LL128] = {15, 2200, 0.40, 800, 0, 0}},
                [LINK_GPU] = GPU_CLASS(2270, 400, 1270, GPU_FENCE(400), 0),
                [LINK_GPU_NVLINK] = GPU_CLASS(3400, 600, 1900, GPU_FENCE(600), 0),
                [LINK_GPU_PCI] = GPU_CLASS(5700, 1000, 2500, GPU_FENCE(1000), 0),
                [LINK_GPU_HOST] = GPU_CLASS(11400, 2000, 5000, GPU_FENCE(2000), 0),
                [LINK_GPU_NET] = GPU_CLASS(26300, 15000, 16300, GPU_FENCE(1000), GPU_FENCE(1000)),
            },
        .switch_ns = 1336,
        .turns_share = 0.078,
        .gpu_call_ns = 8600,
        .gpu_block_ns = 50,
        .gpu_turn_ns = 2250000,
        .gpu_blocks = 64,
        .gpu_memory_gbps = 0,
        .gpu_lent_share = 0.5,
        .switched_share = 0.85,
};

enum link_class costs_class_of_gpus(enum topo_class path) {
    static const enum link_class classes[TOPO_CLASS_COUNT] = {
        [PATH_LOC] = LINK_GPU,     [PATH_NVL] = LINK_GPU_NVLINK, [PATH_PIX] = LINK_GPU_PCI, [PATH_PXB] = LINK_GPU_PCI,
        [PATH_PHB] = LINK_GPU_PCI, [PATH_SYS] = LINK_GPU_HOST,   [PATH_NET] = LINK_GPU_NET, [PATH_NONE] = LINK_GPU_NET};
    return classes[path];
}

static bool is_sound(double number) { return isfinite(number) && number >= 0; }

static bool is_sound_host(const struct host_speed *host) {
    return is_sound(host->line_ns) && is_sound(host->slot_ns) && is_sound(host->slot_byte_ns) &&
           is_sound(host->lent_byte_ns) && is_sound(host->kernel_ns) && is_sound(host->kernel_byte_ns) &&
           is_sound(host->own_byte_ns) && is_sound(host->memory_gbps) && is_sound(host->cache_bytes);
}

bool costs_are_sound(const struct cost_table *costs) {
    bool sound = is_sound_host(&costs->host) && is_sound(costs->switch_ns) && is_sound(costs->turns_share) &&
                 is_sound(costs->gpu_call_ns) && is_sound(costs->gpu_block_ns) && is_sound(costs->gpu_turn_ns) &&
                 is_sound(costs->gpu_memory_gbps) && is_sound(costs->gpu_lent_share) &&
                 is_sound(costs->switched_share) && costs->gpu_blocks >= 1;
    for (int class = 0; class < LINK_CLASS_COUNT; class ++)
        for (int p = 0; p < COSTS_PROTOCOLS; p++) {
            const struct step_cost *step = &costs->step[class][p];
            sound = sound && is_sound(step->step_ns) && is_sound(step->peer_ns) && is_sound(step->byte_ns) &&
                    is_sound(step->alpha_ns) && is_sound(step->wire_byte_ns) && is_sound(step->fence_ns);
        }
    return sound;
}
