/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine: GPUs, where blocks go, and who has the next turn. One lock: whoever calls from outside waits until a stretch of
 * gpusim_run() has ended, and then comes first.
 */
#include "gpusim/state.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct gpusim_device_limits gpusim_small_h100 = {
    .sms = 16,
    .sm_blocks = 32,
    .sm_threads = 2048,
    .sm_registers = 65536,
    .sm_shared_bytes = 228 * 1024,
    .max_block_threads = 1024,
};

static const struct gpusim_meanness usual_meanness = {.split = 64, .apart = 16, .tear = 8, .drain = 4, .evict = 64};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t wanted; /* threads that wait for the lock, or have it */
static struct gpusim_device_limits limits;
static struct device *devices;
static uint32_t ndevices;
static struct block **blocks; /* those that lie on SMs */
static uint32_t nblocks, blocks_room;
static const struct gpusim_sharing *sharing; /* NULL: the multiprocessors are this process's alone */

static void enter_machine(void) {
    __atomic_add_fetch(&wanted, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
}

static void leave_machine(void) {
    pthread_mutex_unlock(&lock);
    __atomic_sub_fetch(&wanted, 1, __ATOMIC_RELAXED);
}

static void *zeroed(size_t n, size_t size) {
    void *memory = calloc(n == 0 ? 1 : n, size);
    if (memory == NULL)
        abort();
    return memory;
}

/* ---- GPUs ---- */

static void block_free(struct block *block) {
    for (uint32_t w = 0; w < block->nwarps; w++) {
        free(block->warps[w].rows);
        free(block->warps[w].chains);
        free(block->warps[w].locals);
    }
    free(block->warps);
    free(block->shared);
    free(block->lane_lists);
    free(block->entries);
    free(block);
}

static void device_init(struct device *device, uint32_t number) {
    device->number = number;
    device->sms = zeroed(limits.sms, sizeof(*device->sms));
    for (uint32_t k = 0; k < limits.sms; k++) {
        device->sms[k] = (struct sm){.device = device,
                                     .number = k,
                                     .l1 = zeroed(1, sizeof(struct l1)),
                                     .alias_l1 = zeroed(1, sizeof(struct l1))};
        device->sms[k].l1->generation = device->sms[k].alias_l1->generation = 1;
    }
    device->pending = (struct pending_list){.room = DEVICE_PENDING, .entries = device->entries};
    device->end = &device->first;
}

void gpusim_reset(uint32_t count, const struct gpusim_device_limits *each, uint64_t seed) {
    enter_machine();
    while (nblocks > 0)
        block_free(blocks[--nblocks]);
    for (uint32_t d = 0; d < ndevices; d++) {
        for (uint32_t k = 0; k < limits.sms; k++) {
            free(devices[d].sms[k].l1);
            free(devices[d].sms[k].alias_l1);
        }
        free(devices[d].sms);
    }
    free(devices);
    memory_reset();
    chance_seed(seed);
    meanness = usual_meanness;
    limits = each != NULL ? *each : gpusim_small_h100;
    ndevices = count;
    devices = zeroed(count, sizeof(*devices));
    for (uint32_t d = 0; d < count; d++)
        device_init(&devices[d], d);
    leave_machine();
}

void gpusim_share(const struct gpusim_sharing *how) {
    enter_machine();
    sharing = how;
    leave_machine();
}

const struct gpusim_device_limits *gpusim_limits(void) { return &limits; }

void gpusim_set_meanness(const struct gpusim_meanness *how) {
    enter_machine();
    meanness = how != NULL ? *how : usual_meanness;
    leave_machine();
}

/* ---- kernels ---- */

static struct ptx_function *entry_of(struct gpusim_module *module, const char *name) {
    for (uint32_t k = 0; k < module->nfunctions; k++)
        if (module->functions[k].entry && strcmp(module->functions[k].name, name) == 0)
            return &module->functions[k];
    return NULL;
}

const struct gpusim_kernel *gpusim_kernel(struct gpusim_module *module, const char *name) {
    struct ptx_function *f = entry_of(module, name);
    if (f == NULL) {
        gpusim_fail("the PTX has no kernel %s", name);
        return NULL;
    }
    enter_machine();
    bool parsed = ptx_function_parse(module, f);
    leave_machine();
    f->kernel.f = f;
    return parsed ? &f->kernel : NULL;
}

/* An SM gives a lane registers by eights. */
static uint32_t registers_of(const struct ptx_function *f) {
    uint32_t threads = f->max_threads != 0 ? f->max_threads : limits.max_block_threads;
    uint32_t most = limits.sm_registers / threads;
    return f->registers != 0 ? (f->registers + 7) / 8 * 8 : most < 255 ? most : 255;
}

void gpusim_kernel_info(const struct gpusim_kernel *kernel, struct gpusim_kernel_info *info) {
    const struct ptx_function *f = kernel->f;
    *info = (struct gpusim_kernel_info){
        .nparams = f->nparams,
        .param_bytes = f->params_end,
        .shared_bytes = f->occupied_bytes,
        .local_bytes = f->all_local_bytes,
        .registers = registers_of(f),
        .max_threads = f->max_threads != 0 ? f->max_threads : limits.max_block_threads,
    };
    memcpy(info->param_offset, f->param_at, sizeof(f->param_at));
    memcpy(info->param_size, f->param_bytes, sizeof(f->param_bytes));
}

void gpusim_module_registers(struct gpusim_module *module, const char *path) {
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    char name[512];
    unsigned registers;
    while (file != NULL && fscanf(file, "%511s %u", name, &registers) == 2) {
        struct ptx_function *f = entry_of(module, name);
        if (f != NULL)
            f->registers = registers;
    }
    if (file != NULL)
        fclose(file);
}

static uint32_t lower(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* How many blocks with these needs find room beside what is in use. */
static uint32_t room_on(const struct gpusim_use *used, uint32_t threads, uint32_t registers, uint32_t shared_bytes) {
    uint32_t n = lower(limits.sm_blocks - used->blocks, (limits.sm_threads - used->threads) / threads);
    n = lower(n, (limits.sm_registers - used->registers) / (registers * threads));
    return shared_bytes == 0 ? n : lower(n, (limits.sm_shared_bytes - used->shared_bytes) / shared_bytes);
}

static uint32_t whole_warps(uint32_t threads) { return (threads + PTX_LANES - 1) / PTX_LANES * PTX_LANES; }

uint32_t gpusim_kernel_blocks_per_sm(const struct gpusim_kernel *kernel, uint32_t threads, uint32_t dynamic_bytes) {
    static const struct gpusim_use empty;
    if (threads == 0 || threads > limits.max_block_threads)
        return 0;
    return room_on(&empty, whole_warps(threads), registers_of(kernel->f), kernel->f->occupied_bytes + dynamic_bytes);
}

/* ---- grids ---- */

struct gpusim_grid *gpusim_grid_start(uint32_t device, const struct gpusim_kernel *kernel, struct gpusim_dim grid_dim,
                                      struct gpusim_dim block_dim, uint32_t dynamic_bytes, const void *args) {
    uint64_t threads = (uint64_t)block_dim.x * block_dim.y * block_dim.z,
             n = (uint64_t)grid_dim.x * grid_dim.y * grid_dim.z;
    const struct ptx_function *f = kernel->f;
    if (device >= ndevices || threads == 0 || n == 0 || n > UINT32_MAX || threads > limits.max_block_threads ||
        (f->max_threads != 0 && threads > f->max_threads) ||
        gpusim_kernel_blocks_per_sm(kernel, (uint32_t)threads, dynamic_bytes) == 0) {
        gpusim_fail("%s: a grid of %llu blocks of %llu lanes does not fit on GPU %u", f->name, (unsigned long long)n,
                    (unsigned long long)threads, device);
        return NULL;
    }
    struct gpusim_grid *grid = zeroed(1, sizeof(*grid));
    *grid = (struct gpusim_grid){
        .device = &devices[device],
        .f = f,
        .grid = grid_dim,
        .block = block_dim,
        .nblocks = (uint32_t)n,
        .threads = (uint32_t)threads,
        .registers = registers_of(f),
        .shared_bytes = f->shared_bytes + dynamic_bytes,
        .occupied_bytes = f->occupied_bytes + dynamic_bytes,
        .args = zeroed(f->params_end + 1, 1),
    };
    memcpy(grid->args, args, f->params_end);
    enter_machine();
    *grid->device->end = grid;
    grid->device->end = &grid->next;
    grid->device->counts.grids++;
    leave_machine();
    return grid;
}

static void warp_init(struct warp *warp, struct block *block, uint32_t number) {
    const struct ptx_function *f = block->grid->f;
    uint32_t left = block->nthreads - number * PTX_LANES;
    warp->block = block;
    warp->first_thread = number * PTX_LANES;
    warp->live = left >= PTX_LANES ? ~0u : (1u << left) - 1;
    warp->rows = zeroed((size_t)f->all_rows * PTX_LANES, sizeof(uint64_t));
    warp->locals = zeroed((size_t)f->all_local_bytes + 1, PTX_LANES);
    warp->chains = chains_create(f, &block->last);
    warp->nsplits = 1;
    warp->splits[0].mask = warp->live;
    warp->splits[0].frames[0].f = f;
}

static void block_begin(struct gpusim_grid *grid, struct sm *sm, uint32_t number) {
    struct block *block = zeroed(1, sizeof(*block));
    block->grid = grid;
    block->sm = sm;
    block->index = (struct gpusim_dim){number % grid->grid.x, number / grid->grid.x % grid->grid.y,
                                       number / grid->grid.x / grid->grid.y};
    block->nthreads = block->live = grid->threads;
    block->nwarps = whole_warps(grid->threads) / PTX_LANES;
    block->shared_bytes = grid->shared_bytes;
    block->shared = aligned_alloc(128, (grid->shared_bytes + 128) / 128 * 128);
    block->warps = zeroed(block->nwarps, sizeof(*block->warps));
    block->lane_lists = zeroed(block->nwarps * PTX_LANES, sizeof(*block->lane_lists));
    uint32_t nentries = block->nwarps * PTX_LANES * LANE_PENDING;
    block->entries = zeroed(nentries + 2 * BLOCK_PENDING, sizeof(*block->entries));
    if (block->shared == NULL)
        abort();
    sm->l1->generation++;                            /* what a kernel's launch makes visible is */
    memset(block->shared, 0xa5, grid->shared_bytes); /* nobody may rely on what is there */
    for (uint32_t k = 0; k < block->nwarps * PTX_LANES; k++)
        block->lane_lists[k] =
            (struct pending_list){.room = LANE_PENDING, .entries = block->entries + k * LANE_PENDING};
    block->pending = (struct pending_list){.room = BLOCK_PENDING, .entries = block->entries + nentries};
    block->aliased = (struct pending_list){.room = BLOCK_PENDING, .entries = block->entries + nentries + BLOCK_PENDING};
    for (uint32_t w = 0; w < block->nwarps; w++)
        warp_init(&block->warps[w], block, w);
    if (nblocks == blocks_room) {
        blocks_room = blocks_room * 2 + 16;
        blocks = realloc(blocks, blocks_room * sizeof(struct block *));
        if (blocks == NULL)
            abort();
    }
    blocks[nblocks++] = block;
    grid->begun++;
    grid->device->counts.blocks++;
}

static void sm_use(struct sm *sm, const struct gpusim_grid *grid, int sign) {
    uint32_t threads = whole_warps(grid->threads);
    struct device *device = sm->device;
    device->busy_sms -= sm->used.blocks > 0;
    sm->used.blocks += (uint32_t)sign;
    device->busy_sms += sm->used.blocks > 0;
    device->nblocks += (uint32_t)sign;
    sm->used.threads += (uint32_t)sign * threads;
    sm->used.registers += (uint32_t)sign * threads * grid->registers;
    sm->used.shared_bytes += (uint32_t)sign * grid->occupied_bytes;
    if (sharing != NULL)
        sharing->note(device->number, sm->number, sm->used);
}

static struct gpusim_use use_of_all(const struct sm *sm) {
    struct gpusim_use all = sm->used;
    if (sharing == NULL)
        return all;
    const struct gpusim_use others = sharing->others(sm->device->number, sm->number);
    all.blocks += others.blocks;
    all.threads += others.threads;
    all.registers += others.registers;
    all.shared_bytes += others.shared_bytes;
    return all;
}

static bool may_use(const struct sm *sm) {
    return sharing == NULL || sm->used.blocks > 0 || sm->device->busy_sms < sharing->most_sms;
}

/* The SM with the fewest blocks among those that have room. */
static struct sm *roomy_sm(const struct gpusim_grid *grid) {
    struct sm *best = NULL;
    uint32_t fewest = UINT32_MAX;
    for (uint32_t k = 0; k < limits.sms; k++) {
        struct sm *sm = &grid->device->sms[k];
        const struct gpusim_use used = use_of_all(sm);
        if (may_use(sm) && used.blocks < fewest &&
            room_on(&used, whole_warps(grid->threads), grid->registers, grid->occupied_bytes) > 0) {
            fewest = used.blocks;
            best = sm;
        }
    }
    return best;
}

/* Room for one more block of the grid; NULL: there is none. */
static struct sm *take_room(const struct gpusim_grid *grid) {
    if (sharing != NULL)
        sharing->lock(true);
    struct sm *sm = roomy_sm(grid);
    if (sm != NULL)
        sm_use(sm, grid, 1);
    if (sharing != NULL)
        sharing->lock(false);
    return sm;
}

/* Blocks begin in the order of their grids: a grid that finds no room lets none behind it pass. */
static void begin_blocks(struct device *device) {
    while (device->first != NULL) {
        struct gpusim_grid *grid = device->first;
        struct sm *sm = grid->fault == NULL ? take_room(grid) : NULL;
        if (sm != NULL)
            block_begin(grid, sm, grid->begun);
        if (grid->fault == NULL && grid->begun < grid->nblocks) {
            if (sm == NULL)
                return;
            continue;
        }
        device->first = grid->next;
        if (device->first == NULL)
            device->end = &device->first;
    }
}

static struct view block_view(struct block *block) {
    return (struct view){&block->lane_lists[0], &block->pending, &block->sm->device->pending,
                         &block->aliased,       block->sm->l1,   block->sm->alias_l1};
}

static void drain_lanes(struct block *block) {
    for (uint32_t k = 0; k < block->nthreads; k++) {
        struct view view = block_view(block);
        view.lane = &block->lane_lists[k];
        memory_drain_all(&view, view.lane);
    }
}

/* What the block stored becomes its GPU's, and with the last block everybody's. */
static void block_end(uint32_t at) {
    struct block *block = blocks[at];
    struct gpusim_grid *grid = block->grid;
    struct view view = block_view(block);
    if (grid->fault != NULL)
        drain_lanes(block);
    memory_drain_all(&view, view.aliased);
    memory_pass_on(&view);
    if (++grid->ended == grid->nblocks || grid->fault != NULL)
        memory_drain_all(&view, view.device);
    sm_use(block->sm, grid, -1);
    chains_count(block, &grid->device->counts);
    block_free(block);
    blocks[at] = blocks[--nblocks];
}

bool gpusim_grid_done(const struct gpusim_grid *grid) {
    enter_machine();
    bool done = grid->ended == grid->nblocks || (grid->fault != NULL && grid->ended == grid->begun);
    leave_machine();
    return done;
}

const char *gpusim_grid_fault(const struct gpusim_grid *grid) {
    enter_machine();
    const char *fault = grid->fault;
    leave_machine();
    return fault;
}

void gpusim_grid_free(struct gpusim_grid *grid) {
    enter_machine();
    if (grid->fault == NULL)
        grid->fault = strdup("it was ended by its host");
    for (uint32_t k = nblocks; k-- > 0;)
        if (blocks[k]->grid == grid)
            block_end(k);
    for (struct gpusim_grid **at = &grid->device->first; *at != NULL; at = &(*at)->next)
        if (*at == grid) {
            *at = grid->next;
            break;
        }
    grid->device->end = &grid->device->first;
    while (*grid->device->end != NULL)
        grid->device->end = &(*grid->device->end)->next;
    free(grid->fault);
    free(grid->args);
    free(grid);
    leave_machine();
}

/* ---- turns ---- */

static struct warp *runnable_warp(struct block *block) {
    uint32_t first = (uint32_t)(chance_number() % block->nwarps);
    for (uint32_t k = 0; k < block->nwarps; k++) {
        struct warp *warp = &block->warps[(first + k) % block->nwarps];
        if (warp_can_run(warp))
            return warp;
    }
    return NULL;
}

/* The first lane from a random one on that has stores pending. */
static uint32_t storing_lane(const struct warp *warp) {
    uint32_t first = (uint32_t)chance_number();
    for (uint32_t k = 0; k < PTX_LANES; k++) {
        uint32_t lane = (first + k) % PTX_LANES;
        if (warp->block->lane_lists[warp->first_thread + lane].n > 0)
            return lane;
    }
    return 0;
}

/* Stores that are pending become visible now and then, of any lane, in any order. */
static void drain_some(struct warp *warp) {
    struct view view = warp_view(warp, storing_lane(warp));
    struct pending_list *lists[] = {view.lane, view.block, view.device, view.aliased};
    for (int k = 0; k < 4; k++)
        if (chance(meanness.drain))
            memory_drain_one(&view, lists[k]);
}

#define TURN_INSTRUCTIONS 128u

static uint32_t block_turn(uint32_t at) {
    struct block *block = blocks[at];
    struct warp *warp = block->live > 0 ? runnable_warp(block) : NULL;
    if (block->live > 0 && warp == NULL && block->grid->fault == NULL)
        warp_fault(&block->warps[0], &block->warps[0].splits[0], 0,
                   "all %u lanes of the block wait for each other (%u are at barrier 0)", block->live,
                   block->barriers[0].arrived);
    if (warp == NULL || block->grid->fault != NULL) {
        block_end(at);
        return 1;
    }
    drain_some(warp);
    return 1 + warp_turn(warp, 1 + (uint32_t)(chance_number() % TURN_INSTRUCTIONS));
}

uint64_t gpusim_clock_ns(uint32_t device) {
    enter_machine();
    uint64_t clock = devices[device].clock;
    leave_machine();
    return clock >> 8;
}

void gpusim_pause(uint32_t device, bool is_paused) {
    enter_machine();
    devices[device].is_paused = is_paused;
    leave_machine();
}

/* Of all blocks; false: all GPUs that have some are paused. */
static bool begin_all(void) {
    uint32_t n = 0;
    for (uint32_t d = 0; d < ndevices; d++)
        if (!devices[d].is_paused) {
            begin_blocks(&devices[d]);
            n += devices[d].nblocks;
        }
    return n > 0;
}

static uint32_t some_turn(void) {
    uint32_t at = (uint32_t)(chance_number() % nblocks);
    struct device *device = blocks[at]->sm->device;
    if (device->is_paused)
        return 0;
    const uint32_t busy_sms = device->busy_sms, executed = block_turn(at);
    device->clock += ((uint64_t)executed << 8) / busy_sms;
    return executed;
}

bool gpusim_run(uint64_t instructions) {
    while (__atomic_load_n(&wanted, __ATOMIC_RELAXED) > 0)
        sched_yield();
    pthread_mutex_lock(&lock);
    bool works = false;
    for (uint64_t n = 0; n < instructions && begin_all(); n += some_turn())
        works = true;
    pthread_mutex_unlock(&lock);
    return works;
}

/* ---- memory ---- */

/* Nothing that is pending may reach memory after it has gone. */
static void drain_everything(void) {
    for (uint32_t k = 0; k < nblocks; k++) {
        struct view view = block_view(blocks[k]);
        drain_lanes(blocks[k]);
        memory_drain_all(&view, view.block);
        memory_drain_all(&view, view.aliased);
    }
    static struct l1 none;
    for (uint32_t d = 0; d < ndevices; d++) {
        struct pending_list *list = &devices[d].pending;
        struct view view = {list, list, list, list, &none, &none};
        memory_drain_all(&view, view.device);
    }
}

bool gpusim_range_add(void *base, size_t bytes, enum gpusim_kind kind, uint32_t owner) {
    enter_machine();
    bool added = memory_range_add(base, bytes, kind, owner);
    leave_machine();
    return added;
}

void gpusim_range_grant(void *base, uint32_t device, bool may_read, bool may_write) {
    enter_machine();
    memory_range_grant(base, device, may_read, may_write);
    leave_machine();
}

void gpusim_range_bind(void *base, uint32_t k, uint32_t nreplicas, void *memory) {
    enter_machine();
    drain_everything();
    memory_range_bind(base, k, nreplicas, memory);
    leave_machine();
}

void gpusim_range_free(void *base) {
    enter_machine();
    drain_everything();
    memory_range_free(base);
    leave_machine();
}

void gpusim_peer_access(uint32_t device, uint32_t owner, bool allowed) {
    enter_machine();
    memory_peer_access(device, owner, allowed);
    leave_machine();
}

bool gpusim_range_of(const void *address, struct gpusim_range_info *info) {
    enter_machine();
    const struct range *range = memory_range_of((uintptr_t)address);
    if (range != NULL && info != NULL)
        *info = (struct gpusim_range_info){(void *)(uintptr_t)range->base, range->bytes, range->kind, range->owner,
                                           range->freed};
    leave_machine();
    return range != NULL;
}

bool gpusim_range_allows(uint32_t device, const void *address, size_t bytes, bool writes) {
    enter_machine();
    const struct range *range = memory_range_of((uintptr_t)address);
    bool allows = false;
    if (range == NULL)
        gpusim_fail("%p is in no memory that a GPU may touch", address);
    else if (range->freed)
        gpusim_fail("%p is in memory that was freed", address);
    else if (!((writes ? range->writers : range->readers) >> device & 1))
        gpusim_fail("%p lies on GPU %u, and GPU %u has no right to it", address, range->owner, device);
    else if ((uintptr_t)address + bytes > range->base + range->bytes)
        gpusim_fail("%zu bytes at %p go beyond the end of their memory", bytes, address);
    else
        allows = true;
    leave_machine();
    return allows;
}

/* ---- counting ---- */

void gpusim_counts(uint32_t device, struct gpusim_counts *counts) {
    enter_machine();
    *counts = devices[device].counts;
    leave_machine();
}

void gpusim_counts_clear(void) {
    enter_machine();
    for (uint32_t d = 0; d < ndevices; d++)
        devices[d].counts = (struct gpusim_counts){0};
    leave_machine();
}
