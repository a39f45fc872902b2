/* SPDX-License-Identifier: Apache-2.0
 *
 * All ranks of one communicator in this process, down to what a GPU's kernel is given: programs bound to connections, whose
 * positions stay in memory from call to call. Each test chooses how a call is run.
 *
 *    gang_init ─▶ gang_launch ─▶ (lanes, a machine, or the host run the launch) ─▶ … ─▶ gang_fini
 */
#ifndef COLLET_TESTS_GANG_H
#define COLLET_TESTS_GANG_H

#include "common/trial.h"
#include "exec/exec.h"
#include "kernels/work.h"

struct gang_wire {
    int from, to, channel, lane;
    void *memory;
    uint64_t *head; /* beside it: a producer on a GPU has it there */
    struct fifo_end producer, consumer;
};

struct gang {
    const struct algorithm *algorithm;
    struct prog_shape shape;
    int nchannels;
    uint32_t lends_from; /* blocks lend payloads of so many bytes (layers/memory/loan.h); 0: none */
    struct fifo_layout layout;
    struct config config;
    struct gang_wire *wires;
    int nwires, wires_room;
    struct prog **progs;
    struct work_block **blocks; /* [rank]: of the workers of channel 0, and of the next ones */
    struct work_status status;
};

struct gang_call {
    size_t count; /* elements */
    enum collet_type type;
    enum collet_op op;
    enum protocol protocol;
    uint32_t lanes, seed; /* lanes 0: by the host executor */
    int root;
};

/* Do flags and positions wrap in gangs that are made next? They do at first. */
extern bool gang_wraps;
void gang_init(struct gang *gang, const struct algorithm *algorithm, int nranks, int root, int nchannels,
               uint32_t lends_from);
void gang_fini(struct gang *gang);
/* One call by all ranks, of which the trials have the buffers, as one launch. */
void gang_launch(struct gang *gang, const struct gang_call *c, const struct trial *trials, struct work_launch *launch);

#endif
