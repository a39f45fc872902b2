/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of ranks on GPUs differ in three ways: blocks must find room, messages have several channels, and copy engines know no slots.
 */
#include "seams/gpu_plan.h"

#include "base/err.h"
#include "boot/process.h"
#include "layers/gpu/windows.h"
#include "exec/exec.h"
#include "topo/probe/chart.h"
#include "plan/extent.h"
#include "layers/tuner/tuner.h"
#include "transport/transport.h"

/* ---- limits ---- */

/* May LL128 be used? Its links must keep stores of 128 bytes whole. So some ranks must share a node; and on each node, the ranks' GPUs must
 * be joined as map.h says, and their slots must be in memory of GPUs. Between nodes LL128 is not used. */
static bool lines_are_whole(const struct chan *chan, const struct map *map) {
    bool share = false;
    for (int a = 0; a < chan->owner.nranks; a++) {
        int node = chan->owner.peers[a].node;
        const struct transport *transport = chan_pair_transport(chan, a, node);
        if (!map->facts[a].joined || transport == NULL || transport->remote)
            return false;
        share |= a != node;
    }
    return share || chan->owner.nranks == 1;
}

/* Returns the largest number of ranks that share a GPU. *apart_p: not all ranks share one GPU. */
static int ranks_of_a_gpu(const struct chan *chan, bool *apart_p) {
    int most = 1;
    *apart_p = false;
    for (int a = 0; a < chan->owner.nranks; a++) {
        int here = 0;
        for (int b = 0; b < chan->owner.nranks; b++) {
            const struct peer_info *x = &chan->owner.peers[a], *y = &chan->owner.peers[b];
            here += transport_shares_device(x, y);
            *apart_p |= !transport_shares_device(x, y);
        }
        most = here > most ? here : most;
    }
    return most;
}

static bool all_are_here(const struct chan *chan) {
    bool here = true;
    for (int rank = 0; rank < chan->owner.nranks; rank++)
        here &= process_is_here(chan->owner.peers[rank].process);
    return here;
}

enum collet_result gpu_limit(const struct chan *chan, const struct config *config, const struct map *map,
                             struct tuner_limits *limits) {
    bool apart, any = false;
    chan->owner.gpu->sharers = ranks_of_a_gpu(chan, &apart);
    chan->owner.gpu->together = !apart && all_are_here(chan);
    limits->protocol_allowed[PROTOCOL_LL128] &= lines_are_whole(chan, map);
    for (int k = 0; k < PROTOCOL_COUNT; k++)
        any |= limits->protocol_allowed[k];
    if (!any)
        return err_set(
            COLLET_ERR_UNSUPPORTED,
            "COLLET_PROTO allows LL128 alone, which runs between ranks of one host that share a GPU or whose GPUs "
            "are joined by NVLink and reach each other: add LL or Simple");
    tuner_limits_of_gpus(config, chart_of(map)->costs.gpu_blocks, chan->owner.gpu->sharers, apart, limits);
    return COLLET_SUCCESS;
}

/* ---- messages ---- */

/* A GPU moves a part of a message by a block of its own. A part that is shorter than this is not worth a block. */
#define P2P_PART_BYTES (16u << 10)
/* In a round of messages a rank sends one and receives one: two blocks per channel. */
#define P2P_BLOCKS 2
/* Maximum number of channels, over all ranks that share a GPU. It comes from measurements: with more, fewer rounds fit into one grid. */
#define P2P_CHANNELS_SHARED 32

static int most_of_messages(const struct tuner_limits *limits, int most) {
    int shared = P2P_CHANNELS_SHARED / limits->gpu_ranks;
    shared = shared > 0 ? shared : 1;
    return limits->gpu_ranks > 1 && most > shared ? shared : most;
}

/* Returns the number of channels of a message. 0: a GPU has no room for the blocks. */
static int message_channels(const struct chan *chan, const struct tuner_limits *all, bool by_network, uint64_t bytes) {
    struct tuner_limits limits = *all;
    int n = limits.nchannels;
    limits.sizes = limits.sizes_of[PROG_TO_ALL];
    const int fit = tuner_fitting_channels(&limits, P2P_BLOCKS);
    const int most = most_of_messages(&limits, tuner_most_channels(&limits, chan->owner.layouts[PROG_TO_ALL].nslots,
                                                                   chan->owner.nranks - 1, P2P_BLOCKS, by_network));
    n = n < fit ? n : fit;
    while (n > 0 && 2 * n <= most && bytes / (2 * (uint64_t)n) >= P2P_PART_BYTES)
        n *= 2;
    return n;
}

static uint32_t message_chunk(const struct tuner_limits *limits, uint64_t part_bytes) {
    const uint32_t forced = limits->forced_chunk_bytes, slot = limits->sizes_of[PROG_TO_ALL].long_bytes;
    if (forced > 0)
        return forced < slot ? forced : slot;
    return plan_piece_bytes(slot, part_bytes);
}

enum collet_result gpu_choose(const struct chan *chan, struct tuner_limits *limits, const struct exec_request *request,
                              uint64_t bytes, struct plan_choice *choice) {
    const struct algorithm *direct = algorithm_find(request->collective, "direct");
    /* Copies use the one algorithm in which ranks send each block directly to its place. Copies know no slots. */
    *choice = (struct plan_choice){direct, PROTOCOL_SIMPLE, 1, 0, 0};
    if (!prog_is_p2p(request->collective))
        return COLLET_SUCCESS;
    const struct transport *transport = chan_pair_transport(chan, chan->owner.rank, request->root);
    choice->nchannels = message_channels(chan, limits, transport != NULL && transport->remote, bytes);
    if (choice->nchannels == 0)
        return tuner_err_no_room(limits, "an exchange of messages", P2P_BLOCKS);
    choice->chunk_bytes = message_chunk(limits, bytes / (uint64_t)choice->nchannels);
    if (chan->owner.rank == 0)
        tuner_warn_of_channels(limits, choice);
    return COLLET_SUCCESS;
}
