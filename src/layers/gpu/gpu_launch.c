/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/gpu_launch.h"

#include "base/err.h"
#include "layers/gpu/mirror.h"
#include "layers/gpu/kernels.h"
#include "layers/gpu/window_team.h"
#include "layers/gpu/windows.h"
#include "layers/gpu/exec_copies.h"
#include "kernels/cuda/parts.h"
#include "layers/gpu/buffers.h"
#include "layers/gpu/proxy.h"
#include "seams/gpu_plan.h"

#define FEWEST_LANES 64u

_Static_assert(sizeof(struct work_launch) <= 4096, "is a kernel's argument");

/* ---- what a call asks of the GPU ---- */

/* The kernel of a sum by a switch; NULL: no switch does it, or this GPU has no kernel for it. If a call has a factor, lanes do the sum. */
static const void *team_kernel_of(const struct chan *chan, const struct exec_request *r) {
    const struct gpu_rank *gpu = chan->owner.gpu;
    return gpu_can_team(gpu->driver, gpu->ordinal) ? gpu->driver->kernels->team_sum(r->op, r->type) : NULL;
}

void gpu_mark(const struct chan *chan, struct exec_request *request) {
    request->may_lend = chan->owner.gpu->together || gpu_windows_had_lent(chan);
    request->may_switch =
        request->collective == PROG_ALLREDUCE && gpu_windows_had_team(chan) && team_kernel_of(chan, request) != NULL;
}

static const void *kernel_of(const struct exec_call *call) {
    const struct gpu_kernels *kernels = call->chan->owner.gpu->driver->kernels;
    const struct exec_request *r = &call->request;
    const bool for_switches = call->program->source->order == PROG_SWITCH_ORDER;
    const void *team_kernel = for_switches ? team_kernel_of(call->chan, r) : NULL;
    if (team_kernel != NULL)
        return team_kernel;
    return prog_facts[r->collective].reduces ? kernels->reduce[r->op][r->type] : kernels->copy;
}

/* Returns so many lanes that each has something to do in a step: its part of a line, or two vectors of plain payload. */
static uint32_t lanes_of(const struct exec_call *call) {
    const struct work_args *args = &call->args;
    uint64_t elems = geometry_min(args->chunk_elems, geometry_share(args->block_elems, args->nchannels));
    uint64_t bytes = elems * args->elem_bytes;
    uint64_t lanes = bytes / proto_lane_bytes(args->protocol) / 32 * 32 + 32;
    uint32_t most = call->chan->owner.gpu->driver->max_lanes;
    lanes = lanes < FEWEST_LANES ? FEWEST_LANES : lanes;
    return lanes < most ? (uint32_t)lanes : most;
}

/* Counts the blocks of a call for at most `nchannels` channels. A message of the launch may have fewer channels. */
static uint32_t blocks_of(const struct exec_call *call, uint32_t first_channel, uint32_t nchannels) {
    const int *first_worker = call->program->first_worker;
    uint32_t end = first_channel + nchannels, all = call->args.nchannels;
    return first_channel < all ? (uint32_t)(first_worker[end < all ? end : all] - first_worker[first_channel]) : 0;
}

/* How may a buffer be lent (struct interp_op)? Other GPUs reach all memory that collet has made. This GPU reaches all memory that its ranks
 * reach. A send of the program's own memory does not wait until it is received. */
static uint8_t lent_as(const struct exec_call *call, const void *address) {
    struct gpu_window_place place;
    if (gpu_window_find(call->chan, address, 1, &place) && gpu_window_is_lent(place.window))
        return work_lent_in(place.number);
    if (gpu_buffer_has(call->chan->owner.gpu->ordinal, address))
        return LOAN_PROCESS;
    return prog_is_p2p(call->request.collective) ? LOAN_NONE : LOAN_GPU;
}

/* Do IN and OUT overlap? Both count as long as the longer one. */
static bool in_and_out_overlap(const struct exec_call *call) {
    const struct work_args *args = &call->args;
    uint64_t bytes = work_elems(args, (uint32_t)call->chan->owner.nranks) * args->elem_bytes;
    return args->in != NULL && args->out != NULL && args->in < args->out + bytes && args->out < args->in + bytes;
}

static bool lends_apart(const struct prog *prog) {
    for (int k = 0; k < prog->nsteps; k++)
        if (prog->steps[k].lends_apart)
            return true;
    return false;
}

/* Some step may lend IN only if IN and OUT are apart. Then a call in place does not lend IN. Blocks do not check that (block_begin()). */
static void choose_lent(const struct exec_call *call, uint8_t lends[STEP_REGIONS]) {
    const struct exec_program *program = call->program;
    if (!program->lends_on_gpu || call->args.protocol != PROTOCOL_SIMPLE)
        return;
    if (!in_and_out_overlap(call) || !lends_apart(program->progs[0]))
        lends[STEP_IN] = lent_as(call, call->args.in);
    lends[STEP_OUT] = lent_as(call, call->args.out);
}

static struct work gpu_work_of(const struct exec_call *call, uint32_t first_channel, uint32_t nchannels) {
    struct work work = {
        .blocks = call->program->on_gpu,
        .status = call->chan->owner.gpu->status,
        .args = call->args,
        .nblocks = blocks_of(call, first_channel, nchannels),
        .collective = call->request.collective,
    };
    if (work.nblocks > 0)
        work.blocks += call->program->first_worker[first_channel];
    choose_lent(call, work.lends);
    if (prog_facts[call->request.collective].reduces)
        work.args.mirror = type_mirror(call->request.op, call->request.type);
    return work;
}

static enum collet_result err_too_many(const struct gpu_entry *set, int n, uint32_t blocks, uint32_t resident) {
    return err_set(
        COLLET_ERR_UNSUPPORTED,
        "%d calls in one group are on GPU %d, with %u blocks that must run side by side: the GPU runs %u, and a "
        "launch holds %d calls; put fewer ranks on this GPU or name another algorithm in COLLET_ALGO",
        n, set->call->chan->owner.gpu->ordinal, blocks, resident, WORK_MAX);
}

uint32_t gpu_set_blocks(const struct gpu_entry *set, int n, uint32_t first_channel, uint32_t nchannels) {
    uint32_t blocks = 0;
    for (int k = 0; k < n; k++)
        blocks += blocks_of(set[k].call, first_channel, nchannels);
    return blocks;
}

uint32_t gpu_set_channels(const struct gpu_entry *set, int n) {
    uint32_t most = 0;
    for (int k = 0; k < n; k++)
        most = set[k].call->args.nchannels > most ? set[k].call->args.nchannels : most;
    return most;
}

/* Returns how many channels, from `first` on, find room. */
static uint32_t channels_that_fit(const struct gpu_entry *set, int n, uint32_t first, uint32_t resident) {
    uint32_t channels = 0, most = gpu_set_channels(set, n) - first;
    while (channels < most && gpu_set_blocks(set, n, first, channels + 1) <= resident)
        channels++;
    return channels;
}

/* Launches one grid, or several grids one after the other, with some channels each. */
static enum collet_result launch_grids(const struct gpu_entry *set, int n, uint32_t resident, void *stream) {
    const struct gpu_driver *driver = set->call->chan->owner.gpu->driver;
    struct work_launch launch = {.nworks = (uint32_t)n};
    uint32_t lanes = 0, some;
    for (int k = 0; k < n; k++)
        lanes = lanes_of(set[k].call) > lanes ? lanes_of(set[k].call) : lanes;
    for (uint32_t first = 0; first < gpu_set_channels(set, n); first += some) {
        some = channels_that_fit(set, n, first, resident);
        for (int k = 0; k < n; k++)
            launch.works[k] = gpu_work_of(set[k].call, first, some);
        COLLET_TRY(
            driver->streams->launch(kernel_of(set->call), gpu_set_blocks(set, n, first, some), lanes, &launch, stream));
    }
    return COLLET_SUCCESS;
}

/* ---- proxies, of calls with connections over a network ----
 *
 *    a launch         proxy_launched(), behind it                         its end is seen by gpu_watch.c
 *    one in a graph   host nodes: proxy_hold() ─▶ grid ─▶ proxy_release()  at every replay
 */

static void hold_proxy(void *program_) {
    struct exec_program *program = program_;
    proxy_hold(program->chan, program->conns, program->nconns);
}

static void release_proxy(void *program_) {
    struct exec_program *program = program_;
    proxy_release(program->chan, program->conns, program->nconns);
}

static bool needs_proxy(const struct exec_call *call) { return call->program->nremote > 0 && !call->request.by_copies; }

static enum collet_result tell_proxies(const struct gpu_entry *set, int n, void (*tell)(void *program), void *stream) {
    for (int k = 0; k < n; k++)
        if (needs_proxy(set[k].call))
            COLLET_TRY(set[k].call->chan->owner.gpu->driver->streams->call(tell, set[k].call->program, stream));
    return COLLET_SUCCESS;
}

/* The set has one rank: copies are not chosen if several ranks of a process are on one GPU. */
static enum collet_result put_copies(const struct gpu_entry *set, int n, const struct gpu_place *place) {
    const struct exec_call *calls[COPIES_RANKS_MAX];
    for (int k = 0; k < n; k++)
        calls[k] = set[k].call;
    return exec_copies_put(calls, n, place);
}

/* Puts the work of the calls, without the waits around it. */
static enum collet_result put_set(const struct gpu_entry *set, int n, uint32_t resident,
                                  const struct gpu_place *place) {
    return set->call->request.by_copies ? put_copies(set, n, place) : launch_grids(set, n, resident, place->stream);
}

/* ---- streams ----
 *
 *    the set's stream     wait ready of 1, 2 …  ──▶  grid  ──▶  event behind it
 *    others               record ready                          wait for the event
 */

/* Is call k the first call of its rank in the set? */
static bool is_first_of_rank(const struct gpu_entry *set, int k) {
    int first = 0;
    while (set[first].call->chan != set[k].call->chan)
        first++;
    return first == k;
}

int gpu_set_ranks(const struct gpu_entry *set, int n) {
    int ranks = 0;
    for (int k = 0; k < n; k++)
        ranks += is_first_of_rank(set, k);
    return ranks;
}

static struct gpu_rank *rank_of(const struct gpu_entry *e) { return e->call->chan->owner.gpu; }

/* Is the call's stream not the set's, and is this the first call with that stream? A guest's rank has one event for all its streams. */
static bool is_another_stream(const struct gpu_entry *set, int k, const void *stream) {
    if (set[k].is_guest)
        return is_first_of_rank(set, k);
    for (int before = 0; before < k; before++)
        if (!set[before].is_guest && set[before].call->stream == set[k].call->stream)
            return false;
    return set[k].call->stream != stream;
}

/* The set's stream waits for the present work of the calls' streams, and for the newest operations of the ranks. */
static enum collet_result wait_for_all(const struct gpu_entry *set, int n, const struct gpu_place *place) {
    for (int k = 0; k < n; k++) {
        struct gpu_rank *gpu = rank_of(&set[k]);
        if (is_first_of_rank(set, k))
            COLLET_TRY(gpu_rank_before(gpu, place));
        if (!is_another_stream(set, k, place->stream))
            continue;
        if (!set[k].is_guest)
            COLLET_TRY(gpu_rank_ready(gpu, set[k].call->stream));
        COLLET_TRY(gpu->driver->streams->wait(place->stream, gpu->ready, false));
    }
    return COLLET_SUCCESS;
}

static enum collet_result note_that_it_is_in(const struct gpu_entry *set, int n, const struct gpu_place *place) {
    struct gpu_rank *ranks[WORK_MAX];
    int nranks = 0;
    for (int k = 0; k < n; k++)
        if (is_first_of_rank(set, k))
            ranks[nranks++] = rank_of(&set[k]);
    return gpu_ranks_after(ranks, nranks, place);
}

static enum collet_result let_others_follow(const struct gpu_entry *set, int n, const struct gpu_place *place) {
    for (int k = 0; k < n; k++)
        if (!set[k].is_guest && is_another_stream(set, k, place->stream))
            COLLET_TRY(gpu_rank_follow(rank_of(&set[k]), place, set[k].call->stream));
    return COLLET_SUCCESS;
}

static void wake_proxies(const struct gpu_entry *set, int n) {
    for (int k = 0; k < n; k++)
        if (needs_proxy(set[k].call))
            proxy_launched(set[k].call->chan, set[k].call->program->conns, set[k].call->program->nconns);
}

static enum collet_result launch_in_order(const struct gpu_entry *set, int n, uint32_t resident, void *stream) {
    struct gpu_place place;
    COLLET_TRY(gpu_place_in(rank_of(set)->driver->streams, stream, set->capture, &place));
    COLLET_TRY(wait_for_all(set, n, &place));
    if (place.capture != 0)
        COLLET_TRY(tell_proxies(set, n, hold_proxy, stream));
    COLLET_TRY(put_set(set, n, resident, &place));
    if (place.capture != 0)
        COLLET_TRY(tell_proxies(set, n, release_proxy, stream));
    COLLET_TRY(note_that_it_is_in(set, n, &place));
    if (place.capture == 0)
        wake_proxies(set, n);
    return let_others_follow(set, n, &place);
}

/* ---- a set ---- */

static enum collet_result check_set(const struct gpu_entry *set, int n, uint32_t resident) {
    for (int k = 0; k < n; k++)
        if (!gpu_entry_is_message(set) && set[k].call->args.signature != set->call->args.signature)
            return err_set(COLLET_ERR_MISMATCH,
                           "ranks %d and %d, which are on one GPU, make different calls: all ranks must make the same",
                           set->call->chan->owner.rank, set[k].call->chan->owner.rank);
    if (set->call->request.by_copies) /* copies take no room on the GPU */
        return COLLET_SUCCESS;
    if (n > WORK_MAX)
        return err_too_many(set, n, gpu_set_blocks(set, n, 0, 1), resident);
    for (uint32_t channel = 0; channel < gpu_set_channels(set, n); channel++)
        if (gpu_set_blocks(set, n, channel, 1) > resident)
            return err_too_many(set, n, gpu_set_blocks(set, n, channel, 1), resident);
    return COLLET_SUCCESS;
}

enum collet_result gpu_launch_set(const struct gpu_entry *set, int n) {
    const struct gpu_rank *gpu = rank_of(set);
    uint32_t resident = gpu->driver->streams->resident(gpu->ordinal);
    COLLET_TRY(check_set(set, n, resident));
    struct gpu_scope scope = gpu->driver->enter_streams(gpu->ordinal);
    enum collet_result result = launch_in_order(set, n, resident, set->into);
    gpu->driver->leave(scope);
    return result;
}

/* ---- guests ---- */

/* Is there an earlier entry of the same rank with the same stream? Or, without same_stream, with another stream? */
static bool is_named_before(const struct gpu_entry *guests, int k, bool same_stream) {
    for (int before = 0; before < k; before++)
        if (guests[before].call->chan == guests[k].call->chan &&
            (guests[before].call->stream == guests[k].call->stream) == same_stream)
            return true;
    return false;
}

/* A rank has one event. If it has several streams, each stream waits for the one before it, and the event stands behind the last one. */
static enum collet_result guest_comes(struct gpu_rank *gpu, void *stream, bool again) {
    if (again)
        COLLET_TRY(gpu->driver->streams->wait(stream, gpu->ready, false));
    return gpu_rank_ready(gpu, stream);
}

static enum collet_result guests_come(const struct gpu_entry *guests, int n) {
    for (int k = 0; k < n; k++)
        if (!is_named_before(guests, k, true))
            COLLET_TRY(guest_comes(rank_of(&guests[k]), guests[k].call->stream, is_named_before(guests, k, false)));
    return COLLET_SUCCESS;
}

enum collet_result gpu_guests_come(const struct gpu_entry *guests, int n) {
    const struct gpu_rank *gpu = rank_of(guests);
    struct gpu_scope scope = gpu->driver->enter_streams(gpu->ordinal);
    enum collet_result result = guests_come(guests, n);
    gpu->driver->leave(scope);
    return result;
}

static enum collet_result guests_leave(const struct gpu_entry *guests, int n) {
    for (int k = 0; k < n; k++)
        if (!is_named_before(guests, k, true))
            COLLET_TRY(gpu_rank_follow(rank_of(&guests[k]), &rank_of(&guests[k])->newest, guests[k].call->stream));
    return COLLET_SUCCESS;
}

enum collet_result gpu_guests_leave(const struct gpu_entry *guests, int n) {
    const struct gpu_rank *gpu = rank_of(guests);
    struct gpu_scope scope = gpu->driver->enter_streams(gpu->ordinal);
    enum collet_result result = guests_leave(guests, n);
    gpu->driver->leave(scope);
    return result;
}
