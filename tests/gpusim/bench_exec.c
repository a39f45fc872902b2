/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels ask of the memory system, counted on the simulated machine: per rank and call.
 *
 *    fences       by scope: block, GPU, system; and releases, which imply one: the lane waits until its stores are there
 *    beside       bytes that a block loads between the barriers around a fence of the system, per fence: while it lasts, they are
 *                 under way
 *    polls        strong loads; remote: of memory that is not on the lane's GPU, over NVLink or PCI
 *    lines        words or lines that a lane polls for at once
 *    looks        of a lane, until all that it polls for has come
 *    in flight    bytes of a lane's loads before it uses the first one
 */
#include "gpusim/stage.h"

#include <stdio.h>
#include <stdlib.h>

#define SKIPPED 77

static const struct scene scenes[] = {
#define SIZES(algorithm, collective, protocol)                                                                         \
    {algorithm, collective, protocol, 4, 4, 2, 128, 4, COLLET_FLOAT32, COLLET_SUM, 0, false},                          \
        {algorithm, collective, protocol, 4, 4, 4096, 128, 4, COLLET_FLOAT32, COLLET_SUM, 0, false},                   \
        {algorithm, collective, protocol, 4, 4, 32768, 128, 1, COLLET_FLOAT32, COLLET_SUM, 0, false},
#define PROTOCOLS_OF(algorithm, collective)                                                                            \
    SIZES(algorithm, collective, PROTOCOL_SIMPLE)                                                                      \
    SIZES(algorithm, collective, PROTOCOL_LL) SIZES(algorithm, collective, PROTOCOL_LL128)
    PROTOCOLS_OF("ring", PROG_ALLREDUCE)     /* */
    PROTOCOLS_OF("tree", PROG_ALLREDUCE)     /* */
    PROTOCOLS_OF("oneshot", PROG_ALLREDUCE)  /* */
    PROTOCOLS_OF("twoshot", PROG_ALLREDUCE)  /* */
    PROTOCOLS_OF("ring", PROG_ALLGATHER)     /* */
    PROTOCOLS_OF("ring", PROG_REDUCESCATTER) /* */
    PROTOCOLS_OF("direct", PROG_ALLTOALL)    /* */
    PROTOCOLS_OF("halving", PROG_ALLREDUCE)  /* */
    PROTOCOLS_OF("chain", PROG_BROADCAST)    /* */
    PROTOCOLS_OF("chain", PROG_REDUCE)       /* */
#define LENT(algorithm, collective, count)                                                                             \
    {algorithm, collective, PROTOCOL_SIMPLE, 4, 4, count, 128, 1, COLLET_FLOAT32, COLLET_SUM, 64, false},
    LENT("oneshot", PROG_ALLREDUCE, 4096) LENT("oneshot", PROG_ALLREDUCE, 32768) /* */
    LENT("twoshot", PROG_ALLREDUCE, 4096) LENT("twoshot", PROG_ALLREDUCE, 32768) /* */
    LENT("ring", PROG_ALLGATHER, 4096) LENT("ring", PROG_ALLGATHER, 32768)       /* */
};

static double ratio(uint64_t a, uint64_t b) { return b == 0 ? 0 : (double)a / (double)b; }

static void print_counts(const struct stage *stage) {
    const struct scene *scene = stage->scene;
    struct gpusim_counts all = stage_counts(stage);
    double per = 1.0 / ((double)scene->calls * scene->nranks);
    char fences[64], by[32];
    snprintf(fences, sizeof(fences), "%.0f/%.0f/%.1f", (double)all.fences[0] * per, (double)all.fences[1] * per,
             (double)all.fences[2] * per);
    snprintf(by, sizeof(by), "%s%s", scene->algorithm, scene->lends_from > 0 ? ", lent" : "");
    printf("%-14s %-13s %-7s %8zu %12s %8.1f %7.0f %9.0f %9.0f %6.1f %7.1f %9.1f %10.0f %12.0f\n",
           prog_facts[scene->collective].name, by, protocol_names[scene->protocol], scene->count * 4, fences,
           (double)all.barriers * per, ratio(all.beside, all.fences[2]), (double)all.polls * per,
           (double)all.remote_polls * per, ratio(all.polls, all.looks), ratio(all.looks, all.waits),
           ratio(all.flight_bytes, all.flights), (double)all.remote_store_bytes * per,
           (double)all.lane_instructions * per);
}

int main(void) {
    if (!stage_objects()) {
        printf("skipped: this build has no kernels for GPUs\n");
        return SKIPPED;
    }
    printf("per rank and call; 4 ranks on 4 GPUs, 2 channels, 128 lanes; fences of block/GPU/system\n");
    printf("%-14s %-13s %-7s %8s %12s %8s %7s %9s %9s %6s %7s %9s %10s %12s\n", "collective", "by", "in", "bytes",
           "fences", "barriers", "beside", "polls", "remote", "lines", "looks", "in flight", "B to peers",
           "instructions");
    for (size_t k = 0; k < sizeof(scenes) / sizeof(*scenes); k++) {
        char why[STAGE_WHY_BYTES];
        struct stage stage;
        if (algorithm_find(scenes[k].collective, scenes[k].algorithm) == NULL)
            continue;
        if (!stage_begin(&stage, &scenes[k], RIGHTS_ALL) || !stage_run(&stage, 1, why)) {
            printf("%s: %s\n", scenes[k].algorithm, stage.kernel == NULL ? gpusim_error() : why);
            return 1;
        }
        print_counts(&stage);
        stage_end(&stage);
    }
    return 0;
}
