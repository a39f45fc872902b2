/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of GPU communicators into streams: which are launched together, and in what order.
 *
 *    ranks of one communicator on one GPU     collective 0   collective 1   messages, by (how many-th of their pair, round)
 *      rank 0   on stream s0                  ┌─────────┐    ┌─────────┐    ┌──────────────┐
 *      rank 1   on stream s1                  │ 1 grid  │ ─▶ │ 1 grid  │ ─▶ │ 1 grid or so │
 *
 * Round r of the messages is to the rank r places further and from the rank r places back. Both ends of a message give it
 * the same place in that order, and so its parts on channels. A grid takes whole rounds, or some channels of one round. So of
 * all parts that are not done, the first one has both its ends running or about to run, whatever fits into a grid elsewhere. Messages
 * that copies carry stand before all rounds, if they are sent, and behind them, if they are received: such a send waits for no receive.
 */
#include "exec/exec_copies.h"
#include "exec/exec_gpu.h"

#include "base/err.h"
#include "chan/windows.h"
#include "fifo/proto.h"
#include "gpu/buffers.h"
#include "proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEWEST_LANES 64u

_Static_assert(sizeof(struct work_status) <= GPU_STATUS_BYTES, "lies in gpu_rank.status");
_Static_assert(sizeof(struct work_launch) <= 4096, "is a kernel's argument");

/* ---- failures ---- */

static enum collet_result err_gpu_timeout(const struct chan *chan, const struct work_status *status) {
    char peer[16];
    snprintf(peer, sizeof(peer), "%d", status->peer);
    return exec_err_timeout(chan, status->timeout_ns, (enum prog_collective)status->collective, status->sequence, peer,
                            "");
}

enum collet_result exec_gpu_check(const struct chan *chan) {
    struct work_status *status = chan->owner.gpu->status;
    enum work_failure failure =
        (enum work_failure)__atomic_load_n(&status->failure, __ATOMIC_ACQUIRE); /* block_report() */
    if (failure == WORK_FINE)
        return COLLET_SUCCESS;
    if (failure == WORK_TIMEOUT)
        return err_gpu_timeout(chan, status);
    if (failure == WORK_FOREIGN)
        return err_set(
            COLLET_ERR_MISMATCH,
            "rank %d is in its call %llu, %s, but rank %d sent lines of another call: all ranks must make the "
            "same calls",
            chan->owner.rank, (unsigned long long)status->sequence,
            prog_collective_name((enum prog_collective)status->collective), status->peer);
    return err_set(
        COLLET_ERR_MISMATCH,
        "rank %d is in its call %llu, but rank %d sent %u bytes of another call (its %llu): all ranks must make "
        "the same calls, and a send and its receive must have equal byte counts",
        chan->owner.rank, (unsigned long long)status->sequence, status->peer, status->bytes,
        (unsigned long long)status->their_sequence);
}

void exec_gpu_end(const struct chan *chan) {
    struct work_status *status = chan->owner.gpu->status;
    __atomic_store_n(&status->abort, 1, __ATOMIC_RELEASE); /* pairs with block_pause() */
}

/* ---- sets of calls that are launched together ---- */

struct entry {
    struct exec_call *call;
    uint64_t wave; /* its place in the order of the communicator's calls of the group */
};

#define WAVE_MESSAGES (1ull << 40) /* those of messages are above, of collectives below */

/* Ranks of one process and communicator see the same table. */
static const void *family_of(const struct entry *e) { return e->call->chan->owner.peers; }

static bool is_message(const struct entry *e) { return prog_is_p2p(e->call->request.collective); }

static uint64_t round_of(const struct exec_call *call) {
    int n = call->chan->owner.nranks, distance = call->request.root - call->chan->owner.rank;
    int forward = call->request.collective == PROG_SEND ? distance : -distance;
    return (uint64_t)((forward + n) % n);
}

/* Places of messages of one nth: the sends that copies do, which wait for no receive; rounds 1 … nranks − 1; the receives of copies. */
static uint64_t places_of_messages(const struct exec_call *call) { return (uint64_t)call->chan->owner.nranks + 1; }

static uint64_t place_of_message(const struct exec_call *call) {
    if (!call->request.by_copies)
        return round_of(call);
    return call->request.collective == PROG_SEND ? 0 : (uint64_t)call->chan->owner.nranks;
}

static void set_wave(struct entry *entries, const struct exec_call *calls, int k) {
    const struct exec_call *call = &calls[k];
    entries[k].call = (struct exec_call *)call;
    entries[k].wave = call->nth;
    if (prog_is_p2p(call->request.collective))
        entries[k].wave = WAVE_MESSAGES + call->nth * places_of_messages(call) + place_of_message(call);
}

static int by_set(const void *a_, const void *b_) {
    const struct entry *a = a_, *b = b_;
    const struct conn_owner *x = &a->call->chan->owner, *y = &b->call->chan->owner;
    if (x->peers != y->peers)
        return x->peers < y->peers ? -1 : 1;
    if (x->gpu->ordinal != y->gpu->ordinal)
        return x->gpu->ordinal - y->gpu->ordinal;
    if (a->wave != b->wave)
        return a->wave < b->wave ? -1 : 1;
    return x->rank - y->rank;
}

/* Of a sum that a switch makes; NULL: none does, or this GPU has no kernel for it. A factor is for lanes. */
static const void *team_kernel_of(const struct chan *chan, const struct exec_request *r) {
    const struct gpu_rank *gpu = chan->owner.gpu;
    return gpu_can_team(gpu->driver, gpu->ordinal) ? gpu->driver->kernels->team_sum(r->op, r->type) : NULL;
}

bool exec_gpu_may_switch(const struct chan *chan, const struct exec_request *request) {
    return request->collective == PROG_ALLREDUCE && gpu_windows_had_team(chan) && team_kernel_of(chan, request) != NULL;
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

/* So many that each has something to do in a step: its part of a line, or two vectors of plain payload. */
static uint32_t lanes_of(const struct exec_call *call) {
    const struct work_args *args = &call->args;
    uint64_t elems = geometry_min(args->chunk_elems, geometry_share(args->block_elems, args->nchannels));
    uint64_t bytes = elems * args->elem_bytes;
    uint64_t lanes = bytes / proto_lane_bytes(args->protocol) / 32 * 32 + 32;
    uint32_t most = call->chan->owner.gpu->driver->max_lanes;
    lanes = lanes < FEWEST_LANES ? FEWEST_LANES : lanes;
    return lanes < most ? (uint32_t)lanes : most;
}

/* Of so many channels, or of those that the call has of them: messages of one launch may have different numbers. */
static uint32_t blocks_of(const struct exec_call *call, uint32_t first_channel, uint32_t nchannels) {
    const int *first_worker = call->program->first_worker;
    uint32_t end = first_channel + nchannels, all = call->args.nchannels;
    return first_channel < all ? (uint32_t)(first_worker[end < all ? end : all] - first_worker[first_channel]) : 0;
}

/* As what a buffer may be lent; other GPUs reach memory of collet as far as it reaches. See struct interp_op. */
static uint8_t lent_as(const struct chan *chan, const void *address) {
    struct gpu_window_place place;
    if (gpu_window_find(chan, address, 1, &place) && gpu_window_is_lent(place.window))
        return (uint8_t)(1 + place.number);
    return gpu_buffer_has(chan->owner.gpu->ordinal, address);
}

/* Both are taken to be as long as the longer one. */
static bool in_and_out_overlap(const struct exec_call *call) {
    const struct work_args *args = &call->args;
    uint64_t bytes = work_elems(args, (uint32_t)call->chan->owner.nranks) * args->elem_bytes;
    return args->in < args->out + bytes && args->out < args->in + bytes;
}

static bool lends_apart(const struct prog *prog) {
    for (int k = 0; k < prog->nsteps; k++)
        if (prog->steps[k].lends_apart)
            return true;
    return false;
}

/* Of a call in place nothing of IN is lent if a step may do so only where IN and OUT are apart: blocks do not look (block_begin()). */
static void choose_lent(const struct exec_call *call, uint8_t lends[STEP_REGIONS]) {
    const struct exec_program *program = call->program;
    if (!program->lends_on_gpu || call->args.protocol != PROTOCOL_SIMPLE)
        return;
    if (!in_and_out_overlap(call) || !lends_apart(program->progs[0]))
        lends[STEP_IN] = lent_as(call->chan, call->args.in);
    lends[STEP_OUT] = lent_as(call->chan, call->args.out);
}

static struct work gpu_work_of(const struct exec_call *call, uint32_t first_channel, uint32_t nchannels) {
    struct work work = {
        .program = call->program->on_gpu,
        .status = call->chan->owner.gpu->status,
        .args = call->args,
        .first_channel = first_channel,
        .nblocks = blocks_of(call, first_channel, nchannels),
        .collective = call->request.collective,
    };
    choose_lent(call, work.lends);
    if (prog_facts[call->request.collective].reduces)
        work.args.mirror = type_mirror(call->request.op, call->request.type);
    return work;
}

static enum collet_result err_too_many(const struct entry *set, int n, uint32_t blocks, uint32_t resident) {
    return err_set(
        COLLET_ERR_UNSUPPORTED,
        "%d calls in one group are on GPU %d, with %u blocks that must run side by side: the GPU runs %u, and a "
        "launch holds %d calls; put fewer ranks on this GPU or name another algorithm in COLLET_ALGO",
        n, set->call->chan->owner.gpu->ordinal, blocks, resident, WORK_MAX);
}

static uint32_t set_blocks(const struct entry *set, int n, uint32_t first_channel, uint32_t nchannels) {
    uint32_t blocks = 0;
    for (int k = 0; k < n; k++)
        blocks += blocks_of(set[k].call, first_channel, nchannels);
    return blocks;
}

/* The most that any of the calls has. */
static uint32_t set_channels(const struct entry *set, int n) {
    uint32_t most = 0;
    for (int k = 0; k < n; k++)
        most = set[k].call->args.nchannels > most ? set[k].call->args.nchannels : most;
    return most;
}

/* As many channels from `first` on as fit. */
static uint32_t channels_that_fit(const struct entry *set, int n, uint32_t first, uint32_t resident) {
    uint32_t channels = 0, most = set_channels(set, n) - first;
    while (channels < most && set_blocks(set, n, first, channels + 1) <= resident)
        channels++;
    return channels;
}

/* One grid, or several one after the other, of some channels each. */
static enum collet_result launch_grids(const struct entry *set, int n, uint32_t resident, void *stream) {
    const struct gpu_driver *driver = set->call->chan->owner.gpu->driver;
    struct work_launch launch = {.nworks = (uint32_t)n};
    uint32_t lanes = 0, some;
    for (int k = 0; k < n; k++)
        lanes = lanes_of(set[k].call) > lanes ? lanes_of(set[k].call) : lanes;
    for (uint32_t first = 0; first < set_channels(set, n); first += some) {
        some = channels_that_fit(set, n, first, resident);
        for (int k = 0; k < n; k++)
            launch.works[k] = gpu_work_of(set[k].call, first, some);
        COLLET_TRY(
            driver->streams->launch(kernel_of(set->call), set_blocks(set, n, first, some), lanes, &launch, stream));
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

static enum collet_result tell_proxies(const struct entry *set, int n, void (*tell)(void *program), void *stream) {
    for (int k = 0; k < n; k++)
        if (needs_proxy(set[k].call))
            COLLET_TRY(set[k].call->chan->owner.gpu->driver->streams->call(tell, set[k].call->program, stream));
    return COLLET_SUCCESS;
}

/* Copies are not chosen where several ranks of a process are on one GPU: the set is of one rank. */
static enum collet_result put_copies(const struct entry *set, int n, const struct gpu_place *place) {
    const struct exec_call *calls[COPIES_RANKS_MAX];
    for (int k = 0; k < n; k++)
        calls[k] = set[k].call;
    return exec_copies_put(calls, n, place);
}

/* Their work itself. */
static enum collet_result put_set(const struct entry *set, int n, uint32_t resident, const struct gpu_place *place) {
    return set->call->request.by_copies ? put_copies(set, n, place) : launch_grids(set, n, resident, place->stream);
}

/* Is it the first call of its rank in the set? */
static bool is_first_of_rank(const struct entry *set, int k) {
    int first = 0;
    while (set[first].call->chan != set[k].call->chan)
        first++;
    return first == k;
}

/* The set goes into the stream of its first call; the streams of the others wait for it, and it for them. */
static enum collet_result launch_in_order(const struct entry *set, int n, uint32_t resident) {
    void *stream = set->call->stream;
    struct gpu_place place;
    COLLET_TRY(set->call->chan->owner.gpu->driver->streams->place(stream, &place));
    for (int k = 0; k < n; k++) {
        if (is_first_of_rank(set, k))
            COLLET_TRY(gpu_rank_before(set[k].call->chan->owner.gpu, &place));
        COLLET_TRY(gpu_rank_join(set[k].call->chan->owner.gpu, set[k].call->stream, stream));
    }
    if (place.capture != 0)
        COLLET_TRY(tell_proxies(set, n, hold_proxy, stream));
    COLLET_TRY(put_set(set, n, resident, &place));
    if (place.capture != 0)
        COLLET_TRY(tell_proxies(set, n, release_proxy, stream));
    for (int k = 0; k < n; k++) {
        COLLET_TRY(gpu_rank_join(set[k].call->chan->owner.gpu, stream, set[k].call->stream));
        if (is_first_of_rank(set, k))
            COLLET_TRY(gpu_rank_after(set[k].call->chan->owner.gpu, &place));
        if (place.capture == 0 && needs_proxy(set[k].call))
            proxy_launched(set[k].call->chan, set[k].call->program->conns, set[k].call->program->nconns);
    }
    return COLLET_SUCCESS;
}

static enum collet_result check_set(const struct entry *set, int n, uint32_t resident) {
    for (int k = 0; k < n; k++)
        if (!is_message(set) && set[k].call->args.signature != set->call->args.signature)
            return err_set(COLLET_ERR_MISMATCH,
                           "ranks %d and %d make different calls in one group: all ranks must make the same",
                           set->call->chan->owner.rank, set[k].call->chan->owner.rank);
    if (set->call->request.by_copies) /* they take no room */
        return COLLET_SUCCESS;
    if (n > WORK_MAX)
        return err_too_many(set, n, set_blocks(set, n, 0, 1), resident);
    for (uint32_t channel = 0; channel < set_channels(set, n); channel++)
        if (set_blocks(set, n, channel, 1) > resident)
            return err_too_many(set, n, set_blocks(set, n, channel, 1), resident);
    return COLLET_SUCCESS;
}

static enum collet_result launch_set(const struct entry *set, int n) {
    struct gpu_rank *gpu = set->call->chan->owner.gpu;
    uint32_t resident = gpu->driver->streams->resident(gpu->ordinal);
    COLLET_TRY(check_set(set, n, resident));
    struct gpu_scope scope = gpu->driver->enter_streams(gpu->ordinal);
    enum collet_result result = launch_in_order(set, n, resident);
    gpu->driver->leave(scope);
    return result;
}

static bool same_gpu(const struct entry *a, const struct entry *b) {
    return family_of(a) == family_of(b) && a->call->chan->owner.gpu->ordinal == b->call->chan->owner.gpu->ordinal;
}

static int wave_length(const struct entry *entries, int n) {
    int length = 1;
    while (length < n && same_gpu(entries, &entries[length]) && entries[length].wave == entries->wave)
        length++;
    return length;
}

/* Does this round go into the same grid as those from `first` on? Of one pair and direction a grid takes one message. */
static bool round_joins(const struct entry *first, const struct entry *round) {
    uint64_t places = places_of_messages(first->call);
    return is_message(first) && same_gpu(first, round) && !first->call->request.by_copies &&
           !round->call->request.by_copies &&
           (first->wave - WAVE_MESSAGES) / places == (round->wave - WAVE_MESSAGES) / places;
}

static int ranks_in(const struct entry *set, int n) {
    int ranks = 0;
    for (int k = 0; k < n; k++)
        ranks += is_first_of_rank(set, k);
    return ranks;
}

/* Do the rounds of a set go into one grid? Other ranks of this GPU may be launched by others, and must find room as well. */
static bool rounds_fit(const struct entry *set, int n) {
    const struct gpu_rank *gpu = set->call->chan->owner.gpu;
    uint64_t resident = gpu->driver->streams->resident(gpu->ordinal);
    return n <= WORK_MAX && (uint64_t)set_blocks(set, n, 0, set_channels(set, n)) * (uint64_t)gpu->sharers <=
                                resident * (uint64_t)ranks_in(set, n);
}

static enum collet_result launch_sorted(const struct entry *entries, int n) {
    for (int at = 0, length; at < n; at += length) {
        length = wave_length(&entries[at], n - at);
        while (at + length < n && round_joins(&entries[at], &entries[at + length])) {
            int more = wave_length(&entries[at + length], n - at - length);
            if (!rounds_fit(&entries[at], length + more))
                break;
            length += more;
        }
        COLLET_TRY(launch_set(&entries[at], length));
    }
    return COLLET_SUCCESS;
}

/* ---- all of them ---- */

static enum collet_result launch_calls(struct exec_call *calls, int ncalls, struct entry *entries) {
    COLLET_TRY(exec_connect(calls, ncalls));
    for (int k = 0; k < ncalls; k++) {
        COLLET_TRY(exec_gpu_check(calls[k].chan));
        set_wave(entries, calls, k);
    }
    qsort(entries, (size_t)ncalls, sizeof(*entries), by_set);
    for (int at = 0, length; at < ncalls; at += length) {
        for (length = 1; at + length < ncalls && same_gpu(&entries[at], &entries[at + length]);)
            length++;
        COLLET_TRY(launch_sorted(&entries[at], length));
    }
    return COLLET_SUCCESS;
}

enum collet_result exec_gpu_run(struct exec_call *calls, int ncalls) {
    struct entry few[8], *entries = few;
    char text[ERR_TEXT_BYTES];
    if (ncalls > 8 && (entries = calloc((size_t)ncalls, sizeof(*entries))) == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a group of %d calls", ncalls);
    enum collet_result result = launch_calls(calls, ncalls, entries);
    if (entries != few)
        free(entries);
    snprintf(text, sizeof(text), "%s", err_last());
    for (int k = 0; k < ncalls && result != COLLET_SUCCESS; k++)
        boot_fail(calls[k].chan->owner.boot, result, text);
    return result;
}
