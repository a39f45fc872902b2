/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tuner/call_options.h"

#include "base/err.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Options that were asked for. A program has a few kinds of calls, so the list is short. */
struct known {
    struct call_options options;
    struct known *next;
};
static struct known *all_known;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static bool alike(const struct call_options *a, const struct call_options *b) {
    return strcmp(a->algo, b->algo) == 0 && a->insists == b->insists && a->min_nchannels == b->min_nchannels &&
           a->max_nchannels == b->max_nchannels;
}

const struct call_options *call_options_find(const struct call_options *options) {
    SCOPED_LOCK(&known_lock);
    struct known *known = all_known;
    while (known != NULL && !alike(&known->options, options))
        known = known->next;
    if (known == NULL && (known = malloc(sizeof *known)) != NULL) {
        *known = (struct known){*options, all_known};
        all_known = known;
    }
    return known != NULL ? &known->options : NULL;
}

static enum collet_result limit_algorithms(const struct call_options *options, const struct chan *chan,
                                           enum prog_collective collective, const struct prog_shape *shape,
                                           struct tuner_limits *limits) {
    struct config config = *chan->owner.config;
    struct tuner_limits named;
    snprintf(config.algo, sizeof config.algo, "%s", options->algo);
    COLLET_TRY(tuner_limits_read(&config, chan->owner.layouts, limits->nrails, &named));
    if (options->insists && strchr(options->algo, '^') == NULL && !tuner_is_named(&named, collective, shape))
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "the call asks for %s: none of these does %s of %d ranks on %d node(s); see collet-prog --list",
                       options->algo, prog_collective_name(collective), shape->nranks, shape->nnodes);
    memcpy(limits->algorithm_named, named.algorithm_named, sizeof limits->algorithm_named);
    memcpy(limits->algorithm_excluded, named.algorithm_excluded, sizeof limits->algorithm_excluded);
    return COLLET_SUCCESS;
}

static int between(int least, int number, int most) { return number < least ? least : number > most ? most : number; }

/* A communicator has connections for so many channels, and no more. */
static void limit_channels(const struct call_options *options, struct tuner_limits *limits) {
    const int room = limits->most_nchannels > limits->nchannels ? limits->most_nchannels : limits->nchannels;
    const int most = options->max_nchannels > 0 ? between(1, options->max_nchannels, room) : room;
    const int least = between(1, options->min_nchannels, most);
    limits->nchannels = between(least, limits->nchannels, most);
    limits->most_nchannels = between(limits->nchannels, limits->most_nchannels, most);
}

enum collet_result call_options_limit(const struct call_options *options, const struct chan *chan,
                                      enum prog_collective collective, const struct prog_shape *shape,
                                      const struct tuner_limits *all, struct tuner_limits *limits) {
    *limits = *all;
    if (options->algo[0] != '\0')
        COLLET_TRY(limit_algorithms(options, chan, collective, shape, limits));
    if (options->min_nchannels > 0 || options->max_nchannels > 0)
        limit_channels(options, limits);
    return COLLET_SUCCESS;
}
