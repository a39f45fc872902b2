/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs, as the rest of collet sees them: a driver, which is tables of functions, and what one rank keeps on its GPU.
 *
 *    struct gpu_driver   cuda.c (a build with nvcc), or one that a test emulates; NULL where there is neither. Four tables:
 *                        memory, what shares memory with others, teams of GPUs, and work in streams
 *    struct gpu_rank     one rank of one communicator: its GPU, small memory there, the place of its newest operation
 *
 * GPUs have CUDA's numbers (ordinals) of this process. Streams and events are CUDA's, seen as void *. Every function may be
 * called by any thread; none waits for work on a GPU unless it says so. Pointers are good on the host and on GPUs alike
 * (unified addressing), as far as the memory behind them can be reached.
 */
#ifndef COLLET_LAYERS_GPU_GPU_H
#define COLLET_LAYERS_GPU_GPU_H

#include "seams/gpu.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_HANDLE_BYTES 64
#define GPU_MODEL_BYTES 64

/* What memory of a GPU is called in other processes: by some bytes, or by a descriptor that they have to be given. */
struct gpu_name {
    uint64_t bytes; /* of the memory, with what it was rounded up by */
    int32_t fd;     /* −1: the handle is all there is to it */
    char handle[GPU_HANDLE_BYTES];
};

/* What a call of collet changes in the calling thread and restores; the driver's own. */
struct gpu_scope {
    int ordinal, capture_mode;
};
#define GPU_CAPTURE_MODE_KEPT (-1)

/* What a GPU does for NICs that read and write its memory (GPUDirect RDMA). */
struct gpu_direct {
    bool exports_dmabuf; /* ranges of its memory, as dma-bufs */
    bool ordered;        /* its kernels see what a NIC wrote as soon as the NIC says that it is written */
    bool flushes;        /* where they do not: the driver's flush() makes them */
};

/* A driver's memory; on the GPU that is entered. To free it waits for what runs on the GPU, be it for this rank that it waits.
 * So destroy() and its like only give back; what nobody takes again, sweep() frees. */
struct gpu_memory {
    enum collet_result (*create)(size_t bytes, void **memory_p); /* zeroed */
    void (*destroy)(void *memory);                               /* NULL is fine, here and below */
    void (*destroy_now)(void *memory); /* the same, and frees it: may wait for the GPU. Of gpu_sharing.create() too */
    enum collet_result (*pinned_create)(size_t bytes, void **memory_p); /* of the host, for every GPU; zeroed */
    void (*pinned_destroy)(void *memory);
    enum collet_result (*pin)(void *memory, size_t bytes, void **device_p); /* pages of the host, mapped already */
    void (*unpin)(void *memory, size_t bytes);                              /* and unmaps them, now or later */
    void (*sweep)(void);                                                    /* no rank of the process is on a GPU */
    enum collet_result (*clear)(void *memory, size_t bytes);                /* zeroes it again; complete on return */
    /* Copies to memory of the GPU, or from there; complete on return. */
    enum collet_result (*write)(void *to, const void *from, size_t bytes);
};

/* Memory of a GPU, for other GPUs, other processes and NICs. */
struct gpu_sharing {
    /* Can kernels on GPU `ordinal` reach memory of GPU `other`? Opens nothing. */
    bool (*can_reach)(int ordinal, int other);
    /* From now on they do; false: they cannot. Both are open. */
    bool (*open_peer)(int ordinal, int other);
    /* Do 128 bytes that 8 lanes of a kernel on GPU `ordinal` store together arrive whole in memory of `other`? Opens nothing. */
    bool (*keeps_lines)(int ordinal, int other);

    /* Memory that other processes can attach, zeroed, and its name, whose descriptor is the caller's to close. A driver
     * may refuse one kind of name or the other. GPUs of this process that have opened its GPU as a peer reach it. */
    enum collet_result (*create)(size_t bytes, bool by_fd, void **memory_p, struct gpu_name *name);
    void (*destroy)(void *memory, const struct gpu_name *name);
    /* In another process, where name->fd is what that process was given; it may be closed afterwards. */
    enum collet_result (*attach)(const struct gpu_name *name, void **memory_p);
    void (*detach)(void *memory, const struct gpu_name *name);
    /* To unmap memory waits for what runs on the GPU, be it for this rank that it waits. So destroy(), detach() and the end of a
     * team only give back. This unmaps what was given back on the GPU. No rank of the process has work there. */
    void (*sweep)(int ordinal);

    struct gpu_direct (*direct)(int ordinal); /* opens nothing */
    /* A file descriptor, from now on the caller's, for `bytes` of what memory->create() made on the GPU that is entered;
     * whole pages. −1 and errno: it cannot be. */
    int (*export_dmabuf)(void *memory, size_t bytes);
    /* What NICs have written into the memory of the GPU that is entered is there for its kernels on return. */
    enum collet_result (*flush)(void);
};

/* Memory of several GPUs under one address (multicast): what a kernel stores there all of them have, and what it loads there is a
 * sum of what they have (kernels/cuda/block_team.cuh). Each GPU of a team is one rank's, and binds one buffer.
 *
 *    create, by one ─▶ open, by the others ─▶ join ── all meet ──▶ bind ── all meet ──▶ map ── all meet ──▶ of use
 */
struct gpu_team {
    uint64_t object;      /* the driver's; 0: none */
    uint64_t bytes;       /* of the longest buffer */
    uint64_t bound_bytes; /* of the buffer of this rank; 0: none is bound yet */
    int32_t ordinal;      /* the GPU that has it */
    void *address;        /* where that GPU has the team; NULL: it is not mapped */
};

struct gpu_teams {
    bool (*can_join)(int ordinal); /* opens nothing */
    /* For so many GPUs. The descriptor is the caller's. */
    enum collet_result (*create)(int ngpus, uint64_t bytes, struct gpu_team *team, int *fd_p);
    enum collet_result (*open)(int fd, uint64_t bytes, struct gpu_team *team); /* the descriptor stays the caller's */
    /* The GPU that is entered. Each may wait until all have done what comes before it. */
    enum collet_result (*join)(struct gpu_team *team);
    enum collet_result (*bind)(struct gpu_team *team, void *memory,
                               uint64_t bytes); /* of gpu_sharing.create(), by descriptor */
    enum collet_result (*map)(struct gpu_team *team);
    void (*end)(struct gpu_team *team); /* however far it has come; nothing uses the address any more */
};

/* Where work of a stream is put now. A handle is no identity: it may name another stream in another thread, or later. */
struct gpu_place {
    void *stream;
    uint64_t id;      /* of the stream; 0 in a capture */
    uint64_t capture; /* 0: none */
};

/* What a stream does with a word of pinned memory, by itself: it runs no kernel for that. */
struct gpu_word_op {
    uint32_t *word; /* as GPUs see it */
    uint32_t value;
    bool waits; /* until the word has this value; else the value is written */
};

/* Work, in stream order. */
struct gpu_streams {
    enum collet_result (*event_create)(void **event_p);
    void (*event_destroy)(void *event);
    /* external: during a capture, of the event as it is whenever the graph runs, not of one inside the graph. */
    enum collet_result (*record)(void *event, void *stream, bool external);
    enum collet_result (*wait)(void *stream, void *event, bool external);
    /* IN_PROGRESS: there is work before the event that is not done. A failure: the GPU's, whoever's work has caused it. */
    enum collet_result (*query)(void *event);
    /* The capture that a stream is in: a number that only this one has; 0: it is in none. */
    enum collet_result (*capture)(void *stream, uint64_t *capture_p);
    /* What no other stream of the process has, ever; not 0. A stream in a capture must not be asked: that would spoil the capture. */
    enum collet_result (*id)(void *stream, uint64_t *id_p);
    enum collet_result (*copy)(void *to, const void *from, size_t bytes, void *stream);
    bool (*has_words)(void); /* words() works */
    /* One after the other. Whoever sees what is written, on GPU or host, sees what came before it in the stream. */
    enum collet_result (*words)(const struct gpu_word_op *ops, uint32_t nops, void *stream);
    /* The host calls function(argument) when it is its turn, at each replay of a graph too; it may not use GPUs. */
    enum collet_result (*call)(void (*function)(void *argument), void *argument, void *stream);
    enum collet_result (*launch)(const void *kernel, uint32_t blocks, uint32_t lanes, const void *argument,
                                 void *stream);
    /* Blocks of any kernel that run at the same time on an open GPU, if nothing else runs there. */
    uint32_t (*resident)(int ordinal);
};

static inline enum collet_result gpu_place_in(const struct gpu_streams *streams, void *stream, uint64_t capture,
                                              struct gpu_place *place) {
    *place = (struct gpu_place){.stream = stream, .capture = capture};
    return capture != 0 ? COLLET_SUCCESS : streams->id(stream, &place->id);
}

struct gpu_kernels;

struct gpu_driver {
    const struct gpu_kernels *kernels; /* kernels.h */
    uint32_t max_lanes;                /* threads of a block */
    const struct gpu_memory *memory;
    const struct gpu_sharing *sharing;
    const struct gpu_teams *teams; /* NULL: the driver knows none */
    const struct gpu_streams *streams;

    /* How many GPUs this process sees; 0 also without a driver, and then *why says why. */
    int (*count)(const char **why);
    /* The GPU that is current in the calling thread. */
    enum collet_result (*current)(int *ordinal);
    /* Makes GPU `ordinal` ready: its context, and every kernel loaded, since loading one while another spins may never
     * end. */
    enum collet_result (*open)(int ordinal);
    /* PCI domain, bus and device: the same number in every process. Parts of one GPU (MIG) have the same. */
    uint32_t (*bus)(int ordinal);
    /* Not 0; the same number in every process, and no other GPU or part of one has it. */
    uint64_t (*identity)(int ordinal);
    uint32_t (*capability)(int ordinal); /* major · 10 + minor */
    /* What its maker calls such GPUs: "NVIDIA H200"; "": the driver does not say. */
    void (*model)(int ordinal, char name[GPU_MODEL_BYTES]);
    /* Do processes that share it have it one after the other, for a slice of time each? So it is without MPS. Opens nothing. */
    bool (*takes_turns)(int ordinal);

    /* Makes `ordinal` current in this thread, and calls that are none of a capture legal during one; undone by leave. */
    struct gpu_scope (*enter)(int ordinal);
    /* The same with fewer calls of the driver, where work is put into streams and nothing else. */
    struct gpu_scope (*enter_streams)(int ordinal);
    void (*leave)(struct gpu_scope scope);
};

/* Do kernels on this GPU know teams, and does its driver? */
static inline bool gpu_can_team(const struct gpu_driver *driver, int ordinal) {
    return driver->teams != NULL && driver->teams->can_join(ordinal);
}

/* The driver of this build; NULL in a build without CUDA (registry.c). */
const struct gpu_driver *gpu_driver(void);

/* A GPU is entered until the block ends. */
#define GPU_ENTERED(driver, ordinal)                                                                                   \
    struct gpu_entered gpu_entered_ __attribute__((cleanup(gpu_leave), unused)) = {driver, (driver)->enter(ordinal)}
struct gpu_entered {
    const struct gpu_driver *driver;
    struct gpu_scope scope;
};
static inline void gpu_leave(const struct gpu_entered *entered) { entered->driver->leave(entered->scope); }

/* For tests: from now on this one. */
void gpu_driver_use(const struct gpu_driver *driver);

/* "0000:4a:00.0", as topologies name PCI functions. */
#define GPU_BUSID_BYTES 24
void gpu_busid(int ordinal, char text[GPU_BUSID_BYTES]);

/* ---- one rank ---- */

struct gpu_chunk;
struct gpu_mark;

struct gpu_rank {
    struct gpu_rank *next; /* of the process */
    const struct gpu_driver *driver;
    int ordinal;
    int sharers;  /* the most ranks of the communicator that are on one GPU (planner_create()) */
    void *status; /* GPU_STATUS_BYTES of pinned memory, for the executor */
    struct gpu_chunk *chunks;
    /* Operations of one communicator run in their order, whichever streams they are given: */
    void *done, *done_in_capture; /* events behind the newest operation, if it is this rank's alone */
    struct gpu_mark *mark;        /* behind one of several ranks; NULL: the newest operation is this rank's alone */
    void *ready;                  /* an event behind what a stream has, for an operation in another stream */
    bool any;                     /* was there an operation? */
    struct gpu_place newest;      /* of the newest one */
    /* An operation of words may tell by its last one that it is over: that spares the events. */
    uint32_t *turn;    /* in pinned memory: the newest that has told so … */
    uint32_t turns;    /* … and the newest that will */
    bool tells;        /* the newest operation does */
    bool in_graphs;    /* some operation is: replays wait for the events */
    bool is_putting;   /* between gpu_rank_before() and gpu_ranks_after() */
    uint64_t meetings; /* of all ranks, before first uses of programs */
};
#define GPU_STATUS_BYTES 256

enum collet_result gpu_rank_create(int ordinal, struct gpu_rank **rank_p);
void gpu_rank_destroy(struct gpu_rank *rank); /* its operations are done; NULL is fine */

/* IN_PROGRESS: there are some that are not done. A failure: the GPU's. By any thread, in a capture of another one too. */
enum collet_result gpu_rank_query(const struct gpu_rank *rank);

/* Waits for its operations, limit_ns at most (0: for as long as they take); false if they were not done by then. */
bool gpu_rank_wait(const struct gpu_rank *rank, uint64_t limit_ns);

/* Unmaps what ranks have detached on its GPU. False: not now, since another rank of the process has work there, or may have:
 * programs replay graphs without a word. The rank's own work is done. */
bool gpu_rank_detach_all(const struct gpu_rank *rank);

/* Zeroed memory on its GPU that lives as long as the rank, 256-byte aligned. Its GPU is entered. */
enum collet_result gpu_rank_take(struct gpu_rank *rank, size_t bytes, void **memory_p);

/* Puts the rank's next operation behind its newest one. */
enum collet_result gpu_rank_before(struct gpu_rank *rank, const struct gpu_place *place);
/* The operation, of all these ranks of one GPU, is in. One event stands behind it, whatever their number. */
enum collet_result gpu_ranks_after(struct gpu_rank *const *ranks, int nranks, const struct gpu_place *place);
/* Between these two, for a rank alone: what the operation's stream is to do last, so that it tells by itself that it is over. False:
 * nothing. */
bool gpu_rank_turn(struct gpu_rank *rank, const struct gpu_place *place, struct gpu_word_op *last);

/* What an operation in another stream has to wait for: rank->ready stands behind what is in the stream now. And the other way round:
 * what comes in the stream waits for the rank's newest operation, which is in `place`. */
enum collet_result gpu_rank_ready(struct gpu_rank *rank, void *stream);
enum collet_result gpu_rank_follow(const struct gpu_rank *rank, const struct gpu_place *place, void *stream);

/* One operation: copies behind what is in both streams, and before what comes in them. */
enum collet_result gpu_rank_copy(struct gpu_rank *rank, void *to, const void *from, size_t bytes, void *stream,
                                 void *other);

#endif
