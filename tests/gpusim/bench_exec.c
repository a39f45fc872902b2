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
 *
 * How often a payload passes memory, in a table of its own: bytes that lanes of all ranks of one GPU load and store, in multiples of
 * what a rank has.
 *
 * And what a block's books take, in another one. The lines are differences: a step is what a ring of 8 ranks takes more than
 * one of 3, by its steps more; a peer is the same of one-shot, a KB the same of longer slices. What is left is a launch: how a block
 * comes and goes.
 *
 *    instructions of the lane that the others wait for; for a KB of the warp, in a block that is one warp
 *    chain        dependent loads, and those of them that come from outside of the SM (chain.c)
 *    loads …      of all lanes, from and to memory outside of the SM; bytes of both
 */
#include "gpusim/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- passes: of a payload, through memory ---- */

#define PASSED_ELEMS 65536

static bool print_passes_of(const char *algorithm, enum protocol protocol, int nranks, uint32_t lends_from) {
    const struct scene scene = {algorithm, PROG_ALLREDUCE, protocol,   nranks,     1,    PASSED_ELEMS, 128,
                                1,         COLLET_FLOAT32, COLLET_SUM, lends_from, false};
    char why[STAGE_WHY_BYTES] = "";
    struct stage stage;
    bool good = stage_begin(&stage, &scene, RIGHTS_ALL) && stage_run(&stage, 1, why);
    if (good)
        printf("%-9s %-7s %5d %s %8.1f\n", algorithm, protocol_names[protocol], nranks,
               lends_from > 0 ? "lent" : "    ", stage_passes(&stage));
    else
        printf("%s: %s\n", algorithm, stage.kernel == NULL ? gpusim_error() : why);
    stage_end(&stage);
    return good;
}

static bool print_passes(void) {
    static const char *const algorithms[] = {"ring", "tree", "oneshot", "twoshot"};
    bool good = true;
    printf("\nallreduce of ranks on one GPU\n%-9s %-7s %5s %4s %8s\n", "by", "in", "ranks", "", "passes");
    for (int nranks = 2; nranks <= 8; nranks *= 2)
        for (size_t k = 0; k < sizeof(algorithms) / sizeof(*algorithms); k++)
            for (uint32_t lends_from = 0; lends_from <= 64; lends_from += 64)
                good &= print_passes_of(algorithms[k], PROTOCOL_SIMPLE, nranks, lends_from);
    return good;
}

/* ---- books: of a block, in a call ---- */

struct books {
    double instructions, chain, far, warp_instructions, loads, stores, bytes;
};

static struct books books_of(const struct stage *stage) {
    struct gpusim_counts all = stage_counts(stage);
    double per = 1.0 / (double)all.blocks;
    return (struct books){(double)all.chain.instructions * per,
                          (double)all.chain.all * per,
                          (double)all.chain.far * per,
                          (double)all.lane_work.instructions * per / 32,
                          (double)all.lane_work.loads * per,
                          (double)all.stores * per,
                          (double)(all.lane_work.load_bytes + all.store_bytes) * per};
}

/* a − factor · b, by so many. */
static struct books books_less(struct books a, double factor, struct books b, double by) {
    return (struct books){(a.instructions - factor * b.instructions) / by,
                          (a.chain - factor * b.chain) / by,
                          (a.far - factor * b.far) / by,
                          (a.warp_instructions - factor * b.warp_instructions) / by,
                          (a.loads - factor * b.loads) / by,
                          (a.stores - factor * b.stores) / by,
                          (a.bytes - factor * b.bytes) / by};
}

#define SMALL_ELEMS 32 /* of a slice on a channel */
#define LANES 128
#define SEEDS 8 /* the mean of so many runs */

/* Of an allreduce. False: it did not run. */
static bool keep_books(const char *algorithm, enum protocol protocol, int nranks, int nslices, size_t elems,
                       uint32_t lanes, uint32_t lends_from, struct books *books) {
    const struct scene scene = {algorithm,
                                PROG_ALLREDUCE,
                                protocol,
                                nranks,
                                (uint32_t)nranks,
                                elems * STAGE_CHANNELS * (size_t)nslices,
                                lanes,
                                1,
                                COLLET_FLOAT32,
                                COLLET_SUM,
                                lends_from,
                                false};
    char why[STAGE_WHY_BYTES] = "";
    struct stage stage;
    bool good = stage_begin(&stage, &scene, RIGHTS_ALL);
    *books = (struct books){0};
    for (uint32_t seed = 1; seed <= SEEDS && good; seed++) {
        good = stage_run(&stage, seed, why);
        *books = books_less(*books, -1.0 / SEEDS, books_of(&stage), 1);
    }
    if (!good)
        printf("%s: %s\n", algorithm, stage.kernel == NULL ? gpusim_error() : why);
    stage_end(&stage);
    return good;
}

static void print_books(enum protocol protocol, const char *of, struct books b, bool all) {
    printf("%-7s %-7s %12.1f %7.1f %9.1f", protocol_names[protocol], of, b.instructions, b.chain, b.far);
    if (all)
        printf(" %7.0f %7.0f %7.0f", b.loads, b.stores, b.bytes);
    printf("\n");
}

static bool print_books_of(enum protocol protocol) {
    static const size_t large_elems[] = {[PROTOCOL_SIMPLE] = 512, [PROTOCOL_LL] = 256, [PROTOCOL_LL128] = 480};
    const double steps_of_3 = 5, steps_of_8 = 15, kb = (double)(large_elems[protocol] - SMALL_ELEMS) * 4 / 1024;
    struct books three, eight, small, large, few, many;
    if (!keep_books("ring", protocol, 3, 3, SMALL_ELEMS, LANES, 0, &three) ||
        !keep_books("ring", protocol, 8, 8, SMALL_ELEMS, LANES, 0, &eight) ||
        !keep_books("ring", protocol, 3, 3, SMALL_ELEMS, 32, 0, &small) ||
        !keep_books("ring", protocol, 3, 3, large_elems[protocol], 32, 0, &large) ||
        !keep_books("oneshot", protocol, 3, 1, SMALL_ELEMS, LANES, 0, &few) ||
        !keep_books("oneshot", protocol, 7, 1, SMALL_ELEMS, LANES, 0, &many))
        return false;
    struct books step = books_less(eight, 1, three, steps_of_8 - steps_of_3);
    print_books(protocol, "launch", books_less(three, steps_of_3, step, 1), true);
    print_books(protocol, "step", step, false);
    print_books(protocol, "peer", books_less(many, 1, few, 4), false);
    printf("%-7s %-7s %12.1f of the warp\n", protocol_names[protocol], "KB",
           books_less(large, 1, small, kb * steps_of_3).warp_instructions);
    return true;
}

/* A peer more in one-shot, whose payload is read where it is. */
static bool print_books_of_loans(void) {
    struct books one, four;
    if (!keep_books("oneshot", PROTOCOL_SIMPLE, 2, 1, SMALL_ELEMS, LANES, 64, &one) ||
        !keep_books("oneshot", PROTOCOL_SIMPLE, 5, 1, SMALL_ELEMS, LANES, 64, &four))
        return false;
    print_books(PROTOCOL_SIMPLE, "loan", books_less(four, 1, one, 3), false);
    return true;
}

static bool print_all_books(void) {
    printf("\nbooks, of a block and call\n%-7s %-7s %12s %7s %9s %7s %7s %7s\n", "in", "of a", "instructions", "chain",
           "from far", "loads", "stores", "bytes");
    gang_wraps = false; /* calls hardly ever do */
    gpusim_chains(true);
    for (int protocol = 0; protocol < PROTOCOL_COUNT; protocol++)
        if (!print_books_of((enum protocol)protocol))
            return false;
    return print_books_of_loans();
}

int main(int argc, char **argv) {
    if (!stage_objects()) {
        printf("skipped: this build has no kernels for GPUs\n");
        return SKIPPED;
    }
    if (argc > 1 && strcmp(argv[1], "books") == 0)
        return !print_all_books();
    if (argc > 1 && strcmp(argv[1], "passes") == 0)
        return !print_passes();
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
    return !(print_passes() & print_all_books());
}
