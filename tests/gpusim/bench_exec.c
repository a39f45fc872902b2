/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels ask of the memory system, counted on the simulated machine: per rank and call.
 *
 *    fences       of the system's scope, and releases, which imply one: the lane waits until its stores are everywhere
 *    polls        strong loads; remote: of memory that is not on the lane's GPU, over NVLink or PCI
 *    a wait       polls of one lane at one address
 *    in flight    bytes of a lane's weak loads before it uses the first one
 */
#include "gpusim/stage.h"

#include <stdio.h>
#include <stdlib.h>

#define SKIPPED 77

static const struct scene scenes[] = {
#define SIZES(algorithm, collective, protocol)                                                                         \
    {algorithm, collective, protocol, 4, 4, 2, 128, 4, COLLET_FLOAT32, COLLET_SUM, 0},                                 \
        {algorithm, collective, protocol, 4, 4, 4096, 128, 4, COLLET_FLOAT32, COLLET_SUM, 0},
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
};

static void print_counts(const struct scene *scene) {
    struct gpusim_counts all = {0};
    for (uint32_t gpu = 0; gpu < scene->gpus; gpu++) {
        struct gpusim_counts one;
        gpusim_counts(gpu, &one);
        all.fences[2] += one.fences[2];
        all.barriers += one.barriers;
        all.polls += one.polls;
        all.remote_polls += one.remote_polls;
        all.waits += one.waits;
        all.flights += one.flights;
        all.flight_bytes += one.flight_bytes;
        all.remote_store_bytes += one.remote_store_bytes;
        all.lane_instructions += one.lane_instructions;
    }
    double per = 1.0 / ((double)scene->calls * scene->nranks);
    printf("%-14s %-8s %-7s %8zu %8.1f %8.1f %9.0f %9.0f %7.1f %9.1f %10.0f %12.0f\n",
           prog_facts[scene->collective].name, scene->algorithm, protocol_names[scene->protocol], scene->count * 4,
           (double)all.fences[2] * per, (double)all.barriers * per, (double)all.polls * per,
           (double)all.remote_polls * per, all.waits ? (double)all.polls / (double)all.waits : 0,
           all.flights ? (double)all.flight_bytes / (double)all.flights : 0, (double)all.remote_store_bytes * per,
           (double)all.lane_instructions * per);
}

int main(void) {
    if (!stage_objects()) {
        printf("skipped: this build has no kernels for GPUs\n");
        return SKIPPED;
    }
    printf(
        "per rank and call; 4 ranks on 4 GPUs, 2 channels, 128 lanes\n%-14s %-8s %-7s %8s %8s %8s %9s %9s %7s %9s %10s %12s\n",
        "collective", "by", "in", "bytes", "fences", "barriers", "polls", "remote", "a wait", "in flight", "B to peers",
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
        print_counts(&scenes[k]);
        stage_end(&stage);
    }
    return 0;
}
