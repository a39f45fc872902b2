/* SPDX-License-Identifier: Apache-2.0
 *
 * What one call asks for in place of its communicator's configuration. All ranks ask for the same.
 *
 *    ncclAllReduceConfig() ─▶ call_options_find() ─▶ exec_request.options ─▶ call_options_limit() ─▶ the tuner chooses among these
 */
#ifndef COLLET_LAYERS_TUNER_CALL_OPTIONS_H
#define COLLET_LAYERS_TUNER_CALL_OPTIONS_H

#include "chan/chan.h"
#include "plan/limits.h"

struct call_options {
    char algo[CONFIG_TEXT_BYTES];     /* Names of algorithms, as in COLLET_ALGO. "": those of the communicator. */
    bool insists;                     /* It is an error if none of these algorithms takes the call. */
    int min_nchannels, max_nchannels; /* Bounds within those of the communicator. 0: none. */
};

/* The one address that stands for options like these, for as long as the process lives. NULL: there is no memory. Any thread. */
const struct call_options *call_options_find(const struct call_options *options);

/* *limits: those of the communicator (all), and of the call's options. Errors: INVALID_USAGE if algo has an unknown name, or no algorithm
 * that it insists on takes the shape. */
enum collet_result call_options_limit(const struct call_options *options, const struct chan *chan,
                                      enum prog_collective collective, const struct prog_shape *shape,
                                      const struct tuner_limits *all, struct tuner_limits *limits);

#endif
