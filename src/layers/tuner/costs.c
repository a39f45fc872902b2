/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/costs.h"

#include <math.h>

/* LINK_MEMORY, LINK_MEMORY_FAR and what CPUs cost: fitted by collet-tune to 2 and 4 ranks on 2 CPUs (docs/tuning.md); only
 * ratios decide.
 *
 * LINK_NET: from calls over TCP on one host. 8 bytes take 5.2 µs from call to result: system calls of sender and receiver,
 * and little else, for the packet is in the receiver's socket before the sender's call returns. Each byte is copied into
 * the kernel by the one and out of it by the other, at 10 GB/s. Between hosts the topology adds the link's bandwidth.
 *
 * GPUs: assumed from data sheets and published figures, not measured (docs/tuning.md#ranks-on-gpus has all sources). What the
 * kernels do is counted (make bench-gpu-sim).
 *
 *      hop    step + 2 peers + fence + α of a ring: of NVLink, PCI and the network what NCCL's src/graph/tuning.cc (of 2022 and
 *             2023) has as hwLat. Within a GPU two thirds of NVLink's; through the host twice PCI's: one way to write a line,
 *             one more to read it. The network has the proxy and the NIC in it, and is fitted: 2.7, 4.0 and 14.0 µs there, but
 *             8 bytes take 93 µs round a ring of two hosts of eight A100, and 47 µs along a tree: four hops and two. So each
 *             hop over the network takes 12.3 µs more
 *      peer   in Simple one lane looks for one peer after the other, in LL each lane for 4 peers at once, in LL128 for 2.
 *             A look is 200 cycles of L2 (doi 10.1016/j.ultsonch.2023.106546, table 3): 142 ns of an A100. Counted: no look is at
 *             memory of another GPU. Simple's headers and counters take some 60 ns more: guessed
 *      fence  counted: one per step of plain payload, whatever the number of peers; none per step in lines. It waits until the
 *             step's stores are there and this is known here: as long as a line takes there and back. Over a network payload is
 *             plain in every protocol, and is stored in pinned memory of the host
 *      byte   a block moves 20 GB/s round a ring (there, perChMaxRingLL128Bws of sm_70 and sm_80), which touches each byte
 *             three times: 1 ÷ 60 GB/s; with LL and LL128 only 8 of 16 and 120 of 128 bytes of a line are data
 *             (sm_90 36.7 GB/s, sm_100 40: cards.c). Counted: a lane of LL has 8 bytes of a peer under way at once, one of
 *             LL128 2 × 15 at least. In the 400 cycles of a load (same table) 512 lanes move 4 and 15 KB: 14 and 54 GB/s, so
 *             lines under way are no tighter limit
 *      call   8.6 µs: launch, first loads and end. 6.6 there (baseLat), but two A100 take 10.1 µs for 32 bytes
 *      turn   a slice of time of processes that share an H200, measured on 2026-11-26
 *      block  guessed: that many blocks do not pay for a few bytes each
 *      switch what NVSwitches sum and store gets 0.85 of a link's bandwidth (tuning.cc of 2026, nvlsEfficiency of sm_90; of sm_100
 *             0.74)
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
#define GPU_FENCE(ll_hop_ns) (2 * (ll_hop_ns - 100 - 2 * 35)) /* α of LL, there and back */

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
                [LINK_LENT] = {[PROTOCOL_SIMPLE] = {0, 83, 0.01, 7.4, 0, 0}},
                [LINK_LENT_CMA] = {[PROTOCOL_SIMPLE] = {0, 1000, 0.009, 7.4, 0, 0}},
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

bool costs_are_sound(const struct cost_table *costs) {
    bool sound = is_sound(costs->switch_ns) && is_sound(costs->turns_share) && is_sound(costs->gpu_call_ns) &&
                 is_sound(costs->gpu_block_ns) && is_sound(costs->gpu_turn_ns) && is_sound(costs->gpu_memory_gbps) &&
                 is_sound(costs->gpu_lent_share) && is_sound(costs->switched_share) && costs->gpu_blocks >= 1;
    for (int class = 0; class < LINK_CLASS_COUNT; class ++)
        for (int p = 0; p < COSTS_PROTOCOLS; p++) {
            const struct step_cost *step = &costs->step[class][p];
            sound = sound && is_sound(step->step_ns) && is_sound(step->peer_ns) && is_sound(step->byte_ns) &&
                    is_sound(step->alpha_ns) && is_sound(step->wire_byte_ns) && is_sound(step->fence_ns);
        }
    return sound;
}
