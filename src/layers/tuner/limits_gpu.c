/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/limits_gpu.h"

#include "base/err.h"
#include "base/log.h"
#include "base/names.h"

#include <limits.h>
#include <strings.h>

/* May ranks on one GPU use LL128? Its lines are expensive for a block, and only pay where they cross a link. So within one
 * GPU only a user who asks for LL128 gets it, or a collective that may have nothing else. */
static bool asks_for_ll128(const struct config *config, const struct tuner_limits *limits) {
    const unsigned others = ((1u << PROTOCOL_COUNT) - 1) & ~(1u << PROTOCOL_LL128);
    char name[NAME_BYTES];
    bool named = false, other = false;
    for (const char *list = config->proto; *config->proto != '^' && name_next(&list, name);)
        named |= strcasecmp(protocol_names[PROTOCOL_LL128], name) == 0;
    for (int c = 0; c < PROG_COLLECTIVE_COUNT; c++)
        named |= (limits->barred[c] & others) == others;
    for (int k = 0; k < PROTOCOL_COUNT; k++)
        other |= k != PROTOCOL_LL128 && limits->protocol_allowed[k];
    return named || !other;
}

/* Maximum number of channels if a rank has a GPU of its own. Fewer channels are said to fill the links between GPUs; this was not
 * measured. Ranks that share a GPU were measured with more channels. */
#define CHANNELS_ALONE 32

void tuner_limits_of_gpus(const struct config *config, int blocks, int ranks, bool apart, struct tuner_limits *limits) {
    int most = ranks > 1 ? CHANNELS_MAX : CHANNELS_ALONE;
    limits->gpu_blocks = blocks;
    limits->gpu_ranks = ranks;
    limits->one_gpu = ranks > 1 && !apart;
    limits->protocol_allowed[PROTOCOL_LL128] &= apart || asks_for_ll128(config, limits);
    if (config->nchannels > 0)
        return;
    limits->nchannels = config->min_nchannels > 0 ? (int)config->min_nchannels : 1;
    limits->most_nchannels = config->max_nchannels > 0 ? (int)config->max_nchannels : most;
}

int tuner_fitting_channels(const struct tuner_limits *limits, int blocks) {
    return limits->gpu_blocks > 0 ? limits->gpu_blocks / (limits->gpu_ranks * (blocks > 0 ? blocks : 1)) : INT_MAX;
}

enum collet_result tuner_err_no_room(const struct tuner_limits *limits, const char *what, int blocks) {
    return err_set(
        COLLET_ERR_UNSUPPORTED,
        "%s takes %d blocks of each rank, and %d ranks are on one GPU: %d blocks must run side by side, but the "
        "GPU runs %d; put fewer ranks on it or name another algorithm in COLLET_ALGO",
        what, blocks, limits->gpu_ranks, blocks * limits->gpu_ranks, limits->gpu_blocks);
}

void tuner_warn_of_channels(struct tuner_limits *limits, const struct plan_choice *choice) {
    if (choice->nchannels >= limits->nchannels || limits->gpu_blocks == 0 || limits->warned_of_channels)
        return;
    limits->warned_of_channels = true;
    log_always(
        PLAN,
        "%d channels are asked for, but a GPU runs %d blocks and has %d ranks, whose blocks must find room together: %s "
        "gets %d",
        limits->nchannels, limits->gpu_blocks, limits->gpu_ranks, choice->algorithm->name, choice->nchannels);
}
