/* SPDX-License-Identifier: Apache-2.0 */
#include "gpusim/stage.h"

#include "gpusim/objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct objects objects;

bool stage_objects(void) {
    const char *build = getenv("BUILD"), *named = getenv("GPUSIM_OBJECTS"), *arch = getenv("GPUSIM_ARCH");
    char paths[4096];
    snprintf(paths, sizeof(paths), "%s/lib/libcollet.so", build != NULL ? build : "build");
    if (named != NULL)
        snprintf(paths, sizeof(paths), "%s", named);
    bool any = false;
    for (char *path = strtok(paths, " "); path != NULL; path = strtok(NULL, " "))
        any |= objects_read(&objects, path, arch != NULL ? (uint32_t)atoi(arch) : 75);
    return any;
}

/* ---- the memory that kernels touch ---- */

/* Ranges of the host's heap that kernels read and write: what the library has in a GPU's memory, for this test in pinned
 * memory; but slots, counters and buffers are on the GPU of their rank: heads on that of their producer. */
static void host_range(const void *memory, size_t bytes) {
    if (bytes > 0 && !gpusim_range_add((void *)memory, bytes, GPUSIM_HOST_MEMORY, 0)) {
        fprintf(stderr, "%s\n", gpusim_error());
        exit(1);
    }
}

static void program_ranges(const struct prog *prog) {
    host_range(prog->steps, (size_t)prog->nsteps * sizeof(*prog->steps));
    host_range(prog->locals, (size_t)prog->nlocals * sizeof(*prog->locals));
    host_range(prog->peers, (size_t)prog->npeers * sizeof(*prog->peers));
}

/* first: a channel's first block. */
static void bound_ranges(const struct work_block *first, const struct prog *prog) {
    host_range(first->ends, ((size_t)first->npeers * 2 + 1) * sizeof(*first->ends));
    host_range(first->memory.tmp, (size_t)prog->ntmp * first->memory.tmp_stride + 1);
}

static void gang_ranges(const struct gang *gang, uint32_t gpus, enum right right) {
    const enum gpusim_kind kinds[] = {GPUSIM_DEVICE_MEMORY, GPUSIM_GRANTED};
    host_range(gang->wires, (size_t)gang->wires_room * sizeof(*gang->wires));
    host_range(&gang->status, sizeof(gang->status));
    for (int rank = 0; rank < gang->shape.nranks; rank++) {
        const struct work_block *blocks = gang->blocks[rank];
        int nworkers = gang->progs[rank]->nworkers;
        host_range(blocks, (size_t)(gang->nchannels * nworkers) * sizeof(*blocks));
        program_ranges(gang->progs[rank]);
        for (int c = 0; c < gang->nchannels; c++)
            bound_ranges(blocks + c * nworkers, gang->progs[rank]);
    }
    for (int k = 0; k < gang->nwires; k++) {
        const struct gang_wire *wire = &gang->wires[k];
        gpusim_range_add(wire->memory, gang->layout.total_bytes, kinds[right == RIGHTS_SLOTS_READ_ONLY],
                         (uint32_t)wire->to % gpus);
        gpusim_range_add(wire->head, FIFO_LINE_BYTES, kinds[right == RIGHTS_HEADS_READ_ONLY],
                         (uint32_t)wire->from % gpus);
    }
}

static void trial_ranges(const struct trial *trial, uint32_t gpu, enum right right) {
    const struct guard *guards[] = {&trial->in.guard, &trial->out.guard};
    for (int k = 0; k < 2; k++)
        if (guards[k]->memory != NULL && guards[k]->total_bytes > 0) {
            gpusim_range_add(guards[k]->memory, guards[k]->total_bytes,
                             right == RIGHTS_LOANS ? GPUSIM_GRANTED : GPUSIM_DEVICE_MEMORY, gpu);
            gpusim_range_grant(guards[k]->memory, gpu, true, true);
        }
}

/* ---- a run: some calls on the same connections ---- */

/* Which types and operators share a kernel (kernels/cuda/block_ops.cuh): as `<type, operator>` has it in its mangled name. */
static void kernel_part(const struct scene *scene, char *part, size_t room) {
#define BOUND_TYPE(ENUM, type, ...) TYPE_##type,
#define FREE_TYPE(ENUM, type, kind, element, accumulator, wrap, divisor, alike, ...) TYPE_##alike,
#define RUN_OP(OP, op, runs, kernel, types, sign) OP_##kernel,
#define SIGN_OF(OP, op, runs, kernel, types, sign) SIGN_##sign,
    enum { SIGN_BOUND, SIGN_FREE, SIGN_ORDER = SIGN_FREE };
    static const int kernels[][COLLET_TYPE_COUNT] = {{COLLET_TYPES(BOUND_TYPE, )}, {COLLET_TYPES(FREE_TYPE, )}};
    static const int ops[] = {COLLET_OPS(RUN_OP)}, signs[] = {COLLET_OPS(SIGN_OF)};
    snprintf(part, room, "run_launchI7copying");
    if (prog_facts[scene->collective].reduces)
        snprintf(part, room, "run_launchI9reductionILi%dELi%dE", kernels[signs[scene->op]][scene->type],
                 ops[scene->op]);
}

bool stage_begin(struct stage *stage, const struct scene *scene, enum right right) {
    char name[256], part[64];
    kernel_part(scene, part, sizeof(part));
    const char *text = objects_find(&objects, part, name, sizeof(name));
    *stage = (struct stage){.scene = scene, .right = right};
    if (text == NULL)
        return false; /* of a kernel that the objects do not have */
    stage->module = gpusim_module_load(text);
    gpusim_module_registers(stage->module, getenv("GPUSIM_REGISTERS"));
    stage->kernel = gpusim_kernel(stage->module, name);
    return stage->kernel != NULL;
}

void stage_end(struct stage *stage) { gpusim_module_unload(stage->module); }

static void give_rights(const struct stage *stage, const struct gang *gang) {
    for (uint32_t device = 0; device < stage->scene->gpus; device++)
        for (uint32_t owner = 0; owner < stage->scene->gpus; owner++)
            if (stage->right != RIGHTS_NO_PEERS && (stage->right != RIGHTS_WRONG_WAY || device < owner))
                gpusim_peer_access(device, owner, true);
    for (int k = 0; k < gang->nwires; k++) {
        const struct gang_wire *wire = &gang->wires[k];
        gpusim_range_grant(wire->memory, (uint32_t)wire->from % stage->scene->gpus, true, false);
        gpusim_range_grant(wire->head, (uint32_t)wire->to % stage->scene->gpus, true, false);
    }
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
    struct gpusim_grid *grids[STAGE_RANKS_MAX];
    uint32_t n = launch->nworks;
    for (uint32_t rank = 0; rank < n; rank++) {
        struct work_launch own = {.nworks = 1};
        own.works[0] = launch->works[rank];
        grids[rank] =
            gpusim_grid_start(rank % stage->scene->gpus, stage->kernel, (struct gpusim_dim){own.works[0].nblocks, 1, 1},
                              (struct gpusim_dim){stage->scene->lanes, 1, 1}, 0, &own);
    }
    snprintf(why, STAGE_WHY_BYTES, "%s", grids_end(grids, n) ? "" : "the grids do not end");
    if (gang->status.failure != WORK_FINE)
        snprintf(why, STAGE_WHY_BYTES, "a block reports failure %d", gang->status.failure);
    for (uint32_t rank = 0; rank < n; rank++) {
        if (gpusim_grid_fault(grids[rank]) != NULL)
            snprintf(why, STAGE_WHY_BYTES, "%s", gpusim_grid_fault(grids[rank]));
        gpusim_grid_free(grids[rank]);
    }
    return *why == '\0';
}

static bool lends_apart(const struct prog *prog) {
    for (int k = 0; k < prog->nsteps; k++)
        if (prog->steps[k].lends_apart)
            return true;
    return false;
}

/* As in exec_gpu.c: of a call in place nothing of IN is lent if a step may do so only where IN and OUT are apart. */
static void choose_lent(const struct stage *stage, const struct gang *gang, struct work_launch *launch) {
    if (stage->scene->in_place && lends_apart(gang->progs[0]) && stage->right != RIGHTS_IN_PLACE)
        for (uint32_t rank = 0; rank < launch->nworks; rank++)
            launch->works[rank].lends[STEP_IN] = 0;
}

static bool run_call(const struct stage *stage, struct gang *gang, uint32_t seed, char *why) {
    const struct scene *scene = stage->scene;
    struct gang_call c = {scene->count, scene->type, scene->op, scene->protocol, scene->lanes, seed, 0};
    struct trial_call call = {scene->collective, scene->type,     scene->op, scene->count, 0,
                              scene->nranks,     scene->in_place, seed};
    struct trial trials[STAGE_RANKS_MAX];
    struct work_launch launch;
    for (uint32_t rank = 0; rank < (uint32_t)scene->nranks; rank++) {
        trial_prepare(&trials[rank], &call, (int)rank);
        trial_ranges(&trials[rank], rank % scene->gpus, stage->right);
    }
    gang_launch(gang, &c, trials, &launch);
    choose_lent(stage, gang, &launch);
    bool passed = run_ranks(stage, gang, &launch, why);
    for (int rank = 0; rank < scene->nranks; rank++) {
        passed = passed && trial_check(&trials[rank], why);
        gpusim_range_free(trials[rank].in.guard.memory);
        gpusim_range_free(trials[rank].out.guard.memory);
        trial_destroy(&trials[rank]);
    }
    return passed;
}

bool stage_run(const struct stage *stage, uint32_t seed, char why[STAGE_WHY_BYTES]) {
    struct gang gang;
    bool passed = true;
    gpusim_reset(stage->scene->gpus, NULL, seed);
    gang_init(&gang, algorithm_find(stage->scene->collective, stage->scene->algorithm), stage->scene->nranks, 0,
              STAGE_CHANNELS, stage->scene->lends_from);
    gang_ranges(&gang, stage->scene->gpus, stage->right);
    give_rights(stage, &gang);
    for (uint32_t call = 0; call < stage->scene->calls && passed; call++)
        passed = run_call(stage, &gang, seed * stage->scene->calls + call + 1, why);
    gang_fini(&gang);
    return passed;
}

struct gpusim_counts stage_counts(const struct stage *stage) {
    struct gpusim_counts all = {0};
    for (uint32_t gpu = 0; gpu < stage->scene->gpus; gpu++) {
        struct gpusim_counts one;
        gpusim_counts(gpu, &one);
        for (int scope = 0; scope < 3; scope++)
            all.fences[scope] += one.fences[scope];
        all.blocks += one.blocks;
        all.stores += one.stores;
        all.load_bytes += one.load_bytes;
        all.store_bytes += one.store_bytes;
        all.chain.instructions += one.chain.instructions;
        all.lane_work.instructions += one.lane_work.instructions;
        all.lane_work.loads += one.lane_work.loads;
        all.lane_work.load_bytes += one.lane_work.load_bytes;
        all.chain.all += one.chain.all;
        all.chain.far += one.chain.far;
        all.barriers += one.barriers;
        all.beside += one.beside;
        all.polls += one.polls;
        all.remote_polls += one.remote_polls;
        all.peer_polls += one.peer_polls;
        all.looks += one.looks;
        all.waits += one.waits;
        all.flights += one.flights;
        all.flight_bytes += one.flight_bytes;
        all.remote_store_bytes += one.remote_store_bytes;
        all.lane_instructions += one.lane_instructions;
    }
    return all;
}

double stage_passes(const struct stage *stage) {
    const struct scene *scene = stage->scene;
    const struct gpusim_counts all = stage_counts(stage);
    return (double)(all.load_bytes + all.store_bytes) /
           ((double)scene->calls * (double)scene->count * (double)collet_type_size(scene->type));
}
