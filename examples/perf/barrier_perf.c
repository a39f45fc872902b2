/* SPDX-License-Identifier: Apache-2.0
 *
 * barrier_perf: no rank goes on before every rank has come. A barrier moves no data. So there is one row, of 0 bytes, and only its
 * time has a meaning. nccl-tests has no such program.
 */
#include "perf.h"

static enum collet_result run(const struct perf_call *call) { return collet_barrier(call->comm, call->stream); }

static const struct perf_collective barrier = {
    .program = "barrier_perf",
    .function = "collet_barrier",
    .input = PERF_NOTHING,
    .output = PERF_NOTHING,
    .run = run,
    .bus_factor = perf_bus_factor_one,
};

int main(int argc, char **argv) { return perf_main(&barrier, argc, argv); }
