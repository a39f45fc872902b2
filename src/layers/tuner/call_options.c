/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/call_options.h"

#include "base/err.h"
#include "base/log.h"
#include "plan/extent.h"

/* ---- one number ----
 *
 *      0 … 7   8 … 39       40 … 43     44 … 50   51 … 57   58        59
 *      0       algorithms   protocols   fewest    most      insists   by kernels
 *
 * The lowest byte is free for the number of the algorithm that is chosen, where a plan's signature is made of both. */
#define ALGORITHMS_AT 8
#define PROTOCOLS_AT 40
#define FEWEST_AT 44
#define MOST_AT 51
#define INSISTS_AT 58
#define KERNELS_AT 59
_Static_assert(ALGORITHMS_MAX <= 1 << ALGORITHMS_AT, "the number of an algorithm has room");
_Static_assert(PROTOCOL_COUNT <= FEWEST_AT - PROTOCOLS_AT, "protocols have room");
_Static_assert(CHANNELS_MAX < 1 << (MOST_AT - FEWEST_AT), "numbers of channels have room");

uint64_t call_options_pack(const struct call_options *options) {
    return (uint64_t)options->algorithms << ALGORITHMS_AT | (uint64_t)options->protocols << PROTOCOLS_AT |
           (uint64_t)options->fewest << FEWEST_AT | (uint64_t)options->most << MOST_AT |
           (uint64_t)options->insists << INSISTS_AT | (uint64_t)options->by_kernels << KERNELS_AT;
}

struct call_options call_options_unpack(uint64_t packed) {
    const uint64_t channels = (1u << (MOST_AT - FEWEST_AT)) - 1;
    return (struct call_options){.algorithms = (uint32_t)(packed >> ALGORITHMS_AT),
                                 .protocols = packed >> PROTOCOLS_AT & ((1u << (FEWEST_AT - PROTOCOLS_AT)) - 1),
                                 .fewest = (int)(packed >> FEWEST_AT & channels),
                                 .most = (int)(packed >> MOST_AT & channels),
                                 .insists = packed >> INSISTS_AT & 1,
                                 .by_kernels = packed >> KERNELS_AT & 1};
}

uint32_t call_options_bit(const struct algorithm *algorithm) {
    int number = 0;
    for (const struct algorithm *a = algorithms; a < algorithm; a++)
        number += a->collective == algorithm->collective;
    return 1u << number;
}

/* ---- limits ---- */

/* Restricts the limits to the wanted algorithms. False: none of them is possible, and the limits do not change. */
static bool hold_algorithms(uint32_t wanted, enum prog_collective collective, const struct prog_shape *shape,
                            struct tuner_limits *limits) {
    struct tuner_limits held = *limits;
    for (int k = 0; algorithms[k].name != NULL; k++)
        if (algorithms[k].collective == collective) {
            held.algorithm_named[k] = (call_options_bit(&algorithms[k]) & wanted) != 0;
            held.algorithm_excluded[k] = false;
        }
    held.imported = NULL;
    if (!tuner_is_named(&held, collective, shape))
        return false;
    *limits = held;
    return true;
}

/* Restricts the limits to the wanted protocols. What the configuration excludes may be wanted. What the machine excludes may
 * not: some GPUs have no LL128. False: none of the protocols is possible, and the limits do not change. */
static bool hold_protocols(uint32_t wanted, enum prog_collective collective, struct tuner_limits *limits) {
    struct tuner_limits held = *limits;
    bool any = false;
    for (int p = 0; p < PROTOCOL_COUNT; p++) {
        const bool can = p != PROTOCOL_LL128 || limits->gpu_blocks == 0 || limits->protocol_allowed[p];
        any |= held.protocol_allowed[p] = can && (wanted >> p & 1);
    }
    held.barred[collective] = 0;
    if (any)
        *limits = held;
    return any;
}

static int less_of(int a, int b) { return a < b ? a : b; }

/* Restricts the number of channels, but never above the limit of the configuration, if there is one. */
static void hold_channels(const struct call_options *options, struct tuner_limits *limits) {
    const int fewest = limits->nchannels, most = limits->most_nchannels > fewest ? limits->most_nchannels : fewest;
    const int bound = limits->channels_given ? most : CHANNELS_MAX;
    if (options->most > 0)
        limits->most_nchannels = less_of(options->most, most);
    limits->nchannels = options->fewest > 0 ? less_of(options->fewest, bound) : less_of(fewest, limits->most_nchannels);
    if (limits->most_nchannels < limits->nchannels)
        limits->most_nchannels = limits->nchannels;
}

static enum collet_result unmet(const struct call_options *options, const char *what, enum prog_collective collective,
                                const struct prog_shape *shape) {
    const char *name = prog_collective_name(collective);
    if (options->insists)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "no %s that the options of this call name takes %s of %d ranks on %d node%s", what, name,
                       shape->nranks, shape->nnodes, shape->nnodes == 1 ? "" : "s");
    log_warn(PLAN, "no %s that the options of a call name takes %s of %d ranks: another one does it", what, name,
             shape->nranks);
    return COLLET_SUCCESS;
}

enum collet_result call_options_restrict(const struct call_options *options, enum prog_collective collective,
                                         const struct prog_shape *shape, struct tuner_limits *limits) {
    if (options->algorithms != 0 && !hold_algorithms(options->algorithms, collective, shape, limits))
        COLLET_TRY(unmet(options, "algorithm", collective, shape));
    if (options->protocols != 0 && !hold_protocols(options->protocols, collective, limits))
        COLLET_TRY(unmet(options, "protocol", collective, shape));
    hold_channels(options, limits);
    return COLLET_SUCCESS;
}

enum collet_result call_options_spare(const struct call_options *options, const struct prog_shape *shape,
                                      uint64_t bytes, struct plan_choice *choice) {
    struct work_args args;
    struct prog *prog;
    COLLET_TRY(algorithm_build(choice->algorithm, shape, 0, 0, &prog));
    plan_extent(choice->algorithm->collective, bytes, shape->nranks, prog->nslices, &args);
    prog_destroy(prog);
    const int spared = plan_channels(choice->nchannels, args.block_elems);
    choice->nchannels = spared > options->fewest ? spared : less_of(choice->nchannels, options->fewest);
    return COLLET_SUCCESS;
}
