/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs, as the rest of collet sees them: a driver, which is tables of functions, and what one rank keeps on its GPU.
 *
 *    struct gpu_driver   cuda.c (a build with nvcc), or one that a test emulates; NULL: there is neither. Four tables:
 *                        memory, sharing of memory with others, teams of GPUs, and work in streams
 *    struct gpu_rank     one rank of one communicator: its GPU, small memory there, the place of its newest operation
 *
 * GPUs have CUDA's numbers (ordinals) of this process. Streams and events are CUDA's, seen as void *. Every function may be
 * called by any thread; none waits for work on a GPU unless its comment says so. A pointer is the same on the host and on
 * GPUs (unified addressing), if the memory behind it can be reached from there.
 */
#ifndef COLLET_LAYERS_GPU_GPU_H
#define COLLET_LAYERS_GPU_GPU_H

#include "seams/gpu.h"

#include <stdbool.h>
#include <stdint.h>

#define GPU_HANDLE_BYTES 64
#define GPU_MODEL_BYTES 64

/* How other processes name memory of a GPU: by a handle of some bytes, or by a descriptor that has to be passed to them. */
struct gpu_name {
    uint64_t bytes; /* bytes of the memory; the driver has rounded them up */
    int32_t fd;     /* −1: the name is the handle alone */
    char handle[GPU_HANDLE_BYTES];
};

/* The state of the calling thread that a call of collet changes and then restores. It belongs to the driver. */
struct gpu_scope {
    int ordinal, capture_mode;
};
#define GPU_CAPTURE_MODE_KEPT (-1)

/* The abilities of a GPU for NICs that read and write its memory (GPUDirect RDMA). */
struct gpu_direct {
    bool exports_dmabuf; /* the GPU exports ranges of its memory as dma-bufs */
    bool ordered;        /* kernels see the bytes that a NIC wrote as soon as the NIC reports the write */
    bool flushes;        /* if not ordered: the driver's flush() makes the bytes visible */
};

/* The memory of a driver, on the GPU that is entered. To free memory waits for all that runs on the GPU. That may be a kernel that waits
 * for this rank. So destroy() and pinned_destroy() only give memory back: it may be taken again, and sweep() frees the rest. */
struct gpu_memory {
    enum collet_result (*create)(size_t bytes, void **memory_p); /* zeroed */
    void (*destroy)(void *memory);                               /* NULL is fine, here and below */
    void (*destroy_now)(
        void *memory); /* frees at once, so it may wait for the GPU. Also takes memory of gpu_sharing.create() */
    enum collet_result (*pinned_create)(size_t bytes,
                                        void **memory_p); /* zeroed memory of the host that every GPU may use */
    void (*pinned_destroy)(void *memory);
    enum collet_result (*pin)(void *memory, size_t bytes,
                              void **device_p);              /* makes mapped pages of the host usable for GPUs */
    void (*unpin)(void *memory, size_t bytes);               /* undoes pin(), and unmaps the pages, now or later */
    void (*sweep)(void);                                     /* call it when no rank of the process is on a GPU */
    enum collet_result (*clear)(void *memory, size_t bytes); /* zeroes memory; complete on return */
    /* Copies to memory of the GPU, or from there; complete on return. */
    enum collet_result (*write)(void *to, const void *from, size_t bytes);
    /* Is this memory of a GPU, or memory of the host that GPUs may use? */
    bool (*is_for_gpus)(const void *address);
};

/* Memory of a GPU, for other GPUs, other processes and NICs. */
struct gpu_sharing {
    /* Can kernels on GPU `ordinal` reach memory of GPU `other`? Opens nothing. */
    bool (*can_reach)(int ordinal, int other);
    /* From now on kernels on GPU `ordinal` reach memory of GPU `other`. Both GPUs are open. False: they cannot reach it. */
    bool (*open_peer)(int ordinal, int other);
    /* Do 128 bytes that 8 lanes of a kernel on GPU `ordinal` store together arrive whole in memory of `other`? Opens nothing. */
    bool (*keeps_lines)(int ordinal, int other);

    /* Makes zeroed memory that other processes can attach, and its name. The caller closes the name's descriptor. A driver may refuse one
     * of the two kinds of name. GPUs of this process that have opened this GPU as a peer reach the memory. */
    enum collet_result (*create)(size_t bytes, bool by_fd, void **memory_p, struct gpu_name *name);
    void (*destroy)(void *memory, const struct gpu_name *name);
    /* Maps memory of another process. name->fd is the descriptor that this process was given. It may be closed afterwards. */
    enum collet_result (*attach)(const struct gpu_name *name, void **memory_p);
    void (*detach)(void *memory, const struct gpu_name *name);
    /* To unmap memory waits for all that runs on the GPU. That may be a kernel that waits for this rank. So destroy(), detach() and the end
     * of a team only give memory back. sweep() unmaps what was given back on the GPU. Call it when no rank of the process has work there. */
    void (*sweep)(int ordinal);

    struct gpu_direct (*direct)(int ordinal); /* opens nothing */
    /* Returns a dma-buf for `bytes` (whole pages) of memory that memory->create() made on the GPU that is entered. The caller owns the
     * descriptor. −1 and errno: it is not possible. */
    int (*export_dmabuf)(void *memory, size_t bytes);
    /* On return, kernels of the GPU that is entered see all bytes that NICs have written into its memory. */
    enum collet_result (*flush)(void);
};

/* Memory of several GPUs under one address (multicast). A store to the address stores on all these GPUs. A load from it returns the sum of
 * their contents (kernels/cuda/block_team.cuh). Each GPU of a team belongs to one rank, and binds one buffer.
 *
 *    create, by one ─▶ open, by the others ─▶ join ── all meet ──▶ bind ── all meet ──▶ map ── all meet ──▶ it can be used
 */
struct gpu_team {
    uint64_t object;      /* the driver's object; 0: none */
    uint64_t bytes;       /* bytes of the longest buffer */
    uint64_t bound_bytes; /* bytes of this rank's buffer; 0: none is bound yet */
    int32_t ordinal;      /* the GPU with that buffer */
    void *address;        /* the address of the team on that GPU; NULL: it is not mapped */
};

struct gpu_teams {
    bool (*can_join)(int ordinal); /* opens nothing */
    /* Makes a team of `ngpus` GPUs. The caller owns the descriptor. */
    enum collet_result (*create)(int ngpus, uint64_t bytes, struct gpu_team *team, int *fd_p);
    enum collet_result (*open)(int fd, uint64_t bytes, struct gpu_team *team); /* the caller keeps the descriptor */
    /* These three are for the GPU that is entered. Each may wait until all GPUs have done the step before. */
    enum collet_result (*join)(struct gpu_team *team);
    enum collet_result (*bind)(struct gpu_team *team, void *memory,
                               uint64_t bytes); /* memory of gpu_sharing.create(), named by descriptor */
    enum collet_result (*map)(struct gpu_team *team);
    void (*end)(struct gpu_team *team); /* ends a team in any state; nothing may use the address any more */
};

/* The place into which work for a stream goes now. A handle does not identify a stream: later, or in another thread, it may name another. */
struct gpu_place {
    void *stream;
    uint64_t id;      /* number of the stream; 0 in a capture */
    uint64_t capture; /* 0: none */
};

/* A stream memory operation on a word of pinned memory. It needs no kernel. */
struct gpu_word_op {
    uint32_t *word; /* as GPUs see it */
    uint32_t value;
    bool waits; /* true: waits until the word has this value; false: writes the value */
};

/* Work, in stream order. */
struct gpu_streams {
    enum collet_result (*event_create)(void **event_p);
    void (*event_destroy)(void *event);
    /* external: during a capture, the call means the event outside of the graph, in the state that it has whenever the graph runs. */
    enum collet_result (*record)(void *event, void *stream, bool external);
    enum collet_result (*wait)(void *stream, void *event, bool external);
    /* IN_PROGRESS: some work before the event is not done. A failure is a failure of the GPU, whoever has caused it. */
    enum collet_result (*query)(void *event);
    /* Stores the number of the capture that the stream is in. No other capture has this number. 0: the stream is in no capture. */
    enum collet_result (*capture)(void *stream, uint64_t *capture_p);
    /* Stores a number that no other stream of the process ever has; not 0. Never ask for a stream in a capture: that spoils the capture. */
    enum collet_result (*id)(void *stream, uint64_t *id_p);
    enum collet_result (*copy)(void *to, const void *from, size_t bytes, void *stream);
    bool (*has_words)(void); /* words() works */
    /* Does the operations one after the other. A GPU or host that sees a written value also sees everything before it in the stream. */
    enum collet_result (*words)(const struct gpu_word_op *ops, uint32_t nops, void *stream);
    /* The host calls function(argument) when the stream comes here, also at each replay of a graph. The function may not use GPUs. */
    enum collet_result (*call)(void (*function)(void *argument), void *argument, void *stream);
    enum collet_result (*launch)(const void *kernel, uint32_t blocks, uint32_t lanes, const void *argument,
                                 void *stream);
    /* The number of blocks of any kernel that can run at the same time on an open GPU, if nothing else runs there. */
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
    const struct gpu_teams *teams; /* NULL: the driver has no teams */
    const struct gpu_streams *streams;

    /* Returns the number of GPUs that this process sees. 0: there are none, or there is no driver; *why says which. */
    int (*count)(const char **why);
    /* Stores the GPU that is current in the calling thread. */
    enum collet_result (*current)(int *ordinal);
    /* Makes the context of GPU `ordinal`, and loads every kernel: to load one later, while another one spins, may never end. */
    enum collet_result (*open)(int ordinal);
    /* Returns PCI domain, bus and device in one number. It is the same in every process, and for all parts (MIG) of a GPU. */
    uint32_t (*bus)(int ordinal);
    /* Returns a number of the GPU, or of its part. It is the same in every process, is not 0, and is no other GPU's. */
    uint64_t (*identity)(int ordinal);
    uint32_t (*capability)(int ordinal); /* major · 10 + minor */
    /* Writes the name of the product: "NVIDIA H200"; "": the driver does not say it. */
    void (*model)(int ordinal, char name[GPU_MODEL_BYTES]);
    /* Do processes that share the GPU take turns, each for a slice of time? That is so without MPS. Opens nothing. */
    bool (*takes_turns)(int ordinal);

    /* Makes `ordinal` current in this thread. During a capture, also allows calls that belong to no capture. leave() undoes both. */
    struct gpu_scope (*enter)(int ordinal);
    /* Like enter(), with fewer calls of the driver, for a caller that only puts work into streams. */
    struct gpu_scope (*enter_streams)(int ordinal);
    void (*leave)(struct gpu_scope scope);
};

/* Do the driver and the kernels for this GPU know teams? */
static inline bool gpu_can_team(const struct gpu_driver *driver, int ordinal) {
    return driver->teams != NULL && driver->teams->can_join(ordinal);
}

/* The driver of this build; NULL in a build without CUDA (registry.c). */
const struct gpu_driver *gpu_driver(void);

/* Enters a GPU until the end of the block. */
#define GPU_ENTERED(driver, ordinal)                                                                                   \
    struct gpu_entered gpu_entered_ __attribute__((cleanup(gpu_leave), unused)) = {driver, (driver)->enter(ordinal)}
struct gpu_entered {
    const struct gpu_driver *driver;
    struct gpu_scope scope;
};
static inline void gpu_leave(const struct gpu_entered *entered) { entered->driver->leave(entered->scope); }

/* For tests: this driver is used from now on. */
void gpu_driver_use(const struct gpu_driver *driver);

/* Writes "0000:4a:00.0", as topologies name PCI functions. */
#define GPU_BUSID_BYTES 24
void gpu_busid(int ordinal, char text[GPU_BUSID_BYTES]);

/* ---- one rank ---- */

struct gpu_chunk;
struct gpu_mark;
struct gpu_signals;

struct gpu_rank {
    struct gpu_rank *next; /* next rank of the process */
    const struct gpu_driver *driver;
    int ordinal;
    int sharers;   /* maximum number of the communicator's ranks on one GPU (planner_create()) */
    bool together; /* all of the communicator's ranks are on this GPU, in this process */
    void *status;  /* GPU_STATUS_BYTES of pinned memory, for the executor */
    struct gpu_chunk *chunks;
    /* Operations of one communicator run in their order, even in different streams: */
    void *done, *done_in_capture; /* events behind the newest operation, if it belongs to this rank alone */
    struct gpu_mark
        *mark;   /* mark behind an operation of several ranks; NULL: the newest operation belongs to this rank alone */
    void *ready; /* an event behind the work of a stream, for an operation in another stream */
    bool any;    /* was there an operation? */
    struct gpu_place newest; /* place of the newest operation */
    /* An operation that ends with a write of a word may also write its number. Then no event is needed. */
    uint32_t *turn;              /* in pinned memory: the number of the newest operation that is over … */
    uint32_t turns;              /* … and the number of the newest operation that writes one */
    bool tells;                  /* the newest operation writes its number */
    bool in_graphs;              /* some operation is in a graph: its replays wait for the events */
    bool is_putting;             /* between gpu_rank_before() and gpu_ranks_after() */
    bool keeps_windows;          /* a transfer may still use the windows when the communicator ends (transfer.h) */
    struct gpu_signals *signals; /* signals from GPU to GPU (onesided.h); NULL: there has been no window */
    uint64_t meetings;           /* number of meetings of all ranks before the first use of a program */
};
#define GPU_STATUS_BYTES 256

enum collet_result gpu_rank_create(int ordinal, struct gpu_rank **rank_p);
void gpu_rank_destroy(struct gpu_rank *rank); /* call it when its operations are done; NULL is fine */

/* IN_PROGRESS: some operations are not done. Failures are failures of the GPU. Any thread may call it, also while another one captures. */
enum collet_result gpu_rank_query(const struct gpu_rank *rank);

/* Waits for the rank's operations, at most limit_ns (0: no limit). False: they are not done. */
bool gpu_rank_wait(const struct gpu_rank *rank, uint64_t limit_ns);

/* Unmaps the memory that ranks have detached on this rank's GPU. The rank's own work must be done. False: nothing was unmapped, because
 * another rank of the process has work there, or may have work: programs replay graphs without telling anybody. */
bool gpu_rank_detach_all(const struct gpu_rank *rank);

/* Takes zeroed memory on the rank's GPU, 256-byte aligned, until the rank is destroyed. The caller has entered the GPU. */
enum collet_result gpu_rank_take(struct gpu_rank *rank, size_t bytes, void **memory_p);

/* Makes the rank's next operation wait for its newest operation. */
enum collet_result gpu_rank_before(struct gpu_rank *rank, const struct gpu_place *place);
/* The operation of all these ranks of one GPU is in the stream. One event is put behind it, however many ranks there are. */
enum collet_result gpu_ranks_after(struct gpu_rank *const *ranks, int nranks, const struct gpu_place *place);
/* Called between gpu_rank_before() and gpu_ranks_after(), for an operation of one rank. True: the stream has to do *last at the end. That
 * tells that the operation is over. False: there is nothing to do. */
bool gpu_rank_turn(struct gpu_rank *rank, const struct gpu_place *place, struct gpu_word_op *last);

/* gpu_rank_ready() records rank->ready behind the present work of a stream: an operation in another stream can wait for it.
 * gpu_rank_follow() is the other way round: later work of the stream waits for the rank's newest operation, which is in `place`. */
enum collet_result gpu_rank_ready(struct gpu_rank *rank, void *stream);
enum collet_result gpu_rank_follow(const struct gpu_rank *rank, const struct gpu_place *place, void *stream);

/* Puts one operation: a copy that follows the present work of both streams, and comes before their later work. */
enum collet_result gpu_rank_copy(struct gpu_rank *rank, void *to, const void *from, size_t bytes, void *stream,
                                 void *other);

#endif
