/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be chosen: the bounds that the configuration, the slots and the devices set.
 */
#ifndef COLLET_PLAN_LIMITS_H
#define COLLET_PLAN_LIMITS_H

#include "base/config.h"
#include "fifo/layout.h"
#include "program/program.h"

/* What the bits of a reduction may depend on, beside inputs and number of ranks (COLLET_DETERMINISM). */
enum determinism {
    DETERMINISM_NONE,  /* how the call is made: its size, hence its algorithm, the element's slice and channel */
    DETERMINISM_SIZE,  /* the algorithm, and the order of ranks on the ring */
    DETERMINISM_ORDER, /* nothing: each result is the sum in the order of ranks */
};

/* Of a call, whatever the configuration leaves open. */
#define CHANNELS_MAX 64

struct tuner_limits {
    bool algorithm_named[ALGORITHMS_MAX];    /* by COLLET_ALGO, by index in algorithms[] */
    bool algorithm_excluded[ALGORITHMS_MAX]; /* behind a ^ there */
    bool protocol_allowed[PROTOCOL_COUNT];   /* by enum protocol */
    uint8_t barred[PROG_COLLECTIVE_COUNT];   /* of these, not for this collective: a bit each */
    int nchannels;                           /* the fewest */
    int most_nchannels;                      /* the most that are tried: twice as many from one number to the next */
    int gpu_blocks;                          /* that a GPU runs at once; 0: on host memory */
    int gpu_ranks;                           /* of the communicator that are on one GPU, at most */
    bool one_gpu;                            /* all ranks are on one, and they are several */
    bool channels_given;                     /* by the configuration */
    int nrails;                              /* so many channels use all adapters */
    uint32_t forced_chunk_bytes;             /* 0: free */
    struct protocol_sizes sizes;             /* of the connections of an algorithm */
    struct protocol_sizes sizes_of[PROG_CONNECTS_COUNT]; /* by how many it makes, as in struct conn_owner */
    int most_peers;                                      /* of a rank, whose memory has no room for more of them */
    const struct algorithm *imported;                    /* by COLLET_PROGRAM: alone for its collective; NULL: none */
    enum determinism determinism;
    bool switches;           /* algorithms for them may be chosen, though nobody names them */
    bool warned_of_channels; /* more are asked for than find room on a GPU */
};

/* Does the configuration name algorithms and protocols that there are? For values of this process, before it takes those of
 * rank 0. Errors: INVALID_USAGE. */
enum collet_result tuner_check_names(const struct config *config);

/* nrails: how many channels there should be unless the configuration says otherwise. Errors: INVALID_USAGE if COLLET_ALGO
 * or COLLET_PROTO hold an unknown name, or the numbers of channels exclude each other. */
enum collet_result tuner_limits_read(const struct config *config, const struct fifo_layout layouts[PROG_CONNECTS_COUNT],
                                     int nrails, struct tuner_limits *limits);

/* Does the algorithm, which cuts buffers into so many slices, keep what COLLET_DETERMINISM promises? */
bool tuner_keeps_bits(const struct tuner_limits *limits, const struct algorithm *algorithm, int nslices);

/* Does COLLET_ALGO name an algorithm of the collective that takes the shape? If it names none, all are free. */
bool tuner_is_named(const struct tuner_limits *limits, enum prog_collective collective, const struct prog_shape *shape);

/* A warning for each name of the collective that does not take the shape. */
void tuner_warn_of_names(const struct tuner_limits *limits, enum prog_collective collective,
                         const struct prog_shape *shape);

#endif
