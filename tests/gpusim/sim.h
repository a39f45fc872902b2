/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated machine with GPUs: CUDA's runtime on the CPU, for programs that nvcc made.
 *
 *    program, library ──▶ cuda…() ──▶ streams: queues of operations ──▶ one thread, the engine ──▶ machine.h: blocks of
 *                          (cuda_calls.c)   (cuda_streams.c, cuda_graphs.c)             (cuda_engine.c)                 lanes run PTX
 *                             │                                              │
 *                             └──▶ cuda_memory.c, cuda_share.c, cuda_copies.c: ranges of addresses, which GPU may use them, copies
 *
 * It keeps what CUDA's documentation promises, and as little more as it can:
 *
 *    addresses     a GPU touches what it has a right to; what is freed stays free
 *    new memory    is full of 0xA5
 *    copies        from pageable memory land late (cuda_copies.c)
 *    waiting       cudaFree and the like, and first uses of kernels, wait for the kernels that run, and every other call waits for such a
 *                  call
 *    queues        are finite; a launch into a full one waits, and every other call waits for it
 *    streams       share 8 queues of the hardware; a stream's address is used again as soon as the stream is destroyed
 *    sharing       memory that is freed while another process has it open ends the process that frees it; processes take turns on a GPU
 *                  (cuda_slices.c) or share its multiprocessors (cuda_mps.c), if they are told so
 *
 * What the machine is, the environment says (cuda_devices.c). One lock guards all that this process knows of it.
 */
#ifndef COLLET_GPUSIM_SIM_H
#define COLLET_GPUSIM_SIM_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_GPUS_MAX 16

/* A place in a stream: reached when the stream has done so many operations. */
struct sim_mark {
    struct sim_stream *stream; /* NULL: it is reached */
    uint64_t position;
};

/* ---- calls (cuda_calls.c) ---- */

enum sim_safety { SIM_SAFE, SIM_UNSAFE /* not legal while a stream is in capture */ };

/* One call of the program, which holds the lock until its block ends. */
struct sim_call {
    cudaError_t error; /* the call is to return it at once */
};
struct sim_call sim_enter(const char *name, enum sim_safety safety);
void sim_leave(struct sim_call *call);
#define SIM_CALL(safety)                                                                                               \
    struct sim_call call_ __attribute__((cleanup(sim_leave), unused)) = sim_enter(__func__, safety);                   \
    if (call_.error != cudaSuccess)                                                                                    \
    return sim_result(call_.error)

/* The same in a function of the driver, whose errors have the runtime's numbers. */
#define SIM_DRIVER_CALL(safety)                                                                                        \
    struct sim_call call_ __attribute__((cleanup(sim_leave), unused)) = sim_enter(&__func__[4], safety);               \
    if (call_.error != cudaSuccess)                                                                                    \
    return (CUresult)call_.error

/* What a stream calls (cudaLaunchHostFunc): it may not call CUDA. */
void sim_host_function(void (*function)(void *argument), void *argument);

cudaError_t sim_result(cudaError_t error); /* becomes the thread's last error */

/* With the lock: waits until something changes; lets other calls through, or keeps all of them out. */
void sim_wait(void);
void sim_wait_briefly(void); /* or until some other process may have changed something */
void sim_wait_blocking(void);
void sim_changed(void);

/* The program has broken a rule that a GPU would not have noticed. Does not return. */
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

void sim_lock(void); /* for threads of the simulation itself */
void sim_unlock(void);

uint64_t sim_number(const char *variable, uint64_t otherwise); /* of the environment */
uint64_t sim_chance(uint64_t n);                               /* below n, as the seed has it; with the lock */
uint64_t sim_now_ns(void);

/* ---- devices (cuda_devices.c) ---- */

struct sim_device {
    int ordinal;
    int gpu, instance;         /* which of the machine's; which part of it, 0: all */
    bool has_context;          /* of this process */
    uint64_t context;          /* its number; another one behind a reset */
    uint32_t place;            /* in machine.h */
    uint32_t peers;            /* bit k: it has access to the device of ordinal k */
    uint32_t pool;             /* bit k: that device has access to its default pool */
    cudaError_t failed;        /* sticky */
    struct sim_stream *legacy; /* the default stream */
    struct sim_stream *copies; /* whose copy the copy engine is at; NULL: it is free */
    uint32_t pending;          /* kernels in its streams */
    bool has_slice;            /* of time */
    uint64_t slice_ns;         /* when that began, by the GPU's clock */
};
int sim_device_count(void);
struct sim_device *sim_device(int ordinal); /* NULL: there is none */
/* The calling thread's, whose context is made by this. */
struct sim_device *sim_device_here(void);
cudaError_t sim_device_failed(void); /* of the calling thread's device */
int sim_capability(const struct sim_device *device);

enum sim_link { LINK_NONE, LINK_PCI, LINK_NVL };
enum sim_link sim_link(uint32_t place, uint32_t other); /* of devices */

/* ---- what joins GPUs, and where they are (cuda_links.c) ---- */

void sim_links_read(int gpus);
enum sim_link sim_gpus_link(int gpu, int other);
const char *sim_gpu_bus(int gpu); /* 0000:10:00.0 */

/* ---- memory (cuda_memory.c, cuda_share.c) ----
 *
 * The machine (machine.h) knows which GPU may touch which addresses; here is what the runtime knows besides. Memory of a GPU is
 * a file without a name, so that other processes can have it.
 */

enum sim_memory {
    MEMORY_OF_GPU,
    MEMORY_OF_POOL,
    MEMORY_MANAGED,
    MEMORY_PINNED,
    MEMORY_REGISTERED,
    MEMORY_IMPORTED,
    MEMORY_MAPPED,
    MEMORY_MULTICAST,
};

struct sim_range {
    struct sim_range *next;
    char *base;
    size_t bytes;
    enum sim_memory kind;
    struct sim_device *device; /* that it was made on, or opened for */
    struct sim_file *file;     /* OF_GPU, IMPORTED, MAPPED */
    bool has_handle;           /* another process may have what the file holds */
    uint64_t handle;           /* IMPORTED: who made the file, and what it calls it … */
    int opened;                /* … and how often that is open here */
};
struct sim_range *sim_range_at(const void *address); /* NULL: the runtime knows nothing of it */
enum cudaMemoryType sim_type_of(const struct sim_range *range);
cudaError_t sim_range_add(enum sim_memory kind, void *base, size_t bytes, uint32_t owner, struct sim_range **range_p);
void sim_range_remove(struct sim_range *range);
struct sim_range *sim_range_opened(uint64_t handle);
void sim_range_close(struct sim_range *range); /* one that a handle has opened */

void *sim_addresses_take(size_t bytes); /* that nobody has had before; NULL: none are left */
bool sim_addresses_back(void *base, size_t bytes, int fd, size_t offset); /* with a file; fd −1: with nothing */

/* A GPU of a multicast object, and what it has bound. */
struct sim_member {
    uint32_t place;
    int32_t pid, fd;
    uint64_t address; /* in that process; 0: nothing is bound */
};
struct sim_team {
    uint32_t wanted, added; /* wanted 0: the file is memory */
    struct sim_member members[SIM_GPUS_MAX];
};

#define SIM_HEAD_BYTES ((size_t)4096)
#define SIM_USERS_MAX 32
#define SIM_GRANULE ((size_t)2 << 20)
struct sim_file_head {
    uint32_t place; /* of the GPU */
    int32_t is_freed;
    uint64_t bytes;
    int32_t users[SIM_USERS_MAX]; /* processes that have it open; 0: a free entry */
    struct sim_team team;
};
struct sim_file {
    int fd;
    struct sim_file_head *head; /* as all processes that have it see it */
    int pieces;                 /* of cudaMalloc()'s that lie in it */
    char *base;
};
struct sim_file *sim_file_make(size_t bytes, uint32_t place); /* NULL: no memory */
/* Multicast objects (cuda_multicast.c). Does a switch join the device to all others? */
bool sim_multicasts(const struct sim_device *device);
CUresult sim_team_map(const struct sim_file_head *head, void *base);
/* The memory of `device`, mapped at *base_p. */
cudaError_t sim_file_create(size_t bytes, const struct sim_device *device, struct sim_file **file_p, void **base_p);
/* Nobody else may have it open any more. */
void sim_file_expect_no_user(const struct sim_file *file);
void sim_file_destroy(struct sim_file *file);

/* ---- streams (cuda_streams.c) ---- */

enum sim_op_kind { OP_KERNEL, OP_COPY, OP_SET, OP_HOST, OP_WORDS, OP_RECORD, OP_WAIT };

struct sim_op {
    struct sim_op *next;
    enum sim_op_kind kind;
    bool has_begun, has_ended;
    uint64_t number;    /* among all that the process has put into streams */
    uint64_t begins_ns; /* not before; 0: at any time */
    int nwaits;
    struct sim_mark *waits;
    struct sim_launch *launch; /* KERNEL: its own */
    struct gpusim_grid *grid;  /* KERNEL that has begun */
    char *to, *from;           /* COPY; SET: to */
    char *staged;              /* COPY: its own copy of what lay at `from`; NULL: none */
    size_t bytes, moved;
    CUstreamBatchMemOpParams *words;  /* WORDS: its own */
    unsigned nwords, word;            /* the one that it is at */
    int value;                        /* SET */
    void (*function)(void *argument); /* HOST */
    void *argument;
    struct sim_event *event; /* RECORD; WAIT in a graph, for it as it is when the graph is launched */
};

struct sim_stream {
    struct sim_stream *next; /* of all that ever were */
    unsigned long long id;
    struct sim_device *device;
    struct sim_op *first, **end;
    uint64_t put, done;
    bool waits_for_none; /* cudaStreamNonBlocking */
    bool is_gone;        /* with its device's context */
    struct sim_capture *capture;
    struct sim_nodes *frontier; /* in a capture: the nodes that the stream's next one comes behind */
};
extern struct sim_stream *sim_streams;

/* The stream that a handle names, of the current device where the handle does not say it; NULL: none. */
struct sim_stream *sim_stream_of(cudaStream_t handle);
struct sim_stream *sim_stream_create(struct sim_device *device, bool waits_for_none);
/* Takes a copy of *text, whose launch and staged memory become the stream's. In a capture it becomes a node. */
cudaError_t sim_put(struct sim_stream *stream, const struct sim_op *text);
/* The same behind these places too, whether there is a capture or not. */
void sim_put_behind(struct sim_stream *stream, const struct sim_op *text, const struct sim_mark *marks, int n);
struct sim_mark sim_mark_of(const struct sim_stream *stream); /* behind all that is in it */
bool sim_is_reached(struct sim_mark mark);
/* Until it is reached; lets other calls through. */
cudaError_t sim_wait_for(struct sim_mark mark, const struct sim_device *device);
/* Until nothing is under way on the device (NULL: on any); keeps other calls out. */
void sim_wait_for_kernels(const struct sim_device *device);
/* What cudaDeviceReset() ends: streams, events, memory, kernels that are loaded. Nothing is under way on the device. */
void sim_streams_end(struct sim_device *device);
void sim_memory_end(const struct sim_device *device);
void sim_kernels_unload(const struct sim_device *device);
/* The first operation of a stream is over. With the lock. */
void sim_op_ended(struct sim_stream *stream);

struct sim_event {
    struct sim_event *next; /* of all that ever were: operations and graphs refer to them */
    bool is_destroyed;
    const struct sim_device *device; /* whose streams record it */
    struct sim_mark mark;
    uint64_t reached_ns;
    bool keeps_time;
    struct sim_capture *capture; /* recorded in it; NULL: not */
    struct sim_nodes *frontier;
};

/* ---- captures and graphs (cuda_graphs.c) ---- */

cudaError_t sim_capture_put(struct sim_stream *stream, const struct sim_op *text);
cudaError_t sim_capture_record(struct sim_stream *stream, struct sim_event *event);
cudaError_t sim_capture_wait(struct sim_stream *stream, const struct sim_event *event);
/* An unsafe call: is it legal now, by this thread? If not, the captures in its way are spoiled. */
bool sim_capture_permits(void);
/* A call that no capture of this stream survives. */
cudaError_t sim_capture_spoil(struct sim_stream *stream, cudaError_t error);
/* Does a stream of the device capture that waits for its default stream? */
bool sim_capture_is_around(const struct sim_device *device);
/* Work in this stream, or a question about it: false if it is the default stream, and spoils such captures. */
bool sim_capture_permits_legacy(const struct sim_stream *stream);
bool sim_captures_permit_waiting(const struct sim_device *device); /* the same, for all streams of it */
void sim_capture_of_event_spoil(const struct sim_event *event);

/* ---- kernels (cuda_kernels.c), the engine (cuda_engine.c) ---- */

struct sim_launch {
    const struct gpusim_kernel *kernel;
    uint32_t grid[3], block[3], shared;
    size_t argument_bytes;
    unsigned char arguments[];
};
struct sim_launch *sim_launch_copy(const struct sim_launch *launch);
CUstreamBatchMemOpParams *sim_words_copy(const CUstreamBatchMemOpParams *words, unsigned nwords);

/* Starts the thread when there is first something to do. */
void sim_engine_start(void);

/* ---- slices of time (cuda_slices.c) ---- */

/* Takes GPUs that this process has a use for, and gives up others. True: there are some that it may not have yet. */
bool sim_slices_take(bool (*wants)(const struct sim_device *device));
bool sim_slice_is_ours(const struct sim_device *device);
/* What the processes of a machine have in common, a file: mapped, and its descriptor. */
void *sim_machine_open(size_t bytes, int *file_p);

/* ---- MPS (cuda_mps.c) ---- */

uint64_t sim_mps_percent(void); /* 0: there is none */
uint32_t sim_mps_sms(void);     /* that this process sees */
void sim_mps_begin(void);

#endif
