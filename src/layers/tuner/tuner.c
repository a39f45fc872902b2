/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/tuner.h"

#include "base/err.h"
#include "base/grow.h"
#include "base/log.h"
#include "plan/extent.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

/* Chunks of a sixteenth of a long slot are tried if they have at least this number of bytes. */
#define SHORTEST_WAY_BYTES (32u << 10)

/* Lists the ways of long slots. With full slots there are fewer steps and switches. With shorter chunks the hops of a
 * message overlap. */
static int long_ways(const struct tuner_limits *limits, enum protocol protocol, struct tuner_way *ways) {
    uint32_t forced = limits->forced_chunk_bytes;
    uint32_t full = forced > 0 && forced < limits->sizes.long_bytes ? forced : limits->sizes.long_bytes;
    int n = 0;
    ways[n++] = (struct tuner_way){protocol, full};
    if (forced == 0)
        ways[n++] = (struct tuner_way){protocol, full / 4};
    if (forced == 0 && full / 16 >= SHORTEST_WAY_BYTES)
        ways[n++] = (struct tuner_way){protocol, full / 16};
    return n;
}

/* Lists the ways of slots with lines: full slots, and parts of them if full slots are longer than short slots. */
static int lines_ways(const struct tuner_limits *limits, enum protocol protocol, struct tuner_way *ways) {
    uint32_t full = protocol_payload_bytes(protocol, &limits->sizes);
    int n = 0;
    ways[n++] = (struct tuner_way){protocol, full};
    for (uint32_t part = 4; part <= 16 && full > limits->sizes.short_bytes; part *= 4)
        ways[n++] = (struct tuner_way){protocol, full / part};
    return n;
}

static int ways_of(const struct tuner_limits *limits, enum protocol protocol, struct tuner_way *ways) {
    return protocol_slots(protocol) == PROTOCOL_LONG ? long_ways(limits, protocol, ways)
                                                     : lines_ways(limits, protocol, ways);
}

int tuner_ways(const struct tuner_limits *limits, struct tuner_way ways[TUNER_WAYS_MAX]) {
    static const enum protocol_slots order[] = {PROTOCOL_SHORT, PROTOCOL_LINES, PROTOCOL_LONG};
    int n = 0;
    for (size_t kind = 0; kind < sizeof(order) / sizeof(*order); kind++)
        for (int k = 0; k < PROTOCOL_COUNT; k++)
            if (limits->protocol_allowed[k] && protocol_slots((uint32_t)k) == order[kind])
                n += ways_of(limits, (enum protocol)k, &ways[n]);
    return n;
}

/* Maximum bytes of Simple slots at both ends of a rank's connections, because the memory of GPUs is for the user's data. ONE_GPU: ranks
 * that share a GPU get more. There the room for blocks also limits the channels, and one-shot of 8 ranks was measured to be a sixth
 * faster on 16 channels than on 8. */
#define GPU_CONNECTIONS_BYTES (128ull << 20)
#define ONE_GPU_CONNECTIONS_BYTES (256ull << 20)

/* Maximum number of channels per adapter over a network: each channel has queue pairs of its own, and one proxy carries the
 * slots of all. */
#define RAIL_CHANNELS 2

int tuner_most_channels(const struct tuner_limits *limits, uint32_t nslots, int npeers, int blocks, bool by_network) {
    int fit = tuner_fitting_channels(limits, blocks);
    uint64_t slots_bytes = (uint64_t)nslots * limits->sizes.long_bytes;
    uint64_t room_bytes = limits->one_gpu ? ONE_GPU_CONNECTIONS_BYTES : GPU_CONNECTIONS_BYTES;
    int most = (int)(room_bytes / slots_bytes) / (npeers > 0 ? npeers : 1);
    most = most > limits->nrails ? most : limits->nrails;
    if (by_network && most > RAIL_CHANNELS * limits->nrails)
        most = RAIL_CHANNELS * limits->nrails;
    most = most < limits->most_nchannels ? most : limits->most_nchannels;
    return most < fit ? most : fit;
}

/* The number of channels that is tried after `channels`. 0: no more. The last number is the largest one for which blocks
 * find room, if it is at least a quarter more than the one before. */
static int channels_behind(int channels, int most, int fit) {
    if (2 * channels <= most)
        return 2 * channels;
    return most == fit && 4 * most >= 5 * channels ? most : 0;
}

/* ---- what is known of one GPU ----
 *
 * Where ranks share a GPU the model's constants are measured, but not every plan is. The model is wrong by a factor now and then, and
 * would choose plans that nobody has measured. So such a plan is only taken if the user names it. */

/* Lines were measured on at most 16 channels. */
#define KNOWN_LINES_CHANNELS 16

static int most_of_way(const struct tuner_limits *limits, const struct tuner_way *way, int most) {
    bool lines = protocol_slots(way->protocol) != PROTOCOL_LONG;
    return lines && limits->one_gpu && most > KNOWN_LINES_CHANNELS ? KNOWN_LINES_CHANNELS : most;
}

/* Was the algorithm measured on one GPU, or does the user name it? Of the allreduces, ring, one-shot and two-shot were
 * measured. Trees and halving were slower. */
static bool was_measured(const struct tuner_limits *limits, const struct algorithm *algorithm) {
    static const char *const unknown[] = {"tree", "halving", "doubling"};
    for (size_t k = 0; k < sizeof unknown / sizeof *unknown; k++)
        if (limits->one_gpu && algorithm->collective == PROG_ALLREDUCE && strcmp(algorithm->name, unknown[k]) == 0)
            return limits->algorithm_named[algorithm - algorithms];
    return true;
}

static uint64_t block_bytes(const struct cost_stage *stage, uint64_t count, uint32_t elem_bytes) {
    const struct sim_cast *cast = &stage->machine->cast;
    struct work_args args;
    plan_extent(stage->algorithm->collective, count, cast->nhosts * cast->nlocal, stage->nslices, &args);
    return args.block_elems * elem_bytes;
}

/* Minimum bytes of a channel's part of a block. A part that is no longer than a cache line is not worth a channel. */
#define PART_BYTES_MIN 64

/* Does a candidate differ from the candidate of the way before? It does not if a chunk of the way before also holds a whole part of a
 * channel. */
static bool is_different(const struct tuner_way *way, const struct tuner_way *before, int fewest, int nchannels,
                         uint64_t block) {
    uint64_t part = block / (uint64_t)nchannels;
    bool shorter = before != NULL && before->protocol == way->protocol;
    return (nchannels == fewest || part >= PART_BYTES_MIN) && (!shorter || part > way->chunk_bytes);
}

/* A slot that several blocks share must have room for an element of each block. */
#define LARGEST_ELEM_BYTES 8u

static uint32_t room_in_slot(const struct cost_stage *stage, const struct tuner_way *way) {
    return geometry_room(way->chunk_bytes, (uint32_t)stage->longest_run, protocol_unit_bytes(way->protocol));
}

/* Does a slot of lines announce itself if it has no elements? In LL its first line does. But a block of a GPU looks only for
 * lines that have elements, and ranks of collectives other than barrier do not all know how many elements there are. */
static bool announces_empty(enum protocol protocol, enum prog_collective collective, bool gpu) {
    return protocol == PROTOCOL_LL && collective == PROG_BARRIER && !gpu;
}

/* The limits of one algorithm. */
static struct tuner_limits limits_of(const struct tuner_limits *limits, const struct cost_stage *stage) {
    const struct algorithm *algorithm = stage->algorithm;
    struct tuner_limits own = *limits;
    own.sizes = limits->sizes_of[algorithm->connects];
    for (int k = 0; k < PROTOCOL_COUNT; k++)
        own.protocol_allowed[k] &= !(limits->barred[algorithm->collective] >> k & 1);
    for (int k = 0; k < PROTOCOL_COUNT && prog_keeps_empty(algorithm->collective); k++)
        own.protocol_allowed[k] =
            k == PROTOCOL_SIMPLE ||
            (own.protocol_allowed[k] && announces_empty((enum protocol)k, algorithm->collective, stage->machine->gpu));
    return own;
}

/* Rank 0 stands for all: other ranks have as many peers, or fewer. */
bool tuner_has_room(const struct tuner_limits *limits, const struct cost_machine *machine,
                    const struct algorithm *algorithm) {
    const struct prog_shape *whole = machine->whole;
    struct prog *prog;
    if (algorithm->connects < PROG_TO_MANY || whole->nranks <= limits->most_peers ||
        limits->algorithm_named[algorithm - algorithms])
        return true;
    if (algorithm_build(algorithm, whole, 0, 0, &prog) != COLLET_SUCCESS)
        return false;
    const bool room = prog->npeers <= limits->most_peers;
    prog_destroy(prog);
    return room;
}

/* Is the candidate allowed on this machine? If no switch makes the sums, an algorithm for switches is the same as another
 * one of the list. */
static bool is_wanted(const struct tuner_limits *limits, const struct cost_stage *stage,
                      const struct plan_choice *choice, uint64_t count, uint32_t elem_bytes) {
    const struct algorithm *algorithm = stage->algorithm;
    if (algorithm->schedule == NULL && !was_measured(limits, algorithm))
        return false;
    return algorithm->order != PROG_SWITCH_ORDER || limits->algorithm_named[algorithm - algorithms] ||
           (limits->switches && cost_by_switches(stage, choice, count, elem_bytes));
}

int tuner_list(const struct tuner_limits *limits, const struct cost_stage *stage, uint64_t count, uint32_t elem_bytes,
               struct tuner_try tries[TUNER_TRIES_MAX]) {
    struct tuner_way ways[TUNER_WAYS_MAX];
    uint64_t block = block_bytes(stage, count, elem_bytes);
    struct tuner_limits own = limits_of(limits, stage);
    if (stage->too_wide || !tuner_keeps_bits(limits, stage->algorithm, stage->nslices) ||
        !tuner_has_room(limits, stage->machine, stage->algorithm))
        return 0;
    int n = 0, nways = tuner_ways(&own, ways), fit = tuner_fitting_channels(limits, stage->nworkers);
    int fewest = limits->nchannels < fit ? limits->nchannels : fit;
    int most = tuner_most_channels(&own, stage->machine->nslots, stage->npeers, stage->nworkers,
                                   net_has_class(stage->machine->net, LINK_GPU_NET));
    for (int k = 0; k < nways; k++) {
        struct tuner_way *way = &ways[k], *before = k > 0 ? &ways[k - 1] : NULL;
        way->chunk_bytes = room_in_slot(stage, way);
        for (int channels = fewest; channels > 0;
             channels = channels_behind(channels, most_of_way(limits, way, most), fit)) {
            const struct plan_choice choice = {stage->algorithm, way->protocol, channels, way->chunk_bytes, INFINITY};
            if (way->chunk_bytes >= LARGEST_ELEM_BYTES && is_different(way, before, fewest, channels, block) &&
                is_wanted(limits, stage, &choice, count, elem_bytes))
                tries[n++] = (struct tuner_try){.choice = choice, .npeers = stage->npeers};
        }
    }
    return n;
}

/* ---- the search ---- */

/* Predictions that differ by less than this share count as equal. Of equal ones, the choice with fewer connections is taken, because its
 * slots need less of the caches. */
#define SAME 0.01

static int lower_bound_first(const void *a, const void *b) {
    const struct tuner_try *x = *(struct tuner_try *const *)a, *y = *(struct tuner_try *const *)b;
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Can the candidate be clearly faster than the best so far, or as fast with fewer connections? */
static bool may_win(const struct tuner_try *one, const struct tuner_try *best) {
    return best == NULL || (1 + SAME) * one->bound_ns < best->choice.predicted_ns ||
           (one->npeers < best->npeers && one->bound_ns <= (1 + SAME) * best->choice.predicted_ns);
}

static enum collet_result raise_bound(const struct tuner_judge *judge, struct tuner_try *one) {
    double hops_ns = 0;
    if (judge->hops != NULL)
        COLLET_TRY(judge->hops(judge->context, one, &hops_ns));
    one->bound_ns = fmax(one->bound_ns, hops_ns);
    return COLLET_SUCCESS;
}

static enum collet_result time_in_order(const struct tuner_judge *judge, struct tuner_try **order, int n) {
    const struct tuner_try *best = NULL;
    for (int k = 0; k < n; k++) {
        struct plan_choice *choice = &order[k]->choice;
        if (best != NULL && may_win(order[k], best))
            COLLET_TRY(raise_bound(judge, order[k]));
        if (!may_win(order[k], best))
            continue;
        COLLET_TRY(judge->time(judge->context, order[k], &choice->predicted_ns));
        if (!isinf(choice->predicted_ns) && (best == NULL || choice->predicted_ns < best->choice.predicted_ns))
            best = order[k];
        log_trace(PLAN, "%s %s %d channel(s), chunk %u: %.1f us, at least %.1f", choice->algorithm->name,
                  protocol_names[choice->protocol], choice->nchannels, choice->chunk_bytes, choice->predicted_ns / 1000,
                  order[k]->bound_ns / 1000);
    }
    return COLLET_SUCCESS;
}

enum collet_result tuner_search(const struct tuner_judge *judge, struct tuner_try *tries, int n) {
    struct tuner_try **order = malloc(((size_t)n + 1) * sizeof(struct tuner_try *));
    enum collet_result result = COLLET_SUCCESS;
    if (order == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to compare %d candidates", n);
    for (int k = 0; k < n && result == COLLET_SUCCESS; k++) {
        order[k] = &tries[k];
        result = judge->bound(judge->context, &tries[k], &tries[k].bound_ns);
    }
    if (result == COLLET_SUCCESS) {
        qsort(order, (size_t)n, sizeof(struct tuner_try *), lower_bound_first);
        result = time_in_order(judge, order, n);
    }
    free(order);
    return result;
}

static bool is_better(const struct tuner_try *a, const struct tuner_try *b) {
    return a->npeers < b->npeers || (a->npeers == b->npeers && a->choice.predicted_ns < b->choice.predicted_ns);
}

int tuner_pick(const struct tuner_try *tries, int n) {
    double least_ns = INFINITY;
    int best = -1;
    for (int k = 0; k < n; k++)
        least_ns = fmin(least_ns, tries[k].choice.predicted_ns);
    for (int k = 0; k < n; k++)
        if (tries[k].choice.predicted_ns <= (1 + SAME) * least_ns && !isinf(tries[k].choice.predicted_ns) &&
            (best < 0 || is_better(&tries[k], &tries[best])))
            best = k;
    return best;
}

/* ---- one prediction ---- */

struct plan_choice tuner_as_run(const struct tuner_limits *limits, const struct cost_stage *stage,
                                const struct plan_choice *choice, uint64_t count, uint32_t elem_bytes) {
    struct plan_choice as_run = *choice;
    if (!stage->machine->gpu && !limits->channels_given)
        as_run.nchannels = plan_channels(choice->nchannels, block_bytes(stage, count, elem_bytes));
    return as_run;
}

enum collet_result tuner_predict(const struct tuner_limits *limits, struct cost_stage *stage,
                                 const struct plan_choice *choice, uint64_t count, uint32_t elem_bytes, double *ns_p) {
    struct plan_choice as_run = tuner_as_run(limits, stage, choice, count, elem_bytes);
    struct cost_bounds bounds;
    struct sim *sim;
    COLLET_TRY(cost_set(stage, &as_run, count, elem_bytes, &sim));
    COLLET_TRY(cost_bound(stage, sim, &as_run, &bounds, NULL));
    return cost_time(stage, sim, &as_run, &bounds, ns_p);
}

/* ---- a communicator's choice ---- */

struct contest {
    const struct cost_machine *machine;
    const struct tuner_limits *limits;
    uint64_t count;
    uint32_t elem_bytes;
    struct cost_stage *stages[ALGORITHMS_MAX]; /* [index in algorithms[]]. NULL: the algorithm is not allowed. */
    struct tuner_try *tries;
    int ntries, room;
    /* The minimum number of blocks per rank and channel, over those algorithms whose blocks find no room. 0: the blocks of
     * all algorithms find room. */
    int least_blocks;
};

static struct cost_stage *stage_of(const struct contest *contest, const struct tuner_try *one) {
    bool imported = one->choice.algorithm == contest->limits->imported;
    return contest->stages[imported ? 0 : one->choice.algorithm - algorithms];
}

static enum collet_result contest_bound(void *context, const struct tuner_try *one, double *ns_p) {
    const struct contest *contest = context;
    struct cost_stage *stage = stage_of(contest, one);
    struct plan_choice as_run = tuner_as_run(contest->limits, stage, &one->choice, contest->count, contest->elem_bytes);
    struct cost_bounds bounds;
    struct sim *sim;
    COLLET_TRY(cost_set(stage, &as_run, contest->count, contest->elem_bytes, &sim));
    COLLET_TRY(cost_bound(stage, sim, &as_run, &bounds, NULL));
    *ns_p = cost_least_ns(&bounds);
    return COLLET_SUCCESS;
}

static enum collet_result contest_time(void *context, const struct tuner_try *one, double *ns_p) {
    const struct contest *contest = context;
    return tuner_predict(contest->limits, stage_of(contest, one), &one->choice, contest->count, contest->elem_bytes,
                         ns_p);
}

/* Does the algorithm apply to the communicator, and also to the part of it that is simulated? */
static bool applies(const struct algorithm *algorithm, enum prog_collective collective,
                    const struct cost_machine *machine) {
    return algorithm->collective == collective && algorithm_applies(algorithm, machine->whole) &&
           algorithm_applies(algorithm, &machine->shapes[0]);
}

/* Opens the stage of an algorithm, and lists its candidates. */
static enum collet_result contest_add(struct contest *contest, const struct algorithm *algorithm,
                                      struct cost_stage **stage_p) {
    if (*stage_p == NULL)
        COLLET_TRY(cost_stage_open(contest->machine, algorithm, stage_p));
    if (!grow(&contest->tries, (size_t)contest->ntries, TUNER_TRIES_MAX, &contest->room, sizeof *contest->tries))
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to compare algorithms");
    const int blocks = (*stage_p)->nworkers;
    if (tuner_fitting_channels(contest->limits, blocks) == 0 &&
        (contest->least_blocks == 0 || blocks < contest->least_blocks))
        contest->least_blocks = blocks;
    contest->ntries +=
        tuner_list(contest->limits, *stage_p, contest->count, contest->elem_bytes, contest->tries + contest->ntries);
    return COLLET_SUCCESS;
}

/* Adds all algorithms that COLLET_ALGO allows. With COLLET_DETERMINISM=size it adds only the first one, because all sizes
 * must use the same. */
static enum collet_result contest_add_all(struct contest *contest, enum prog_collective collective) {
    bool named = tuner_is_named(contest->limits, collective, contest->machine->whole);
    bool one = contest->limits->determinism == DETERMINISM_SIZE && prog_facts[collective].reduces;
    for (int k = 0; algorithms[k].name != NULL && !(one && contest->ntries > 0); k++)
        if (applies(&algorithms[k], collective, contest->machine) && !contest->limits->algorithm_excluded[k] &&
            (!named || contest->limits->algorithm_named[k]))
            COLLET_TRY(contest_add(contest, &algorithms[k], &contest->stages[k]));
    return COLLET_SUCCESS;
}

/* Adds the candidates of all algorithms that may be chosen. If a schedule was imported for this collective, only the schedule. With
 * COLLET_DETERMINISM=size, all algorithms that sum in the order of ranks, because they give the same bits; if there is none, one
 * algorithm. */
static enum collet_result contest_enter(struct contest *contest, enum prog_collective collective) {
    const struct tuner_limits *limits = contest->limits;
    struct tuner_limits strict = *limits;
    if (limits->imported != NULL && applies(limits->imported, collective, contest->machine))
        return contest_add(contest, limits->imported, &contest->stages[0]);
    if (limits->determinism == DETERMINISM_SIZE) {
        strict.determinism = DETERMINISM_ORDER;
        contest->limits = &strict;
        enum collet_result result = contest_add_all(contest, collective);
        contest->limits = limits;
        COLLET_TRY(result);
    }
    return contest->ntries > 0 ? COLLET_SUCCESS : contest_add_all(contest, collective);
}

static void contest_end(struct contest *contest) {
    for (int k = 0; k < ALGORITHMS_MAX; k++)
        cost_stage_close(contest->stages[k]);
    free(contest->tries);
}

static bool leaves_protocol(const struct tuner_limits *limits, enum prog_collective collective) {
    bool any = false;
    for (int k = 0; k < PROTOCOL_COUNT; k++)
        any |= limits->protocol_allowed[k] && !(limits->barred[collective] >> k & 1);
    return any;
}

enum collet_result tuner_choose(const struct cost_machine *machine, const struct tuner_limits *limits,
                                enum prog_collective collective, uint64_t count, uint32_t elem_bytes,
                                struct plan_choice *choice) {
    struct contest contest = {.machine = machine, .limits = limits, .count = count, .elem_bytes = elem_bytes};
    struct tuner_judge judge = {.bound = contest_bound, .time = contest_time, .context = &contest};
    enum collet_result result = contest_enter(&contest, collective);
    if (result == COLLET_SUCCESS)
        result = tuner_search(&judge, contest.tries, contest.ntries);
    int best = result == COLLET_SUCCESS ? tuner_pick(contest.tries, contest.ntries) : -1;
    if (best >= 0)
        *choice = contest.tries[best].choice;
    contest_end(&contest);
    COLLET_TRY(result);
    if (best < 0 && contest.least_blocks > 0)
        return tuner_err_no_room(limits, prog_collective_name(collective), contest.least_blocks);
    if (best < 0 && limits->determinism != DETERMINISM_NONE && prog_facts[collective].reduces)
        return err_set(
            COLLET_ERR_INVALID_USAGE,
            "COLLET_DETERMINISM=%s: no algorithm that takes %s of %d ranks, and that COLLET_ALGO allows, keeps "
            "that promise; those that sum in rank order do: see collet-prog --list",
            limits->determinism == DETERMINISM_ORDER ? "order" : "size", prog_collective_name(collective),
            machine->whole->nranks);
    if (best < 0 && !leaves_protocol(limits, collective))
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "COLLET_PROTO leaves no protocol for %s that this machine has: LL128 takes GPUs that share a "
                       "link; add LL or Simple",
                       prog_collective_name(collective));
    if (best < 0)
        return err_set(COLLET_ERR_INTERNAL,
                       "no algorithm for %s of %d ranks; if COLLET_ALGO names one, its messages do not fit into slots",
                       prog_collective_name(collective), machine->whole->nranks);
    char text[128];
    plan_choice_text(choice, text, sizeof(text));
    log_info(PLAN, "%s up to %llu bytes on %d ranks: %s", prog_collective_name(collective),
             (unsigned long long)count * elem_bytes, machine->cast.nhosts * machine->cast.nlocal, text);
    return COLLET_SUCCESS;
}
