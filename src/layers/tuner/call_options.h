/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a single call. A call carries its options as one number (call_options in struct exec_request). Ranks that give the same
 * options have the same number, so ranks that give different options are found by it (plan/plan.c).
 */
#ifndef COLLET_LAYERS_TUNER_CALL_OPTIONS_H
#define COLLET_LAYERS_TUNER_CALL_OPTIONS_H

#include "plan/choice.h"
#include "plan/limits.h"

struct call_options {
    /* Bit k: algorithm number k of the collective, in the order of algorithms[]. 0: any algorithm. */
    uint32_t algorithms;
    uint32_t protocols; /* Bit p: the protocol with number p in enum protocol. 0: any protocol. */
    int fewest, most;   /* Minimum and maximum number of channels. 0: as for other calls. */
    /* If nothing that the options name is possible, the call fails. False: any algorithm and protocol may then be taken. */
    bool insists;
    /* Kernels do this call, not the copy engines of GPUs, whatever the communicator's policy is. */
    bool by_kernels;
};

/* Packs the options of a call into a word. A word of 0 has no options. */
uint64_t call_options_pack(const struct call_options *options);
struct call_options call_options_unpack(uint64_t packed);

/* Returns the bit of an algorithm in call_options.algorithms. */
uint32_t call_options_bit(const struct algorithm *algorithm);

/* Restricts the limits of a communicator to the options of a call. Error: INVALID_ARGUMENT if the options insist on an
 * algorithm or protocol that is not possible. */
enum collet_result call_options_restrict(const struct call_options *options, enum prog_collective collective,
                                         const struct prog_shape *shape, struct tuner_limits *limits);

/* Reduces the number of channels of a choice on host memory if the call has few bytes, but not below `fewest` of the
 * options. */
enum collet_result call_options_spare(const struct call_options *options, const struct prog_shape *shape,
                                      uint64_t bytes, struct plan_choice *choice);

#endif
