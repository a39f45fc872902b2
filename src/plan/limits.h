/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be chosen: the bounds that the configuration, the slots and the devices set.
 */
#ifndef COLLET_PLAN_LIMITS_H
#define COLLET_PLAN_LIMITS_H

#include "base/config.h"
#include "fifo/layout.h"
#include "program/program.h"

/* What may change the bits of a reduction, besides its inputs and the number of ranks (COLLET_DETERMINISM)? */
enum determinism {
    DETERMINISM_NONE,  /* the call too: its size decides the algorithm, and an element's slice and channel */
    DETERMINISM_SIZE,  /* only the algorithm, and the order of ranks on the ring */
    DETERMINISM_ORDER, /* nothing: each result is summed in rank order */
};

/* Maximum number of channels of a call. */
#define CHANNELS_MAX 64

struct tuner_limits {
    bool algorithm_named[ALGORITHMS_MAX];    /* [index in algorithms[]] named in COLLET_ALGO */
    bool algorithm_excluded[ALGORITHMS_MAX]; /* [index in algorithms[]] named after a ^ there */
    bool protocol_allowed[PROTOCOL_COUNT];   /* [enum protocol] */
    uint8_t barred[PROG_COLLECTIVE_COUNT];   /* [collective] a bit for each protocol that it may not take */
    int nchannels;                           /* minimum number of channels */
    int most_nchannels;                      /* maximum number: each doubling of nchannels up to here is tried */
    int gpu_blocks;                          /* blocks that a GPU runs at once; 0: host memory */
    int gpu_ranks;                           /* maximum number of the communicator's ranks on one GPU */
    bool one_gpu;                            /* several ranks, all on one GPU */
    bool channels_given;                     /* the configuration sets the number of channels */
    int nrails;                              /* number of channels that use all network adapters */
    uint32_t forced_chunk_bytes;             /* 0: not forced */
    struct protocol_sizes sizes;             /* slot sizes of the algorithm in question */
    struct protocol_sizes sizes_of[PROG_CONNECTS_COUNT]; /* slot sizes, by number of connections */
    int most_peers;                                      /* maximum number of peers of a rank, because of memory */
    const struct algorithm *imported;                    /* COLLET_PROGRAM, alone for its collective; NULL: none */
    enum determinism determinism;
    bool switches;           /* algorithms for switches may be chosen without being named */
    bool warned_of_channels; /* a warning was printed: a GPU has no room for all wanted channels */
};

/* Are all names in COLLET_ALGO and COLLET_PROTO known? Checks this process's values, before rank 0's come. Errors: INVALID_USAGE. */
enum collet_result tuner_check_names(const struct config *config);

/* Reads the limits. nrails: the number of channels unless the configuration sets one. Errors: INVALID_USAGE if COLLET_ALGO or
 * COLLET_PROTO has an unknown name, or if the limits on channels contradict each other. */
enum collet_result tuner_limits_read(const struct config *config, const struct fifo_layout layouts[PROG_CONNECTS_COUNT],
                                     int nrails, struct tuner_limits *limits);

/* Does this algorithm, with this number of slices per buffer, keep the promise of COLLET_DETERMINISM? */
bool tuner_keeps_bits(const struct tuner_limits *limits, const struct algorithm *algorithm, int nslices);

/* Does COLLET_ALGO name an algorithm of this collective that accepts the shape? If not, all algorithms may be chosen. */
bool tuner_is_named(const struct tuner_limits *limits, enum prog_collective collective, const struct prog_shape *shape);

/* Warns of each algorithm of this collective that COLLET_ALGO names, but that does not accept the shape. */
void tuner_warn_of_names(const struct tuner_limits *limits, enum prog_collective collective,
                         const struct prog_shape *shape);

#endif
