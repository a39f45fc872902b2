/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/costs.h"

#include <math.h>

/* LINK_MEMORY, LINK_MEMORY_FAR and what CPUs cost: fitted by collet-tune to 2 and 4 ranks on 2 CPUs (docs/tuning.md); only
 * ratios decide. LINK_NET: guessed from single calls over TCP on one host. GPU classes are neither measured nor taken
 * from a source: latencies of the order of those that NCCL is known to assume for a hop, split between engine and wire;
 * a block moves some 50 GB/s of operands and places together, half as much with LL, whose lines carry as many bytes of
 * flags as of data. */
const struct cost_table costs_default =
    {
        .step =
            {
                [LINK_MEMORY] = {[INTERP_SIMPLE] = {16, 52, 0.032, 24, 0},
                                 [INTERP_LL] = {18, 36, 0.09, 26, 0},
                                 [INTERP_LL128] = {12, 42, 0.038, 22, 0}},
                [LINK_MEMORY_FAR] = {[INTERP_SIMPLE] = {16, 130, 0.0137, 310, 0},
                                     [INTERP_LL] = {18, 69, 0.43, 180, 0},
                                     [INTERP_LL128] = {12, 72, 0.17, 240, 0}},
                [LINK_NET] = {[INTERP_SIMPLE] = {15, 2200, 0.10, 3000, 0.05},
                              [INTERP_LL] = {15, 2200, 0.40, 3000, 0.10},
                              [INTERP_LL128] = {15, 2200, 0.40, 3000, 0.10}},
                [LINK_GPU] = {[INTERP_SIMPLE] = {400, 200, 0.02, 2600, 0}, [INTERP_LL] = {100, 25, 0.04, 450, 0}},
                [LINK_GPU_PCI] = {[INTERP_SIMPLE] = {400, 200, 0.02, 4900, 0}, [INTERP_LL] = {100, 25, 0.04, 850, 0}},
                [LINK_GPU_NET] = {[INTERP_SIMPLE] = {400, 200, 0.02, 13200, 0}, [INTERP_LL] = {100, 25, 0.04, 2550, 0}},
            },
        .wire_factor = {[INTERP_SIMPLE] = 1, [INTERP_LL] = 2, [INTERP_LL128] = 128.0 / 120},
        .switch_ns = 630,
        .turns_share = 0.125,
        .gpu_call_ns = 6000,
        .gpu_blocks = 64,
};

static bool is_sound(double number) { return isfinite(number) && number >= 0; }

bool costs_are_sound(const struct cost_table *costs) {
    bool sound = is_sound(costs->switch_ns) && is_sound(costs->turns_share) && is_sound(costs->gpu_call_ns) &&
                 costs->gpu_blocks >= 1;
    for (int p = 0; p < COSTS_PROTOCOLS; p++)
        sound = sound && is_sound(costs->wire_factor[p]);
    for (int class = 0; class < LINK_CLASS_COUNT; class ++)
        for (int p = 0; p < COSTS_PROTOCOLS; p++) {
            const struct step_cost *step = &costs->step[class][p];
            sound = sound && is_sound(step->step_ns) && is_sound(step->peer_ns) && is_sound(step->byte_ns) &&
                    is_sound(step->alpha_ns) && is_sound(step->wire_byte_ns);
        }
    return sound;
}
