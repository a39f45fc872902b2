/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that ship, in the PTX that nvcc made of them, on the simulated machine: whole collectives of ranks on several
 * GPUs. And mutations: a fence, a volatile, a convergence or an access right is taken away, and the collectives must fail.
 *
 *    test_exec                       the unmutated kernels under a few seeds (make test)
 *    test_exec lines                 instructions for lines of LL128 alone
 *    test_exec SEEDS RUNS [FIRST]    each mutation under SEEDS seeds (0: none), the unmutated kernels under RUNS from seed FIRST on
 *                                    (0: none): `2 0` in make test-gpu-sim, `20 1000` in make test-gpu-sim-full
 */
#include "gpusim/stage.h"
#include "layers/tuner/costs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIPPED 77
#define PROGRESS_RUNS 100 /* a line */
#define LL128_INSTRUCTIONS 670
#define LL_PEER_INSTRUCTIONS 150

enum {
    SIMPLE,
    LL,
    LL128,
    ONE_GPU,
    BYTES,
    EIGHT,
    EIGHT_LL128,
    LENT,
    LENT_SUM,
    LONG_LL128,
    IN_PLACE_LENT,
    PUSHED,
    FEW,
    FEW_IN_PLACE
};
static const struct scene scenes[] = {
    [SIMPLE] = {"ring", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 3, 3, 3000, 96, 3, COLLET_FLOAT32, COLLET_SUM, 0, false},
    [LL] = {"ring", PROG_ALLREDUCE, PROTOCOL_LL, 3, 3, 1500, 96, 3, COLLET_FLOAT32, COLLET_SUM, 0, false},
    [LL128] = {"ring", PROG_ALLREDUCE, PROTOCOL_LL128, 3, 3, 1500, 96, 3, COLLET_FLOAT32, COLLET_SUM, 0, false},
    [ONE_GPU] = {"ring", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 3, 1, 1000, 64, 5, COLLET_FLOAT32, COLLET_SUM, 0, false},
    [BYTES] = {"direct", PROG_ALLGATHER, PROTOCOL_SIMPLE, 3, 2, 900, 64, 3, COLLET_FLOAT32, COLLET_SUM, 0, false},
    [EIGHT] = {"oneshot", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 8, 8, 600, 64, 2, COLLET_FLOAT32, COLLET_SUM, 0, false},
    [EIGHT_LL128] = {"ring", PROG_ALLREDUCE, PROTOCOL_LL128, 8, 8, 600, 64, 2, COLLET_FLOAT32, COLLET_SUM, 0, false},
    [LENT] = {"ring", PROG_ALLGATHER, PROTOCOL_SIMPLE, 3, 3, 900, 64, 3, COLLET_FLOAT32, COLLET_SUM, 64, false},
    [LENT_SUM] = {"twoshot", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 4, 4, 1500, 64, 3, COLLET_FLOAT32, COLLET_SUM, 64, false},
    [LONG_LL128] = {"ring", PROG_ALLGATHER, PROTOCOL_LL128, 3, 3, 3800, 64, 2, COLLET_FLOAT32, COLLET_SUM, 0, false},
    [IN_PLACE_LENT] = {"oneshot", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 4, 4, 1500, 64, 3, COLLET_FLOAT32, COLLET_SUM, 64,
                       true},
    [PUSHED] = {"twoshot", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 4, 1, 1500, 64, 3, COLLET_FLOAT32, COLLET_SUM, 64, true},
    [FEW] = {"oneshot", PROG_ALLREDUCE, PROTOCOL_LL, 5, 5, 99, 128, 40, COLLET_FLOAT32, COLLET_SUM, 0, false},
    [FEW_IN_PLACE] = {"twoshot", PROG_ALLREDUCE, PROTOCOL_LL, 4, 2, 150, 128, 40, COLLET_FLOAT32, COLLET_AVG, 0, true},
    {"oneshot", PROG_ALLREDUCE, PROTOCOL_LL, 8, 1, 1, 64, 40, COLLET_FLOAT32, COLLET_SUM, 0, true},
    {"direct", PROG_ALLGATHER, PROTOCOL_LL, 4, 4, 60, 96, 40, COLLET_FLOAT32, COLLET_SUM, 0, true},
    {"oneshot", PROG_ALLREDUCE, PROTOCOL_LL, 4, 4, 3000, 128, 3, COLLET_FLOAT32, COLLET_SUM, 0, true},
    {"twoshot", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 3, 1, 1499, 96, 3, COLLET_FLOAT32, COLLET_AVG, 64, false},
    {"oneshot", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 4, 4, 600, 64, 3, COLLET_FLOAT32, COLLET_SUM, 0, true},
    {"twoshot", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 4, 4, 1500, 64, 3, COLLET_FLOAT32, COLLET_SUM, 64, true},
    {"ring", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 3, 3, 1500, 64, 3, COLLET_FLOAT32, COLLET_SUM, 64, true},
};
#define SCENES ((int)(sizeof(scenes) / sizeof(*scenes)))

/* ---- mutations ---- */

struct mutation {
    const char *what;
    int scene;
    enum right right;
    const char *from, *to;
};

static const struct mutation mutations[] = {
    {"the fence of a step is gone", SIMPLE, RIGHTS_ALL, "fence.acq_rel.sys", "//"},
    {"the fence is gone on one GPU", ONE_GPU, RIGHTS_ALL, "fence.acq_rel.sys", "//"},
    {"the fence is for the GPU alone", SIMPLE, RIGHTS_ALL, "fence.acq_rel.sys", "fence.acq_rel.gpu"},
    {"the fence is for the block alone", ONE_GPU, RIGHTS_ALL, "fence.acq_rel.sys", "fence.acq_rel.cta"},
    {"acquire becomes relaxed", SIMPLE, RIGHTS_ALL, "ld.acquire.sys.", "ld.relaxed.sys."},
    {"acquire becomes weak", SIMPLE, RIGHTS_ALL, "ld.acquire.sys.", "ld."},
    {"acquire for the block alone", SIMPLE, RIGHTS_ALL, "ld.acquire.sys.", "ld.acquire.cta."},
    {"acquire becomes relaxed on one GPU", ONE_GPU, RIGHTS_ALL, "ld.acquire.sys.", "ld.relaxed.sys."},
    {"no convergence before LL128 lines", LL128, RIGHTS_ALL, "bar.warp.sync", "//"},
    {"stores of LL128 lines become weak", LL128, RIGHTS_ALL, "st.relaxed.sys.global.v2", "st.global.v2"},
    {"the fence is gone where it is one for seven peers", EIGHT, RIGHTS_ALL, "fence.acq_rel.sys", "//"},
    {"barriers are gone", SIMPLE, RIGHTS_ALL, "bar.sync", "//"},
    {"barriers that reduce are gone", BYTES, RIGHTS_ALL, "bar.red.or.pred", "or.pred"},
    {"barriers that reduce are gone in LL", LL, RIGHTS_ALL, "bar.red.or.pred", "or.pred"},
    {"barriers are gone in LL", FEW_IN_PLACE, RIGHTS_ALL, "bar.sync", "//"},
    {"barriers that reduce are gone where peers are several", FEW, RIGHTS_ALL, "bar.red.or.pred", "or.pred"},
    {"no access to peers", SIMPLE, RIGHTS_NO_PEERS, "", ""},
    {"access to peers in one direction alone", LL, RIGHTS_WRONG_WAY, "", ""},
    {"peers may read slots, but not write them", BYTES, RIGHTS_SLOTS_READ_ONLY, "", ""},
    {"peers may read heads, but not write them", SIMPLE, RIGHTS_HEADS_READ_ONLY, "", ""},
    {"slots are freed while they are used", LL128, RIGHTS_FREED, "", ""},
    {"the fence before a payload is lent is gone", LENT, RIGHTS_ALL, "fence.acq_rel.sys", "//"},
    {"no access to buffers that are lent", LENT, RIGHTS_LOANS, "", ""},
    {"the fence behind results that are pushed is gone", PUSHED, RIGHTS_ALL, "fence.acq_rel.sys", "//"},
    {"no access to buffers where results are pushed", LENT_SUM, RIGHTS_LOANS, "", ""},
    {"one-shot in place lends what it overwrites", IN_PLACE_LENT, RIGHTS_IN_PLACE, "", ""},
};
#define MUTATIONS ((int)(sizeof(mutations) / sizeof(*mutations)))

static int failures_of(const struct mutation *mutation, int seeds, char *why) {
    struct stage stage;
    int failures = 0;
    gpusim_mutate(*mutation->from != '\0' ? mutation->from : NULL, mutation->to);
    bool loaded = stage_begin(&stage, &scenes[mutation->scene], mutation->right);
    gpusim_mutate(NULL, NULL);
    if (!loaded)
        snprintf(why, STAGE_WHY_BYTES, "not loaded: %s", gpusim_error());
    for (int seed = 0; seed < seeds && loaded; seed++)
        failures += !stage_run(&stage, (uint32_t)seed, why);
    stage_end(&stage);
    return failures;
}

/* Each must fail under 19 of 20 seeds; where there are fewer seeds, under one: chance must not decide about a test. */
static bool mutations_fail(int seeds) {
    bool good = true;
    for (int k = 0; k < MUTATIONS; k++) {
        char why[STAGE_WHY_BYTES] = "";
        int failures = failures_of(&mutations[k], seeds, why);
        bool enough = seeds < 20 ? failures > 0 : failures * 20 >= seeds * 19;
        printf("%s %-42s failed under %d of %d seeds: %.100s\n", enough ? "ok    " : "NOT OK", mutations[k].what,
               failures, seeds, why);
        fflush(stdout);
        good &= enough;
    }
    return good;
}

static bool kernels_pass(int runs, int first) {
    bool good = true;
    for (int k = 0; k < SCENES; k++) {
        char why[STAGE_WHY_BYTES] = "";
        struct stage stage;
        int passed = 0;
        if (!stage_begin(&stage, &scenes[k], RIGHTS_ALL)) {
            printf("NOT OK %s\n", gpusim_error());
            return false;
        }
        for (int seed = first; seed < first + runs; seed++) {
            if (stage_run(&stage, (uint32_t)seed, why))
                passed++;
            else
                printf("NOT OK seed %d: %s\n", seed, why);
            if ((seed - first) % PROGRESS_RUNS == PROGRESS_RUNS - 1) {
                printf("       %d runs\n", seed - first + 1);
                fflush(stdout);
            }
        }
        printf("%s %s %s, %s, on %u GPUs%s%s: %d of %d runs passed\n", passed == runs ? "ok    " : "NOT OK",
               prog_facts[scenes[k].collective].name, scenes[k].algorithm, protocol_names[scenes[k].protocol],
               scenes[k].gpus, scenes[k].in_place ? ", in place" : "", scenes[k].lends_from > 0 ? ", lent" : "", passed,
               runs);
        fflush(stdout);
        good &= passed == runs;
        stage_end(&stage);
    }
    return good;
}

/* Each kernel that the objects have, once. */
static bool types_pass(void) {
    int passed = 0, failed = 0;
    for (int op = 0; op < COLLET_OP_COUNT; op++)
        for (int type = 0; type < COLLET_TYPE_COUNT; type++) {
            struct scene scene = scenes[SIMPLE];
            struct stage stage;
            char why[STAGE_WHY_BYTES];
            scene.type = (enum collet_type)type;
            scene.op = (enum collet_op)op;
            scene.count = 300;
            scene.calls = 1;
            if (!op_takes(scene.op, scene.type) || !stage_begin(&stage, &scene, RIGHTS_ALL))
                continue;
            bool good = stage_run(&stage, 1, why);
            passed += good;
            failed += !good;
            if (!good)
                printf("NOT OK %s of %s: %s\n", op_name(scene.op), type_name(scene.type), why);
            stage_end(&stage);
        }
    printf("%s %d combinations of type and operator\n", failed == 0 ? "ok    " : "NOT OK", passed);
    return failed == 0;
}

/* What the cost model has a price for: one fence of the system per step of plain payload, none per step in lines; beside a fence, the
 * load of the next slot; two lines of LL128 under way where a slot has as many for each lane; no look at memory of another GPU.
 * oneshot has two steps. */
static bool counts_are_as_priced(void) {
    static const struct {
        int scene;
        uint64_t steps; /* of all ranks, channels and calls */
        size_t count;   /* in place of the scene's */
        double lines;   /* that a lane has under way, at least */
    } cases[] = {{EIGHT, 8 * STAGE_CHANNELS * 2 * 2, 600, 1},
                 {LL, 0, 1500, 1},
                 {EIGHT_LL128, 0, 600, 1},
                 {LONG_LL128, 0, 3840, 1.9}};
    bool good = true;
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct scene scene = scenes[cases[k].scene];
        char why[STAGE_WHY_BYTES];
        struct stage stage;
        scene.count = cases[k].count;
        snprintf(why, sizeof(why), "it cannot begin");
        if (!stage_begin(&stage, &scene, RIGHTS_ALL) || !stage_run(&stage, 1, why)) {
            printf("NOT OK %s, %s: %s\n", scene.algorithm, protocol_names[scene.protocol], why);
            return false;
        }
        struct gpusim_counts counts = stage_counts(&stage);
        double lines = (double)counts.polls / (double)counts.looks;
        bool beside = cases[k].steps == 0 || counts.beside > 0;
        bool fenced = costs_default.step[LINK_GPU_NVLINK][scene.protocol].fence_ns > 0;
        bool priced = counts.fences[2] == cases[k].steps && fenced == (cases[k].steps > 0) && lines >= cases[k].lines &&
                      beside && counts.peer_polls == 0;
        printf(
            "%s %s, %s: %llu fences of %llu steps with plain payload, %llu bytes loaded beside them, %.2f polls at once, %llu "
            "of other GPUs\n",
            priced ? "ok    " : "NOT OK", scene.algorithm, protocol_names[scene.protocol],
            (unsigned long long)counts.fences[2], (unsigned long long)cases[k].steps, (unsigned long long)counts.beside,
            lines, (unsigned long long)counts.peer_polls);
        good &= priced;
        stage_end(&stage);
    }
    return good;
}

/* How often a payload of four ranks on one GPU passes memory: each rank reads and writes it once, if payloads are read where they are and
 * results are pushed. Slots here are so short that their headers are an eighth of that. */
static bool passes_are_few(void) {
    static const struct {
        const char *algorithm;
        uint32_t lends_from;
        double least, most;
    } cases[] = {{"ring", 0, 20, 21.5}, {"twoshot", 0, 20, 21.5}, {"ring", 64, 15, 16.7}, {"twoshot", 64, 8, 9.4}};
    bool good = true;
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        const struct scene scene = {cases[k].algorithm, PROG_ALLREDUCE, PROTOCOL_SIMPLE,     4,    1, 65536, 128, 1,
                                    COLLET_FLOAT32,     COLLET_SUM,     cases[k].lends_from, false};
        char why[STAGE_WHY_BYTES] = "it cannot begin";
        struct stage stage;
        const bool ran = stage_begin(&stage, &scene, RIGHTS_ALL) && stage_run(&stage, 1, why);
        const double passes = ran ? stage_passes(&stage) : 0;
        const bool few = passes >= cases[k].least && passes <= cases[k].most;
        printf("%s allreduce %s of 4 ranks on a GPU%s: the payload passes memory %.1f times%s%s\n",
               few ? "ok    " : "NOT OK", scene.algorithm, scene.lends_from > 0 ? ", lent" : "", passes,
               ran ? "" : ": ", ran ? "" : why);
        good &= few;
        stage_end(&stage);
    }
    return good;
}

/* Bytes that a lane has under way before it uses the first one, in the mean of all its loads: those of headers, too. A step of one-shot has
 * four sources here, whose vectors are all loaded first. Where one source was loaded while another was added, it was 15. */
static bool sources_are_loaded_at_once(void) {
    const struct scene scene = {"oneshot", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 4, 4,    32768, 128,
                                1,         COLLET_FLOAT32, COLLET_SUM,      0, false};
    char why[STAGE_WHY_BYTES] = "it cannot begin";
    struct stage stage;
    const bool ran = stage_begin(&stage, &scene, RIGHTS_ALL) && stage_run(&stage, 1, why);
    const struct gpusim_counts counts = stage_counts(&stage);
    const double flight = ran ? (double)counts.flight_bytes / (double)counts.flights : 0;
    const bool good = flight >= 20;
    printf("%s a step of four sources: %.1f bytes of a lane under way%s%s\n", good ? "ok    " : "NOT OK", flight,
           ran ? "" : ": ", ran ? "" : why);
    stage_end(&stage);
    return good;
}

/* Runs a scene once. False: it failed. */
static bool counts_of(const struct scene *scene, struct gpusim_counts *counts) {
    char why[STAGE_WHY_BYTES] = "it cannot begin";
    struct stage stage;
    const bool ran = stage_begin(&stage, scene, RIGHTS_ALL) && stage_run(&stage, 1, why);
    *counts = stage_counts(&stage);
    if (!ran)
        printf("NOT OK %s\n", why);
    stage_end(&stage);
    return ran;
}

/* Instructions of a warp and step for so many times 16 lines, and those around them: of an allreduce by a ring of three ranks, whose blocks
 * are one warp. It has 5 steps. Buffers are aligned to their elements, and not to words. */
static double lines_instructions(size_t sixteens) {
    const size_t elems = sixteens * 480;
    const struct scene scene = {"ring", PROG_ALLREDUCE, PROTOCOL_LL128, 3, 3,    elems * STAGE_CHANNELS * 3, 32,
                                1,      COLLET_FLOAT32, COLLET_SUM,     0, false};
    struct gpusim_counts counts;
    return counts_of(&scene, &counts) ? (double)counts.lane_work.instructions / 32 / (double)counts.blocks / 5 : -1;
}

/* What is counted is a slope: what 16 lines more take, so without what a step takes anyway. */
static bool lines_take_few_instructions(void) {
    gpusim_chains(true);
    const double one = lines_instructions(1), two = lines_instructions(2), per_960 = (two - one) / 2;
    gpusim_chains(false);
    const bool good = one > 0 && two > one && per_960 <= LL128_INSTRUCTIONS;
    printf("%s a warp takes %.0f instructions for 960 bytes of LL128, at most %d\n", good ? "ok    " : "NOT OK",
           per_960, LL128_INSTRUCTIONS);
    return good;
}

/* Instructions of a block and call: one-shot in LL, 16 lines from each peer. Of the lane for which the others wait. */
static double oneshot_instructions(int nranks) {
    const struct scene scene = {"oneshot",        PROG_ALLREDUCE,      PROTOCOL_LL, nranks,
                                (uint32_t)nranks, 32 * STAGE_CHANNELS, 128,         1,
                                COLLET_FLOAT32,   COLLET_SUM,          0,           false};
    struct gpusim_counts counts;
    return counts_of(&scene, &counts) ? (double)counts.chain.instructions / (double)counts.blocks : -1;
}

/* Each line of each peer has a lane of its own, so a peer more takes little. Where each lane went from peer to peer, it was 800. */
static bool peers_take_few_instructions(void) {
    gpusim_chains(true);
    gang_wraps = false; /* a slot that gets lines behind its payload takes more */
    const double three = oneshot_instructions(3), seven = oneshot_instructions(7), peer = (seven - three) / 4;
    gang_wraps = true;
    gpusim_chains(false);
    const bool good = three > 0 && seven > 0 && peer <= LL_PEER_INSTRUCTIONS;
    printf("%s a block takes %.0f instructions for a peer more in LL, at most %d\n", good ? "ok    " : "NOT OK", peer,
           LL_PEER_INSTRUCTIONS);
    return good;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "lines") == 0)
        return stage_objects() && (lines_take_few_instructions() & peers_take_few_instructions()) ? 0 : 1;
    int seeds = argc > 1 ? atoi(argv[1]) : 0, runs = argc > 2 ? atoi(argv[2]) : 4, first = argc > 3 ? atoi(argv[3]) : 0;
    if (!stage_objects()) {
        printf("skipped: this build has no kernels for GPUs\n");
        return SKIPPED;
    }
    bool kernels =
        runs == 0 || (types_pass() & counts_are_as_priced() & passes_are_few() & sources_are_loaded_at_once() &
                      lines_take_few_instructions() & peers_take_few_instructions() & kernels_pass(runs, first));
    bool mutants = seeds == 0 || mutations_fail(seeds);
    return kernels && mutants ? 0 : 1;
}
