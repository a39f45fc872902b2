/* SPDX-License-Identifier: Apache-2.0
 *
 * Candidates = algorithms × protocols × chunks × numbers of channels. Each is simulated (cost.c) with the programs of all
 * ranks; the cheapest wins, the earlier one on a tie.
 */
#include "plan/tuner.h"

#include "base/err.h"
#include "base/names.h"
#include "base/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- limits ---- */

#define CHANNELS_MAX 64

static int algorithm_count(void) {
    int n = 0;
    while (algorithms[n].name != NULL)
        n++;
    return n;
}

static enum collet_result read_algorithms(const char *list, struct tuner_limits *limits) {
    char name[NAME_BYTES];
    int n = algorithm_count();
    bool any = *list != '\0';
    for (int k = 0; k < n; k++)
        limits->algorithm_allowed[k] = !any;
    while (name_next(&list, name)) {
        bool known = false;
        for (int k = 0; k < n; k++)
            if (strcasecmp(algorithms[k].name, name) == 0)
                known = limits->algorithm_allowed[k] = true;
        if (!known)
            return err_set(COLLET_ERR_INVALID_USAGE,
                           "COLLET_ALGO names \"%s\", which is no algorithm; see collet-prog --list", name);
    }
    return COLLET_SUCCESS;
}

#define NAMED(NAME, name, text, slots, unit, line, costs) " " text

static enum collet_result read_protocols(const char *list, struct tuner_limits *limits) {
    char name[NAME_BYTES];
    bool any = *list == '\0';
    for (int k = 0; k < PROTOCOL_COUNT; k++)
        limits->protocol_allowed[k] = any;
    while (name_next(&list, name)) {
        bool known = false;
        for (int k = 0; k < PROTOCOL_COUNT; k++)
            if (strcasecmp(protocol_names[k], name) == 0)
                any = known = limits->protocol_allowed[k] = true;
        if (!known)
            return err_set(COLLET_ERR_INVALID_USAGE, "COLLET_PROTO names \"%s\"; protocols are" PROTOCOLS(NAMED), name);
    }
    if (!any)
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "COLLET_PROTO is set but names no protocol; protocols are" PROTOCOLS(NAMED));
    return COLLET_SUCCESS;
}

enum collet_result tuner_check_names(const struct config *config) {
    struct tuner_limits limits;
    COLLET_TRY(read_algorithms(config->algo, &limits));
    return read_protocols(config->proto, &limits);
}

/* Another channel is another message for each hop: some microseconds, in which the first one's NIC sends this much. */
#define PART_BYTES (32u << 10)

enum collet_result tuner_limits_read(const struct config *config, const struct fifo_layout *layout, int nrails,
                                     struct tuner_limits *limits) {
    *limits =
        (struct tuner_limits){.nrails = nrails, .slot_bytes = layout->slot_bytes, .short_bytes = layout->short_bytes};
    int fewest = config->min_nchannels > 0 ? (int)config->min_nchannels : 1;
    int most = config->max_nchannels > 0 ? (int)config->max_nchannels : CHANNELS_MAX;
    if (most < fewest)
        return err_set(COLLET_ERR_INVALID_USAGE, "at least %d channels but at most %d (COLLET_MIN_NCHANNELS, config)",
                       fewest, most);
    int wanted = nrails < fewest ? fewest : nrails > most ? most : nrails;
    limits->nchannels = limits->most_nchannels = config->nchannels > 0 ? (int)config->nchannels : wanted;
    limits->channels_given = config->nchannels > 0 || config->min_nchannels > 0 || config->max_nchannels > 0;
    limits->forced_chunk_bytes = (uint32_t)config->chunksize;
    COLLET_TRY(read_algorithms(config->algo, limits));
    return read_protocols(config->proto, limits);
}

/* A block moves some tens of GB/s. */
#define GPU_CHANNELS_MAX 32

/* Ranks of one GPU that are not called in one group are launched each for itself, and yet must run side by side: all
 * together take no more blocks than a small GPU runs. */
#define GPU_CHANNELS_SHARED 32

void tuner_limits_of_gpus(const struct config *config, int ranks_of_a_gpu, struct tuner_limits *limits) {
    int most = config->max_nchannels > 0 ? (int)config->max_nchannels : GPU_CHANNELS_MAX;
    int shared = GPU_CHANNELS_SHARED / ranks_of_a_gpu;
    if (config->nchannels > 0)
        return;
    limits->nchannels = config->min_nchannels > 0 ? (int)config->min_nchannels : 1;
    limits->most_nchannels = most < shared ? most : shared;
}

/* ---- geometry of a call ---- */

void plan_extent(enum prog_collective collective, uint64_t count, int nranks, int nblocks, uint64_t *total_elems,
                 uint64_t *block_elems) {
    if (prog_is_sliced(collective)) {
        *total_elems = count;
        *block_elems = geometry_share(count, (uint64_t)nblocks);
    } else {
        *total_elems = count * (uint64_t)nranks;
        *block_elems = count;
    }
}

int plan_channels(const struct tuner_limits *limits, int nchannels, uint64_t block_bytes) {
    if (limits->channels_given || block_bytes / PART_BYTES >= (uint64_t)nchannels)
        return nchannels;
    return block_bytes < PART_BYTES ? 1 : (int)(block_bytes / PART_BYTES);
}

/* Simple slots at both ends of a rank's connections. */
#define GPU_CONNECTIONS_BYTES (128ull << 20)

uint64_t plan_affordable_channels(int npeers, uint32_t nslots, uint32_t slot_bytes) {
    return GPU_CONNECTIONS_BYTES / ((uint64_t)npeers * nslots * slot_bytes);
}

uint64_t plan_chunk_elems(uint32_t chunk_bytes, uint32_t elem_bytes) {
    uint64_t elems = chunk_bytes / elem_bytes;
    if (elems >= GEOMETRY_ALIGN_ELEMS)
        return elems / GEOMETRY_ALIGN_ELEMS * GEOMETRY_ALIGN_ELEMS;
    return elems > 0 ? elems : 1;
}

/* ---- choosing ---- */

struct candidates {
    const struct cost_machine *machine;
    const struct tuner_limits *limits;
    enum prog_collective collective;
    uint64_t count;
    uint32_t elem_bytes;
    struct plan_choice best;
    int best_npeers; /* that a rank has in it, at most */
};

enum collet_result tuner_predict(const struct cost_machine *machine, struct prog *const *progs,
                                 const struct plan_choice *choice, uint64_t count, uint32_t elem_bytes, double *ns_p) {
    uint64_t total, block;
    plan_extent(progs[0]->collective, count, machine->nranks, progs[0]->nblocks, &total, &block);
    struct cost_call call = {.protocol = choice->protocol, .elem_bytes = elem_bytes, .nchannels = choice->nchannels};
    call.geometry =
        geometry_of(total, block, plan_chunk_elems(choice->chunk_bytes, elem_bytes), 0, (uint32_t)choice->nchannels);
    return cost_simulate(machine, progs, &call, ns_p);
}

/* Predictions that differ by less do not differ: then fewer connections are better, which take up less of the caches. */
#define SAME 0.01

static int peers_of(const struct candidates *c, struct prog *const *progs) {
    int most = 1;
    for (int rank = 0; rank < c->machine->nranks; rank++)
        most = progs[rank]->npeers > most ? progs[rank]->npeers : most;
    return most;
}

static bool is_better(const struct candidates *c, double ns, int npeers) {
    double allowed = npeers < c->best_npeers ? 1 + SAME : npeers > c->best_npeers ? 1 - SAME : 1;
    return c->best.algorithm == NULL || ns < allowed * c->best.predicted_ns;
}

static enum collet_result consider(struct candidates *c, struct prog *const *progs, struct plan_choice *choice) {
    COLLET_TRY(tuner_predict(c->machine, progs, choice, c->count, c->elem_bytes, &choice->predicted_ns));
    log_trace(PLAN, "%s %llu bytes: %s %s %d channel(s), chunk %u: %.1f us", prog_collective_name(c->collective),
              (unsigned long long)c->count * c->elem_bytes, choice->algorithm->name, protocol_names[choice->protocol],
              choice->nchannels, choice->chunk_bytes, choice->predicted_ns / 1000);
    int npeers = peers_of(c, progs);
    if (is_better(c, choice->predicted_ns, npeers)) {
        c->best = *choice;
        c->best_npeers = npeers;
    }
    return COLLET_SUCCESS;
}

/* Over a network each channel of an adapter has queue pairs of its own, and one proxy carries the slots of all. */
#define RAIL_CHANNELS 2

static int most_channels(const struct candidates *c, struct prog *const *progs) {
    int affordable = (int)plan_affordable_channels(peers_of(c, progs), c->machine->nslots, c->limits->slot_bytes);
    affordable = affordable > c->limits->nrails ? affordable : c->limits->nrails;
    size_t npairs = (size_t)c->machine->nranks * (size_t)c->machine->nranks;
    if (memchr(c->machine->class, LINK_GPU_NET, npairs) != NULL && affordable > RAIL_CHANNELS * c->limits->nrails)
        affordable = RAIL_CHANNELS * c->limits->nrails;
    return affordable < c->limits->most_nchannels ? affordable : c->limits->most_nchannels;
}

/* The fewest; and more, which only ranks on GPUs have, as long as they help. */
static enum collet_result consider_channels(struct candidates *c, struct prog *const *progs,
                                            struct plan_choice choice) {
    double fewer_ns = INFINITY;
    int most = most_channels(c, progs);
    for (; choice.nchannels == c->limits->nchannels || choice.nchannels <= most; choice.nchannels *= 2) {
        COLLET_TRY(consider(c, progs, &choice));
        if (choice.predicted_ns >= fewer_ns)
            break;
        fewer_ns = choice.predicted_ns;
    }
    return COLLET_SUCCESS;
}

#define SHORTEST_WAY_BYTES (32u << 10) /* of the longest slots there are */

/* Full slots go with fewer steps and switches; with shorter ones the hops of a message overlap. */
static int long_ways(const struct tuner_limits *limits, enum protocol protocol, struct tuner_way *ways) {
    uint32_t forced = limits->forced_chunk_bytes;
    uint32_t full = forced > 0 && forced < limits->slot_bytes ? forced : limits->slot_bytes;
    int n = 0;
    ways[n++] = (struct tuner_way){protocol, full};
    if (forced == 0)
        ways[n++] = (struct tuner_way){protocol, full / 4};
    if (forced == 0 && full / 16 >= SHORTEST_WAY_BYTES)
        ways[n++] = (struct tuner_way){protocol, full / 16};
    return n;
}

int tuner_ways(const struct tuner_limits *limits, struct tuner_way ways[TUNER_WAYS_MAX]) {
    int n = 0;
    for (int k = 0; k < PROTOCOL_COUNT; k++)
        if (limits->protocol_allowed[k] && protocol_slots((uint32_t)k) == PROTOCOL_SHORT)
            ways[n++] = (struct tuner_way){(enum protocol)k, limits->short_bytes};
    for (int k = 0; k < PROTOCOL_COUNT; k++)
        if (limits->protocol_allowed[k] && protocol_slots((uint32_t)k) == PROTOCOL_LONG)
            n += long_ways(limits, (enum protocol)k, &ways[n]);
    return n;
}

/* A slot that several blocks share must have room for an element of each. */
#define LARGEST_ELEM_BYTES 8u

static enum collet_result consider_ways(struct candidates *c, const struct algorithm *algorithm,
                                        struct prog *const *progs) {
    struct tuner_way ways[TUNER_WAYS_MAX];
    int n = tuner_ways(c->limits, ways);
    for (int k = 0; k < n; k++) {
        uint32_t chunk_bytes =
            geometry_room(ways[k].chunk_bytes, (uint32_t)progs[0]->longest_run, protocol_unit_bytes(ways[k].protocol));
        struct plan_choice choice = {algorithm, ways[k].protocol, c->limits->nchannels, chunk_bytes, 0};
        if (chunk_bytes >= LARGEST_ELEM_BYTES)
            COLLET_TRY(consider_channels(c, progs, choice));
    }
    return COLLET_SUCCESS;
}

static enum collet_result consider_algorithm(struct candidates *c, const struct algorithm *algorithm) {
    int nranks = c->machine->nranks;
    enum collet_result result = COLLET_SUCCESS;
    struct prog **progs = calloc((size_t)nranks, sizeof(*progs));
    if (progs == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to compare algorithms for %d ranks", nranks);
    for (int rank = 0; rank < nranks && result == COLLET_SUCCESS; rank++)
        result = algorithm_build(algorithm, &c->machine->shape, rank, 0, &progs[rank]);
    if (result == COLLET_SUCCESS)
        result = consider_ways(c, algorithm, progs);
    for (int rank = 0; rank < nranks; rank++)
        prog_destroy(progs[rank]);
    free(progs);
    return result;
}

/* To the communicator, and to that part of it which is simulated. */
static bool applies(const struct algorithm *algorithm, enum prog_collective collective,
                    const struct cost_machine *machine) {
    return algorithm->collective == collective && algorithm_applies(algorithm, machine->whole) &&
           algorithm_applies(algorithm, &machine->shape);
}

enum collet_result tuner_choose(const struct cost_machine *machine, const struct tuner_limits *limits,
                                enum prog_collective collective, uint64_t count, uint32_t elem_bytes,
                                struct plan_choice *choice) {
    struct candidates c = {machine, limits, collective, count, elem_bytes, {0}, 0};

    /* COLLET_ALGO that names no algorithm of this collective leaves the collective free. */
    bool named = false;
    for (int k = 0; algorithms[k].name != NULL; k++)
        named |= applies(&algorithms[k], collective, machine) && limits->algorithm_allowed[k];
    for (int k = 0; algorithms[k].name != NULL; k++)
        if (applies(&algorithms[k], collective, machine) && (limits->algorithm_allowed[k] || !named))
            COLLET_TRY(consider_algorithm(&c, &algorithms[k]));
    if (c.best.algorithm == NULL)
        return err_set(COLLET_ERR_INTERNAL,
                       "no algorithm for %s of %d ranks; if COLLET_ALGO names one, its messages do not fit into slots",
                       prog_collective_name(collective), machine->nranks);
    *choice = c.best;
    log_info(PLAN, "%s up to %llu bytes on %d ranks: %s, %s, %d channel(s), chunk %u bytes, predicted %.1f us",
             prog_collective_name(collective), (unsigned long long)count * elem_bytes, machine->nranks,
             choice->algorithm->name, protocol_names[choice->protocol], choice->nchannels, choice->chunk_bytes,
             choice->predicted_ns / 1000);
    return COLLET_SUCCESS;
}
