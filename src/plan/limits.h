/* SPDX-License-Identifier: Apache-2.0
 *
 * Which plans may be chosen: the limits that the configuration, the slots and the devices set.
 */
#ifndef COLLET_PLAN_LIMITS_H
#define COLLET_PLAN_LIMITS_H

#include "base/config.h"
#include "fifo/layout.h"
#include "program/program.h"

/* What may change the bits of a reduction, besides its inputs and the number of ranks (COLLET_DETERMINISM)? */
enum determinism {
    DETERMINISM_NONE,  /* The call, too: its size decides the algorithm, and an element's slice and channel */
    DETERMINISM_SIZE,  /* Only the algorithm, and the order of ranks on the ring */
    DETERMINISM_ORDER, /* Nothing else: each result is summed in rank order */
};

/* Maximum number of channels of a call. */
#define CHANNELS_MAX 64

struct tuner_limits {
    bool algorithm_named[ALGORITHMS_MAX];    /* [index in algorithms[]]: COLLET_ALGO names the algorithm */
    bool algorithm_excluded[ALGORITHMS_MAX]; /* [index in algorithms[]]: COLLET_ALGO names the algorithm after a ^ */
    bool protocol_allowed[PROTOCOL_COUNT];   /* [enum protocol]: the protocol may be chosen */
    uint8_t barred[PROG_COLLECTIVE_COUNT];   /* [collective]: a bit for each protocol that must not be chosen for it */
    int nchannels;                           /* Minimum number of channels */
    /* Maximum number of channels. All doublings of nchannels up to it are tried. */
    int most_nchannels;
    int gpu_blocks;              /* Number of blocks that a GPU runs at once; 0: ranks are on host memory */
    int gpu_ranks;               /* Maximum number of the communicator's ranks on one GPU */
    bool one_gpu;                /* True: there are several ranks, and all are on one GPU */
    bool channels_given;         /* True: the configuration sets the number of channels */
    int nrails;                  /* Number of channels with which all network adapters are used */
    uint32_t forced_chunk_bytes; /* Chunk that the configuration sets; 0: it sets none */
    struct protocol_sizes sizes; /* Slot sizes of the algorithm in question */
    struct protocol_sizes sizes_of[PROG_CONNECTS_COUNT]; /* [enum prog_connects]: slot sizes */
    int most_peers;                                      /* Maximum number of peers of a rank, because of memory */
    const struct algorithm *imported;                    /* The only algorithm for its collective; NULL: none */
    enum determinism determinism;
    bool switches;           /* True: algorithms for switches may be chosen without being named */
    bool warned_of_channels; /* True: a warning was printed that a GPU has no room for all wanted channels */
};

/* Are all names in COLLET_ALGO and COLLET_PROTO known? Checks this process's own values, before rank 0's values come. Errors:
 * INVALID_USAGE. */
enum collet_result tuner_check_names(const struct config *config);

/* Reads the limits. nrails: the number of channels if the configuration sets none. Errors: INVALID_USAGE if COLLET_ALGO or
 * COLLET_PROTO has an unknown name, or if the limits on channels contradict each other. */
enum collet_result tuner_limits_read(const struct config *config, const struct fifo_layout layouts[PROG_CONNECTS_COUNT],
                                     int nrails, struct tuner_limits *limits);

/* Does this algorithm, with this number of slices per buffer, keep the promise of COLLET_DETERMINISM? */
bool tuner_keeps_bits(const struct tuner_limits *limits, const struct algorithm *algorithm, int nslices);

/* Does COLLET_ALGO name an algorithm of this collective that works for the shape? If not, all algorithms may be chosen. */
bool tuner_is_named(const struct tuner_limits *limits, enum prog_collective collective, const struct prog_shape *shape);

/* Warns of each algorithm of this collective that COLLET_ALGO names, but that does not work for the shape. */
void tuner_warn_of_names(const struct tuner_limits *limits, enum prog_collective collective,
                         const struct prog_shape *shape);

#endif
