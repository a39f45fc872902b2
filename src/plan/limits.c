/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/limits.h"

#include "base/err.h"
#include "base/log.h"
#include "base/names.h"
#include "base/spelling.h"
#include "chan/chan.h"
#include "chan/slots.h"

#include <string.h>
#include <strings.h>

/* ---- names ---- */

/* Does an entry of COLLET_ALGO name this algorithm? It may be for example "ring", or "allreduce:ring". */
static bool is_called(const struct algorithm *algorithm, const char *name) {
    const char *collective = prog_collective_name(algorithm->collective);
    const size_t length = strlen(collective);
    const bool of_one = strncasecmp(name, collective, length) == 0 && name[length] == ':';
    return strcasecmp(algorithm->name, of_one ? name + length + 1 : name) == 0;
}

static enum collet_result read_algorithms(const char *list, struct tuner_limits *limits) {
    char name[NAME_BYTES];
    bool *marks = limits->algorithm_named;
    while (name_next(&list, name)) {
        const char *colon = strchr(name, ':');
        struct spelling spelling = {colon != NULL ? colon + 1 : name + (*name == '^'), SPELLING_FAR, ""};
        bool known = false;
        if (*name == '^')
            marks = limits->algorithm_excluded;
        for (int k = 0; algorithms[k].name != NULL; spelling_offer(&spelling, algorithms[k++].name))
            if (is_called(&algorithms[k], name + (*name == '^')))
                known = marks[k] = true;
        if (!known)
            return err_set(COLLET_ERR_INVALID_USAGE,
                           "COLLET_ALGO (NCCL_ALGO) names \"%s\", which is no algorithm (collet-prog --list)%s", name,
                           spelling.hint);
    }
    return COLLET_SUCCESS;
}

#define NAMED(NAME, name, text, slots, unit, line, costs) " " text

/* "LL" counts for all collectives. "allreduce:LL" counts for one collective, for which entries without a collective then do not count. */
static enum collet_result read_protocols(const char *list, struct tuner_limits *limits) {
    unsigned named[PROG_COLLECTIVE_COUNT + 1] = {0}, *all = &named[PROG_COLLECTIVE_COUNT], any = 0;
    const bool exclude = *list == '^';
    char name[NAME_BYTES];
    for (list += exclude; name_next(&list, name);) {
        const char *colon = strchr(name, ':'), *word = colon != NULL ? colon + 1 : name;
        enum prog_collective of = PROG_COLLECTIVE_COUNT;
        struct spelling spelling = {word, SPELLING_FAR, ""};
        const bool known = colon == NULL || prog_collective_find(name, (size_t)(colon - name), &of);
        for (int k = 0; k < PROTOCOL_COUNT; spelling_offer(&spelling, protocol_names[k++]))
            named[of] |= (unsigned)(strcasecmp(protocol_names[k], word) == 0) << k;
        if (spelling.distance > 0 || !known)
            return err_set(COLLET_ERR_INVALID_USAGE, "COLLET_PROTO names \"%s\"; protocols are" PROTOCOLS(NAMED) "%s",
                           name, spelling.hint);
    }
    *all = *all == 0 || exclude ? ~*all & ((1u << PROTOCOL_COUNT) - 1) : *all;
    for (int c = 0; c < PROG_COLLECTIVE_COUNT; any |= named[c++])
        limits->barred[c] = (uint8_t) ~(named[c] != 0 ? named[c] : *all);
    for (int k = 0; k < PROTOCOL_COUNT; k++)
        limits->protocol_allowed[k] = (any | *all) >> k & 1;
    return *all != 0
               ? COLLET_SUCCESS
               : err_set(COLLET_ERR_INVALID_USAGE, "COLLET_PROTO leaves no protocol; protocols are" PROTOCOLS(NAMED));
}

enum collet_result tuner_check_names(const struct config *config) {
    struct tuner_limits limits = {.nrails = 0};
    COLLET_TRY(read_algorithms(config->algo, &limits));
    return read_protocols(config->proto, &limits);
}

enum collet_result tuner_limits_read(const struct config *config, const struct fifo_layout layouts[PROG_CONNECTS_COUNT],
                                     int nrails, struct tuner_limits *limits) {
    *limits = (struct tuner_limits){.nrails = nrails, .sizes = layouts[PROG_TO_FEW].sizes};
    for (int kind = 0; kind < PROG_CONNECTS_COUNT; kind++)
        limits->sizes_of[kind] = layouts[kind].sizes;
    limits->most_peers = (int)(CHAN_BUDGET_BYTES / layouts[PROG_TO_MANY].total_bytes);
    int fewest = config->min_nchannels > 0 ? (int)config->min_nchannels : 1;
    int most = config->max_nchannels > 0 ? (int)config->max_nchannels : CHANNELS_MAX;
    if (most < fewest)
        return err_set(COLLET_ERR_INVALID_USAGE, "at least %d channels but at most %d (COLLET_MIN_NCHANNELS, config)",
                       fewest, most);
    int wanted = nrails < fewest ? fewest : nrails > most ? most : nrails;
    limits->nchannels = limits->most_nchannels = config->nchannels > 0 ? (int)config->nchannels : wanted;
    limits->channels_given = config->nchannels > 0 || config->min_nchannels > 0 || config->max_nchannels > 0;
    limits->forced_chunk_bytes = (uint32_t)config->chunksize;
    limits->determinism = strcasecmp(config->determinism, "order") == 0  ? DETERMINISM_ORDER
                          : strcasecmp(config->determinism, "size") == 0 ? DETERMINISM_SIZE
                                                                         : DETERMINISM_NONE;
    COLLET_TRY(read_algorithms(config->algo, limits));
    return read_protocols(config->proto, limits);
}

/* ---- determinism: what may change the bits of a result ---- */

/* Different slices of a buffer are summed in different orders, and the buffer's size decides to which slice an element belongs. If blocks
 * are whole blocks of ranks, their size does not change the order. */
bool tuner_keeps_bits(const struct tuner_limits *limits, const struct algorithm *algorithm, int nslices) {
    bool in_rank_order = algorithm->order == PROG_IN_RANK_ORDER;
    bool one_order = nslices == 1;
    if (!prog_facts[algorithm->collective].reduces || prog_is_bare(algorithm->collective))
        return true;
    return limits->determinism == DETERMINISM_NONE || in_rank_order ||
           (limits->determinism == DETERMINISM_SIZE && one_order);
}

/* ---- names that cannot be followed ---- */

bool tuner_is_named(const struct tuner_limits *limits, enum prog_collective collective,
                    const struct prog_shape *shape) {
    for (int k = 0; algorithms[k].name != NULL; k++)
        if (limits->algorithm_named[k] && !limits->algorithm_excluded[k] && algorithms[k].collective == collective &&
            algorithm_applies(&algorithms[k], shape))
            return true;
    return false;
}

void tuner_warn_of_names(const struct tuner_limits *limits, enum prog_collective collective,
                         const struct prog_shape *shape) {
    bool followed = tuner_is_named(limits, collective, shape);
    for (int k = 0; algorithms[k].name != NULL; k++)
        if (limits->algorithm_named[k] && algorithms[k].collective == collective &&
            !algorithm_applies(&algorithms[k], shape))
            log_always(PLAN, "COLLET_ALGO names %s, which takes %s: %s of %d ranks on %d node%s is done by %s",
                       algorithms[k].name, algorithms[k].where, prog_collective_name(collective), shape->nranks,
                       shape->nnodes, shape->nnodes == 1 ? "" : "s",
                       followed ? "another algorithm that it names" : "an algorithm that it does not name");
}
