/* SPDX-License-Identifier: Apache-2.0
 *
 * How one call alone is to be done. A call carries it as one number (call_options, in struct exec_request), which says all: ranks that
 * give the same options have the same number, and ranks that give others are found by it (plan/plan.c).
 */
#ifndef COLLET_LAYERS_TUNER_CALL_OPTIONS_H
#define COLLET_LAYERS_TUNER_CALL_OPTIONS_H

#include "plan/choice.h"
#include "plan/limits.h"

struct call_options {
    uint32_t algorithms; /* bit k: the collective's algorithm number k, in the order of algorithms[]; 0: any */
    uint32_t protocols;  /* bit p: enum protocol; 0: any */
    int fewest, most;    /* number of channels; 0: as other calls */
    bool insists;        /* false: if none of these is possible, any algorithm may be taken */
    bool by_kernels;     /* copy engines of GPUs may not do it, whatever the communicator's policy is */
};

/* Packs the options of a call into a word; 0: none. */
uint64_t call_options_pack(const struct call_options *options);
struct call_options call_options_unpack(uint64_t packed);

/* Returns the bit of an algorithm. */
uint32_t call_options_bit(const struct algorithm *algorithm);

/* Restricts the limits of a communicator to the options of a call. INVALID_USAGE: an option is forced, and cannot be followed. */
enum collet_result call_options_restrict(const struct call_options *options, enum prog_collective collective,
                                         const struct prog_shape *shape, struct tuner_limits *limits);

/* On host memory few bytes go over fewer channels, but no fewer than the options ask for. */
enum collet_result call_options_spare(const struct call_options *options, const struct prog_shape *shape,
                                      uint64_t bytes, struct plan_choice *choice);

#endif
