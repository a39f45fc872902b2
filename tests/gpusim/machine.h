/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated GPU machine: it executes the PTX that nvcc made, lane by lane, under a memory model that is meaner than a real
 * GPU's. It is for tests and never installed. The CUDA runtime on top of it is runtime.c; here is only the machine.
 *
 *    fatbin ──▶ PTX text ──▶ module ──▶ kernel ──▶ grid ──▶ blocks on SMs ──▶ warps ──▶ lanes
 *                                                                               │
 *      ranges of memory, with an owner and rights per GPU ◀── L1 per SM ◀── buffers of stores
 *
 * Memory of a GPU is memory of the process at the same address, so unified addressing comes by itself. Only what lies in a
 * range of the table may be touched by a lane.
 *
 * Nothing runs by itself: gpusim_run() advances all grids a little, in an order that the seed decides. A runtime has a thread
 * that calls it. All functions may be called from any thread; they wait for a call of gpusim_run() to end, and that is short.
 * A function that fails returns NULL or false, and gpusim_error() says why, to the thread that called.
 */
#ifndef COLLET_GPUSIM_MACHINE_H
#define COLLET_GPUSIM_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPUSIM_DEVICES_MAX 16

const char *gpusim_error(void);

/* ---- the machine ---- */

struct gpusim_device_limits {
    uint32_t sms;             /* multiprocessors */
    uint32_t sm_blocks;       /* blocks that one of them holds */
    uint32_t sm_threads;      /* threads */
    uint32_t sm_registers;    /* 32-bit registers */
    uint32_t sm_shared_bytes; /* shared memory */
    uint32_t max_block_threads;
};

extern const struct gpusim_device_limits gpusim_small_h100;

/* Begins anew: no ranges, no grids. limits: of all GPUs; NULL: those of a small H100. */
void gpusim_reset(uint32_t devices, const struct gpusim_device_limits *limits, uint64_t seed);
const struct gpusim_device_limits *gpusim_limits(void);

/* Of a multiprocessor. */
struct gpusim_use {
    uint32_t blocks, threads, registers, shared_bytes;
};

/* A machine whose processes share multiprocessors. Blocks find room beside those of others, and lie on `most_sms` at a time at most. */
struct gpusim_sharing {
    uint32_t most_sms;
    void (*lock)(bool locks); /* while there is a lock, nobody else's use changes */
    struct gpusim_use (*others)(uint32_t device, uint32_t sm);
    void (*note)(uint32_t device, uint32_t sm, struct gpusim_use use); /* this process's */
};
void gpusim_share(const struct gpusim_sharing *sharing); /* NULL: no process is beside this one */

/* How mean the machine is. Each is one in so many; 0: never. */
struct gpusim_meanness {
    uint32_t split; /* branches at which a warp splits, although all its lanes go the same way */
    uint32_t apart; /* splits that do not come together again where they could */
    uint32_t tear;  /* 16-byte loads of which the halves are loaded at different times */
    uint32_t drain; /* turns of a warp in which a pending store becomes visible */
    uint32_t evict; /* loads that find their line in L1, and still fetch it anew */
};
void gpusim_set_meanness(const struct gpusim_meanness *meanness); /* NULL: the defaults */

/* Advances all grids by about so many instructions of warps. False: no grid had anything to do. */
bool gpusim_run(uint64_t instructions);

/* A clock of the GPU's, which goes while blocks lie on it: an SM with blocks executes an instruction of a warp in a nanosecond. */
uint64_t gpusim_clock_ns(uint32_t device);
/* Until it goes on, no block of the GPU begins or has a turn. */
void gpusim_pause(uint32_t device, bool is_paused);

/* ---- memory ---- */

enum gpusim_kind {
    GPUSIM_DEVICE_MEMORY, /* of `owner`: its own, and of those that have peer access to it */
    GPUSIM_GRANTED,       /* of `owner`: of those GPUs alone that gpusim_range_grant() names (pools, VMM) */
    GPUSIM_IMPORTED,      /* memory of another process; owner: the GPU it lies on; as GPUSIM_DEVICE_MEMORY */
    GPUSIM_HOST_MEMORY,   /* pinned or registered: of all */
    GPUSIM_MULTICAST,     /* no memory, but replicas: those that gpusim_range_bind() names. As GPUSIM_GRANTED */
};

/* From now on lanes may touch [base, base + bytes), which is memory of this process already. False: it overlaps another range. */
bool gpusim_range_add(void *base, size_t bytes, enum gpusim_kind kind, uint32_t owner);
void gpusim_range_grant(void *base, uint32_t device, bool may_read, bool may_write);
/* The k-th replica of a multicast range, of so many in all, begins there; NULL: nowhere, and who reads or writes the range faults. */
void gpusim_range_bind(void *base, uint32_t k, uint32_t nreplicas, void *memory);
/* Whoever touches it from now on faults, and is told that it was freed. The bytes of a GPU's memory are overwritten. Where new
 * memory is added at the same address the old range is forgotten. */
void gpusim_range_free(void *base);
/* Directional: lanes of `device` may touch memory of `owner`, whether it is there already or added later. */
void gpusim_peer_access(uint32_t device, uint32_t owner, bool allowed);

/* The range of an address; false: in none. For cudaPointerGetAttributes() and checks of copies. */
struct gpusim_range_info {
    void *base;
    size_t bytes;
    enum gpusim_kind kind;
    uint32_t owner;
    bool freed;
};
bool gpusim_range_of(const void *address, struct gpusim_range_info *info);
/* May `device` touch all these bytes? Else gpusim_error() says why not. For copies by engines. */
bool gpusim_range_allows(uint32_t device, const void *address, size_t bytes, bool writes);

/* ---- code ---- */

struct gpusim_module;
struct gpusim_kernel;

/* PTX for `arch` (90: sm_90) or the highest lower one, out of the fatbin that nvcc's stubs register. The caller frees it.
 * Compressed PTX takes libzstd.so.1. */
char *gpusim_fatbin_ptx(const void *fatbin, uint32_t arch, uint32_t *arch_p);
/* The text is copied. Kernels are parsed when they are first asked for. */
struct gpusim_module *gpusim_module_load(const char *ptx);
void gpusim_module_unload(struct gpusim_module *module); /* no grid may be running */
/* NULL: there is none of that name, or it has an instruction that the machine does not know. */
const struct gpusim_kernel *gpusim_kernel(struct gpusim_module *module, const char *name);

/* A mutation: in every PTX loaded from now on, `from` becomes `to` (NULL: no longer). */
void gpusim_mutate(const char *from, const char *to);

#define GPUSIM_PARAMS_MAX 32
struct gpusim_kernel_info {
    uint32_t nparams, param_bytes; /* of the packed arguments */
    uint32_t param_offset[GPUSIM_PARAMS_MAX], param_size[GPUSIM_PARAMS_MAX];
    uint32_t shared_bytes; /* static */
    uint32_t local_bytes;  /* per lane */
    uint32_t registers;    /* per lane: as ptxas says, if it was asked, else as many as the bounds of a launch leave */
    uint32_t max_threads;  /* .maxntid; the device's limit where it is not given */
};
void gpusim_kernel_info(const struct gpusim_kernel *kernel, struct gpusim_kernel_info *info);
/* From a file with lines of a kernel's name and number (registers.sh); NULL: there is none. Kernels that it does not name stay. */
void gpusim_module_registers(struct gpusim_module *module, const char *path);
/* How many blocks of a kernel an SM holds. */
uint32_t gpusim_kernel_blocks_per_sm(const struct gpusim_kernel *kernel, uint32_t block_threads,
                                     uint32_t dynamic_bytes);

/* ---- grids ---- */

struct gpusim_grid;
struct gpusim_dim {
    uint32_t x, y, z;
};

/* args: packed as the kernel's info says, and copied. Blocks begin in their order when an SM of the device has room; grids of
 * a device that began earlier come first. NULL: bad dimensions. */
struct gpusim_grid *gpusim_grid_start(uint32_t device, const struct gpusim_kernel *kernel, struct gpusim_dim grid,
                                      struct gpusim_dim block, uint32_t dynamic_bytes, const void *args);
/* All blocks have ended and all their stores are visible, or the grid has faulted. */
bool gpusim_grid_done(const struct gpusim_grid *grid);
/* NULL: none. Else kernel, line of PTX, block, lane, address and reason. Valid until the grid is freed. */
const char *gpusim_grid_fault(const struct gpusim_grid *grid);
void gpusim_grid_free(struct gpusim_grid *grid); /* ends it, if it is still running */

/* ---- counting ---- */

/* The longest of a block (chain.c): of dependent loads, of those alone that come from outside of the SM, and of instructions. */
struct chain {
    uint64_t all, far, instructions;
};

/* What lanes have done; loads, from outside of the SM. */
struct lane_work {
    uint64_t instructions, loads, load_bytes;
};

struct gpusim_counts {
    uint64_t grids, blocks;
    uint64_t instructions;      /* of warps */
    uint64_t lane_instructions; /* of lanes */
    uint64_t fences[3];         /* by scope: block, GPU, system; a release implies one */
    uint64_t acquires;          /* loads of lanes that order what comes after them */
    uint64_t barriers;          /* per block that came together */
    uint64_t beside;        /* bytes that a block's lanes load between the two barriers around a fence of the system */
    uint64_t loads, stores; /* of lanes, to memory outside of the SM */
    uint64_t load_bytes, store_bytes;
    uint64_t multi_loads, multi_stores; /* those by a multicast address */
    uint64_t polls;                     /* strong loads of lanes */
    uint64_t remote_polls;              /* those of memory that does not lie on the lane's GPU … */
    uint64_t peer_polls;                /* … but on another one */
    uint64_t remote_store_bytes;
    uint64_t looks; /* polls of a lane that were under way at once count as one */
    uint64_t waits; /* runs of looks of one lane that begin at one address */
    uint64_t flights,
        flight_bytes; /* of a lane's loads before it used the first of them: how often, and how many bytes in all */
    /* If gpusim_chains() says so, of all blocks, without looks that found nothing: */
    struct chain chain; /* the sum of their longest */
    struct lane_work lane_work;
};
void gpusim_chains(bool counts);
void gpusim_counts(uint32_t device, struct gpusim_counts *counts);
void gpusim_counts_clear(void);

#endif
