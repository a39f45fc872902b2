/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "tuner", this table chooses among the algorithms and protocols that the limits allow.
 *
 *      up to FEW_BYTES   an algorithm with few hops, in LL
 *      above             the first algorithm in the registry: a ring, a chain or the direct one, in Simple
 */
#include "seams/tuner.h"

#include "base/err.h"
#include "base/memory.h"
#include "exec/exec.h"

#include <stdlib.h>

#define FEW_BYTES 16384
static const char *const few_hops[] = {"oneshot", "direct", "doubling", "bruck", "tree"};
#define FEW_HOPS (int)(sizeof few_hops / sizeof *few_hops)

struct chooser {
    const struct prog_shape *shape;
};

enum collet_result chooser_create(const struct chan *chan, const struct config *config, const struct map *map,
                                  const struct prog_shape *shapes, int nshapes, struct tuner_limits *limits,
                                  struct chooser **chooser_p) {
    (void)chan, (void)config, (void)map, (void)nshapes, (void)limits;
    COLLET_TRY(memory_get(chooser_p, 1, sizeof **chooser_p, "no memory to choose algorithms"));
    (*chooser_p)->shape = &shapes[0];
    return COLLET_SUCCESS;
}

void chooser_destroy(struct chooser *chooser) { free(chooser); }

/* ---- the algorithm ---- */

struct extremes {
    int longest_run, nslices; /* Maxima over the programs of all ranks */
};

static enum collet_result look_at(const struct algorithm *algorithm, const struct prog_shape *shape,
                                  struct extremes *found) {
    *found = (struct extremes){0, 0};
    for (int rank = 0; rank < shape->nranks; rank++) {
        struct prog *prog;
        COLLET_TRY(algorithm_build(algorithm, shape, rank, 0, &prog));
        found->nslices = prog->nslices;
        found->longest_run = prog->longest_run > found->longest_run ? prog->longest_run : found->longest_run;
        prog_destroy(prog);
    }
    return COLLET_SUCCESS;
}

/* May this algorithm be chosen? If COLLET_ALGO names algorithms, only those. Otherwise an algorithm must need no switches, and a rank's
 * memory must have room for its connections. */
static bool is_open(const struct tuner_limits *limits, const struct algorithm *algorithm,
                    const struct prog_shape *shape) {
    if (!algorithm_applies(algorithm, shape) || limits->algorithm_excluded[algorithm - algorithms])
        return false;
    if (tuner_is_named(limits, algorithm->collective, shape))
        return limits->algorithm_named[algorithm - algorithms];
    return algorithm->order != PROG_SWITCH_ORDER &&
           (algorithm->connects < PROG_TO_MANY || shape->nranks <= limits->most_peers);
}

/* Chooses this algorithm, and stores its extremes, if it may be chosen and no algorithm is chosen yet. */
static enum collet_result consider(const struct tuner_limits *limits, const struct algorithm *algorithm,
                                   const struct prog_shape *shape, struct plan_choice *choice, struct extremes *found) {
    if (algorithm == NULL || choice->algorithm != NULL || !is_open(limits, algorithm, shape))
        return COLLET_SUCCESS;
    COLLET_TRY(look_at(algorithm, shape, found));
    if (tuner_keeps_bits(limits, algorithm, found->nslices))
        choice->algorithm = algorithm;
    return COLLET_SUCCESS;
}

static enum collet_result choose_algorithm(const struct tuner_limits *limits, enum prog_collective collective, bool few,
                                           const struct prog_shape *shape, struct plan_choice *choice,
                                           struct extremes *found) {
    for (int k = 0; few && k < FEW_HOPS; k++)
        COLLET_TRY(consider(limits, algorithm_find(collective, few_hops[k]), shape, choice, found));
    for (int k = 0; algorithms[k].name != NULL; k++)
        if (algorithms[k].collective == collective)
            COLLET_TRY(consider(limits, &algorithms[k], shape, choice, found));
    if (choice->algorithm != NULL)
        return COLLET_SUCCESS;
    return err_set(COLLET_ERR_INVALID_USAGE,
                   "no algorithm for %s of %d ranks keeps what COLLET_ALGO and COLLET_DETERMINISM ask for: see "
                   "collet-prog --list",
                   prog_collective_name(collective), shape->nranks);
}

/* ---- the protocol ---- */

/* Is this protocol allowed, and can its slots show that they have arrived? Lines show it with their flags, but an empty message has no
 * line; only a barrier's empty message in LL has one. Simple shows it by its tail. */
static bool suits(const struct tuner_limits *limits, enum prog_collective collective, enum protocol protocol) {
    const bool announces = !prog_keeps_empty(collective) || (collective == PROG_BARRIER && protocol == PROTOCOL_LL);
    return limits->protocol_allowed[protocol] && !(limits->barred[collective] >> protocol & 1) &&
           (protocol == PROTOCOL_SIMPLE || announces);
}

static enum protocol choose_protocol(const struct tuner_limits *limits, enum prog_collective collective, bool few) {
    const enum protocol order[] = {few ? PROTOCOL_LL : PROTOCOL_SIMPLE, PROTOCOL_SIMPLE, PROTOCOL_LL128, PROTOCOL_LL};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        if (suits(limits, collective, order[k]))
            return order[k];
    return PROTOCOL_SIMPLE;
}

/* Maximum bytes of a piece. `forced`: see struct tuner_limits; it counts for long slots only. */
static uint32_t chunk_of(const struct tuner_limits *limits, const struct plan_choice *choice, int longest_run,
                         uint32_t forced) {
    const uint32_t full = protocol_payload_bytes(choice->protocol, &limits->sizes_of[choice->algorithm->connects]);
    const bool is_long = protocol_slots(choice->protocol) == PROTOCOL_LONG;
    const uint32_t bytes = is_long && forced > 0 && forced < full ? forced : full;
    return geometry_room(bytes, (uint32_t)longest_run, protocol_unit_bytes(choice->protocol));
}

enum collet_result chooser_choose(struct chooser *chooser, struct tuner_limits *limits,
                                  const struct exec_request *request, uint64_t bytes, struct plan_choice *choice_p) {
    const enum prog_collective collective = request->collective;
    const bool few = bytes <= FEW_BYTES && limits->determinism == DETERMINISM_NONE;
    struct plan_choice choice = {.nchannels = limits->nchannels};
    struct extremes found;
    COLLET_TRY(choose_algorithm(limits, collective, few, chooser->shape, &choice, &found));
    choice.protocol = choose_protocol(limits, collective, few);
    if (chunk_of(limits, &choice, found.longest_run, 0) < sizeof(uint64_t))
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "%s: its messages do not fit into slots; name another one in COLLET_ALGO",
                       choice.algorithm->name);
    choice.chunk_bytes = chunk_of(limits, &choice, found.longest_run, limits->forced_chunk_bytes);
    *choice_p = choice;
    return COLLET_SUCCESS;
}
