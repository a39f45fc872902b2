/* SPDX-License-Identifier: Apache-2.0
 *
 * How one call alone is to be done. A call carries it as one number (manner, in struct exec_request), which says all: ranks that
 * give the same options have the same number, and ranks that give others are found by it (plan/plan.c).
 */
#ifndef COLLET_LAYERS_TUNER_MANNER_H
#define COLLET_LAYERS_TUNER_MANNER_H

#include "plan/choice.h"
#include "plan/limits.h"

struct manner {
    uint32_t algorithms; /* bit k: the collective's algorithm number k, in the order of algorithms[]; 0: any */
    uint32_t protocols;  /* bit p: enum protocol; 0: any */
    int fewest, most;    /* number of channels; 0: as other calls */
    bool insists;        /* false: if none of these is possible, any algorithm may be taken */
    bool by_kernels;     /* copy engines of GPUs may not do it, whatever the communicator's policy is */
};

/* Packs the options of a call into a word; 0: none. */
uint64_t manner_pack(const struct manner *manner);
struct manner manner_unpack(uint64_t packed);

/* Returns the bit of an algorithm. */
uint32_t manner_bit(const struct algorithm *algorithm);

/* Restricts the limits of a communicator to the options of a call. INVALID_USAGE: an option is forced, and cannot be followed. */
enum collet_result manner_hold(const struct manner *manner, enum prog_collective collective,
                               const struct prog_shape *shape, struct tuner_limits *limits);

/* On host memory few bytes go over fewer channels, but no fewer than the manner asks for. */
enum collet_result manner_spare(const struct manner *manner, const struct prog_shape *shape, uint64_t bytes,
                                struct plan_choice *choice);

#endif
