/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels that ship, in the PTX that nvcc made of them, on the simulated machine: whole collectives of ranks on several
 * GPUs. And mutations: a fence, a volatile, a convergence or an access right is taken away, and the collectives must fail.
 *
 *    test_exec                  the unmutated kernels, and each mutation, under a few seeds
 *    test_exec SEEDS RUNS       each mutation under SEEDS seeds, the unmutated kernels under RUNS
 *
 * The library whose kernels are run is $BUILD/lib/libcollet.so; GPUSIM_OBJECTS names others, with spaces between them.
 */
#include "common/gang.h"
#include "gpusim/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS 3
#define SKIPPED 77
#define WHY_BYTES 512

static struct objects objects;

/* ---- the memory that kernels touch ---- */

/* Ranges of the host's heap that kernels read and write: what the library has in a GPU's memory, for this test in pinned
 * memory; but slots, counters and buffers are on the GPU of their rank. */
static void host_range(const void *memory, size_t bytes) {
    if (bytes > 0 && !gpusim_range_add((void *)memory, bytes, GPUSIM_HOST_MEMORY, 0)) {
        fprintf(stderr, "%s\n", gpusim_error());
        exit(1);
    }
}

static void channel_ranges(const struct work_channel *channel, const struct prog *prog) {
    host_range(channel->steps, (size_t)prog->nsteps * sizeof(*channel->steps));
    host_range(channel->locals, (size_t)prog->nlocals * sizeof(*channel->locals));
    host_range(channel->peers, (size_t)prog->npeers * sizeof(*channel->peers));
}

static void bound_ranges(const struct work_channel *channel, const struct prog *prog) {
    host_range(channel->recv_ends, ((size_t)channel->npeers + 1) * sizeof(*channel->recv_ends));
    host_range(channel->send_ends, ((size_t)channel->npeers + 1) * sizeof(*channel->send_ends));
    host_range(channel->workers, channel->nworkers * sizeof(*channel->workers));
    host_range(channel->lists, (size_t)channel->nworkers * channel->list_entries * sizeof(void *));
    host_range(channel->memory.tmp, (size_t)prog->ntmp * channel->memory.tmp_stride + 1);
}

static void gang_ranges(const struct gang *gang, uint32_t gpus, enum gpusim_kind kind_of_slots) {
    host_range(gang->wires, (size_t)gang->wires_room * sizeof(*gang->wires));
    host_range(gang->programs, (size_t)gang->shape.nranks * sizeof(*gang->programs));
    host_range(&gang->status, sizeof(gang->status));
    for (int rank = 0; rank < gang->shape.nranks; rank++) {
        const struct work_channel *channels = gang->programs[rank].channels;
        host_range(channels, (size_t)gang->nchannels * sizeof(*channels));
        channel_ranges(&channels[0], gang->progs[rank]);
        for (int c = 0; c < gang->nchannels; c++)
            bound_ranges(&channels[c], gang->progs[rank]);
    }
    for (int k = 0; k < gang->nwires; k++)
        gpusim_range_add(gang->wires[k].memory, gang->layout.total_bytes, kind_of_slots,
                         (uint32_t)gang->wires[k].to % gpus);
}

static void trial_ranges(const struct trial *trial, uint32_t gpu) {
    const struct guard *guards[] = {&trial->in.guard, &trial->out.guard};
    for (int k = 0; k < 2; k++)
        if (guards[k]->memory != NULL && guards[k]->total_bytes > 0)
            gpusim_range_add(guards[k]->memory, guards[k]->total_bytes, GPUSIM_DEVICE_MEMORY, gpu);
}

/* ---- a run: some calls on the same connections ---- */

struct scene {
    const char *algorithm;
    enum prog_collective collective;
    enum protocol protocol;
    uint32_t gpus;
    size_t count;
    uint32_t lanes;
};

enum { SIMPLE, LL, LL128, ONE_GPU, BYTES, SCENES };
static const struct scene scenes[SCENES] = {
    [SIMPLE] = {"ring", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 3, 3000, 96},
    [LL] = {"ring", PROG_ALLREDUCE, PROTOCOL_LL, 3, 1500, 96},
    [LL128] = {"ring", PROG_ALLREDUCE, PROTOCOL_LL128, 3, 1500, 96},
    [ONE_GPU] = {"ring", PROG_ALLREDUCE, PROTOCOL_SIMPLE, 1, 1000, 64},
    [BYTES] = {"direct", PROG_ALLGATHER, PROTOCOL_SIMPLE, 2, 900, 64},
};
#define CALLS 3

enum right { RIGHTS_ALL, RIGHTS_NO_PEERS, RIGHTS_WRONG_WAY, RIGHTS_READ_ONLY, RIGHTS_FREED };

struct stage {
    const struct scene *scene;
    enum right right;
    struct gpusim_module *module;
    const struct gpusim_kernel *kernel;
};

/* With the mutation that is set. */
static bool stage_begin(struct stage *stage, const struct scene *scene, enum right right) {
    char name[256], part[64] = "run_launchI7copying";
    if (prog_facts[scene->collective].reduces)
        snprintf(part, sizeof(part), "run_launchI9reductionILi%dELi%dE", (int)COLLET_FLOAT32, (int)COLLET_SUM);
    const char *text = objects_find(&objects, part, name, sizeof(name));
    *stage = (struct stage){.scene = scene, .right = right};
    if (text == NULL)
        return false;
    stage->module = gpusim_module_load(text);
    stage->kernel = gpusim_kernel(stage->module, name);
    return stage->kernel != NULL;
}

static void stage_end(struct stage *stage) { gpusim_module_unload(stage->module); }

static void give_rights(const struct stage *stage, const struct gang *gang) {
    for (uint32_t device = 0; device < stage->scene->gpus; device++)
        for (uint32_t owner = 0; owner < stage->scene->gpus; owner++)
            if (stage->right != RIGHTS_NO_PEERS && (stage->right != RIGHTS_WRONG_WAY || device < owner))
                gpusim_peer_access(device, owner, true);
    for (int k = 0; k < gang->nwires && stage->right == RIGHTS_READ_ONLY; k++)
        gpusim_range_grant(gang->wires[k].memory, (uint32_t)gang->wires[k].from % stage->scene->gpus, true, false);
    if (stage->right == RIGHTS_FREED)
        gpusim_range_free(gang->wires[0].memory);
}

/* A run that takes longer hangs: one that ends takes a tenth of it. */
#define STRETCHES 3000
#define STRETCH_INSTRUCTIONS 5000

static bool grids_end(struct gpusim_grid *const *grids, uint32_t n) {
    for (int k = 0; k < STRETCHES; k++) {
        uint32_t done = 0;
        gpusim_run(STRETCH_INSTRUCTIONS);
        for (uint32_t rank = 0; rank < n; rank++) {
            done += gpusim_grid_done(grids[rank]);
            if (gpusim_grid_fault(grids[rank]) != NULL)
                return true;
        }
        if (done == n)
            return true;
    }
    return false;
}

/* Every rank's work as a grid of its own GPU. False: why says what failed. */
static bool run_ranks(const struct stage *stage, struct gang *gang, const struct work_launch *launch, char *why) {
    struct gpusim_grid *grids[RANKS];
    uint32_t n = launch->nworks;
    for (uint32_t rank = 0; rank < n; rank++) {
        struct work_launch own = {.nworks = 1};
        own.works[0] = launch->works[rank];
        grids[rank] =
            gpusim_grid_start(rank % stage->scene->gpus, stage->kernel, (struct gpusim_dim){own.works[0].nblocks, 1, 1},
                              (struct gpusim_dim){stage->scene->lanes, 1, 1}, 0, &own);
    }
    snprintf(why, WHY_BYTES, "%s", grids_end(grids, n) ? "" : "the grids do not end");
    if (gang->status.failure != WORK_FINE)
        snprintf(why, WHY_BYTES, "a block reports failure %d", gang->status.failure);
    for (uint32_t rank = 0; rank < n; rank++) {
        if (gpusim_grid_fault(grids[rank]) != NULL)
            snprintf(why, WHY_BYTES, "%s", gpusim_grid_fault(grids[rank]));
        gpusim_grid_free(grids[rank]);
    }
    return *why == '\0';
}

static bool run_call(const struct stage *stage, struct gang *gang, uint32_t seed, char *why) {
    const struct scene *scene = stage->scene;
    struct gang_call c = {scene->count, COLLET_FLOAT32, COLLET_SUM, scene->protocol, scene->lanes, seed, 0};
    struct trial_call call = {scene->collective, COLLET_FLOAT32, COLLET_SUM, scene->count, 0, RANKS, false, seed};
    struct trial trials[RANKS];
    struct work_launch launch;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        trial_prepare(&trials[rank], &call, (int)rank);
        trial_ranges(&trials[rank], rank % scene->gpus);
    }
    gang_launch(gang, &c, trials, &launch);
    bool passed = run_ranks(stage, gang, &launch, why);
    for (int rank = 0; rank < RANKS; rank++) {
        passed = passed && trial_check(&trials[rank], why);
        gpusim_range_free(trials[rank].in.guard.memory);
        gpusim_range_free(trials[rank].out.guard.memory);
        trial_destroy(&trials[rank]);
    }
    return passed;
}

static bool run_seed(const struct stage *stage, uint32_t seed, char *why) {
    struct gang gang;
    bool passed = true;
    gpusim_reset(stage->scene->gpus, NULL, seed);
    gang_init(&gang, algorithm_find(stage->scene->collective, stage->scene->algorithm), RANKS, 0, 2);
    gang_ranges(&gang, stage->scene->gpus, stage->right == RIGHTS_READ_ONLY ? GPUSIM_GRANTED : GPUSIM_DEVICE_MEMORY);
    give_rights(stage, &gang);
    for (uint32_t call = 0; call < CALLS && passed; call++)
        passed = run_call(stage, &gang, seed * CALLS + call + 1, why);
    gang_fini(&gang);
    return passed;
}

/* ---- mutations ---- */

struct mutation {
    const char *what;
    int scene;
    enum right right;
    const char *from, *to;
};

static const struct mutation mutations[] = {
    {"release becomes relaxed", SIMPLE, RIGHTS_ALL, "st.release.sys.", "st.relaxed.sys."},
    {"release becomes weak", SIMPLE, RIGHTS_ALL, "st.release.sys.", "st."},
    {"release for the GPU alone", SIMPLE, RIGHTS_ALL, "st.release.sys.", "st.release.gpu."},
    {"release for the block alone", ONE_GPU, RIGHTS_ALL, "st.release.sys.", "st.release.cta."},
    {"acquire becomes relaxed", SIMPLE, RIGHTS_ALL, "ld.acquire.sys.", "ld.relaxed.sys."},
    {"acquire becomes weak", SIMPLE, RIGHTS_ALL, "ld.acquire.sys.", "ld."},
    {"acquire for the block alone", SIMPLE, RIGHTS_ALL, "ld.acquire.sys.", "ld.acquire.cta."},
    {"acquire becomes relaxed on one GPU", ONE_GPU, RIGHTS_ALL, "ld.acquire.sys.", "ld.relaxed.sys."},
    {"no convergence before LL128 lines", LL128, RIGHTS_ALL, "bar.warp.sync", "//"},
    {"stores of LL128 lines become weak", LL128, RIGHTS_ALL, "st.relaxed.sys.global.v2", "st.global.v2"},
    {"barriers are gone", SIMPLE, RIGHTS_ALL, "bar.sync", "//"},
    {"barriers that reduce are gone", BYTES, RIGHTS_ALL, "bar.red.or.pred", "or.pred"},
    {"barriers that reduce are gone in LL", LL, RIGHTS_ALL, "bar.red.or.pred", "or.pred"},
    {"no access to peers", SIMPLE, RIGHTS_NO_PEERS, "", ""},
    {"access to peers in one direction alone", LL, RIGHTS_WRONG_WAY, "", ""},
    {"peers may read slots, but not write them", BYTES, RIGHTS_READ_ONLY, "", ""},
    {"slots are freed while they are used", LL128, RIGHTS_FREED, "", ""},
};
#define MUTATIONS ((int)(sizeof(mutations) / sizeof(*mutations)))

static int failures_of(const struct mutation *mutation, int seeds, char *why) {
    struct stage stage;
    int failures = 0;
    gpusim_mutate(*mutation->from != '\0' ? mutation->from : NULL, mutation->to);
    bool loaded = stage_begin(&stage, &scenes[mutation->scene], mutation->right);
    gpusim_mutate(NULL, NULL);
    if (!loaded)
        snprintf(why, WHY_BYTES, "not loaded: %s", gpusim_error());
    for (int seed = 0; seed < seeds && loaded; seed++)
        failures += !run_seed(&stage, (uint32_t)seed, why);
    stage_end(&stage);
    return failures;
}

/* Each must fail under 19 of 20 seeds, or as many of fewer. */
static bool mutations_fail(int seeds) {
    bool good = true;
    for (int k = 0; k < MUTATIONS; k++) {
        char why[WHY_BYTES] = "";
        int failures = failures_of(&mutations[k], seeds, why);
        bool enough = failures * 20 >= seeds * 19;
        printf("%s %-42s failed under %d of %d seeds: %.100s\n", enough ? "ok    " : "NOT OK", mutations[k].what,
               failures, seeds, why);
        fflush(stdout);
        good &= enough;
    }
    return good;
}

static bool kernels_pass(int runs) {
    bool good = true;
    for (int k = 0; k < SCENES; k++) {
        char why[WHY_BYTES] = "";
        struct stage stage;
        int passed = 0;
        if (!stage_begin(&stage, &scenes[k], RIGHTS_ALL)) {
            printf("NOT OK %s\n", gpusim_error());
            return false;
        }
        for (int seed = 0; seed < runs; seed++)
            if (run_seed(&stage, (uint32_t)seed, why))
                passed++;
            else
                printf("NOT OK seed %d: %s\n", seed, why);
        printf("%s %s %s, %s, on %u GPUs: %d of %d runs passed\n", passed == runs ? "ok    " : "NOT OK",
               prog_facts[scenes[k].collective].name, scenes[k].algorithm, protocol_names[scenes[k].protocol],
               scenes[k].gpus, passed, runs);
        fflush(stdout);
        good &= passed == runs;
        stage_end(&stage);
    }
    return good;
}

static bool read_objects(void) {
    const char *build = getenv("BUILD"), *named = getenv("GPUSIM_OBJECTS");
    char paths[4096];
    snprintf(paths, sizeof(paths), "%s/lib/libcollet.so", build != NULL ? build : "build");
    if (named != NULL)
        snprintf(paths, sizeof(paths), "%s", named);
    bool any = false;
    for (char *path = strtok(paths, " "); path != NULL; path = strtok(NULL, " "))
        any |= objects_read(&objects, path, 75);
    return any;
}

int main(int argc, char **argv) {
    int seeds = argc > 1 ? atoi(argv[1]) : 2, runs = argc > 2 ? atoi(argv[2]) : 4;
    if (!read_objects()) {
        printf("skipped: this build has no kernels for GPUs\n");
        return SKIPPED;
    }
    bool pass = kernels_pass(runs), fail = mutations_fail(seeds);
    objects_free(&objects);
    return pass && fail ? 0 : 1;
}
