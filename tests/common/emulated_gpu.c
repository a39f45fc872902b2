/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams as threads with a queue of tasks. See emulated_gpu.h.
 */
#include "common/emulated_gpu.h"

#include "base/err.h"
#include "base/mapping.h"
#include "base/os.h"
#include "common/emulated_kernels.h"
#include "layers/gpu/kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GPUS_MAX 8
#define LANES 8u

static int gpus = 2;
static uint32_t reach[GPUS_MAX] = {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u, ~0u}, resident_blocks = 64;
static uint32_t nvlink[GPUS_MAX]; /* as reach; none at first */
static bool handles_refused, words_refused, broken, waits_are_left_out;
static uint32_t launches, most_blocks;
static uint32_t opened; /* by bits */
static struct gpu_direct direct;
static void (*on_flush)(void);
static _Thread_local int current;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all streams and events */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct event {
    uint64_t recorded, reached; /* records put into streams, and come to there */
    int users; /* whoever made it, until it is destroyed, and tasks that are left: as with CUDA's events */
};

enum task_kind { LAUNCH, COPY, CALL, WORDS, RECORD, WAIT, DELAY };
struct task {
    struct task *next;
    enum task_kind kind;
    const void *kernel;
    uint32_t lanes;
    void *launch; /* LAUNCH: a copy of the kernel's argument */
    void *to;
    const void *from;
    size_t bytes;
    void (*function)(void *argument); /* CALL: of `to` */
    struct gpu_word_op *ops;          /* WORDS, nops of them */
    uint32_t nops;
    struct event *event;
    uint64_t until; /* WAIT: this many records; 0: those there are when the task is put into a stream */
    bool external;
    int delay_ms;
};

struct stream {
    struct task *first, **end;
    uint64_t id, put, done;
    uint64_t capture;      /* 0: none */
    struct task *captured; /* its work, in order */
    struct task **captured_end;
    bool over;
    pthread_t thread;
};

static struct stream *default_stream;
static uint64_t captures, stream_ids;

/* A kernel's address says which it is. */
static const char copy_kernel, signals_kernel, pieces_kernel, reduce_kernels[COLLET_OP_COUNT][COLLET_TYPE_COUNT];

static size_t bytes_of_launch(const void *kernel) {
    if (kernel == &signals_kernel)
        return sizeof(struct signal_launch);
    return kernel == &pieces_kernel ? sizeof(struct piece_launch) : sizeof(struct work_launch);
}

/* ---- tasks ---- */

static void run_launch(const struct task *task) {
    if (task->kernel == &signals_kernel) {
        emulated_signals(task->launch);
        return;
    }
    if (task->kernel == &pieces_kernel) {
        emulated_pieces(task->launch, task->lanes);
        return;
    }
    const struct work_launch *launch = task->launch;
    int reduces = task->kernel != &copy_kernel,
        index = reduces ? (int)((const char *)task->kernel - &reduce_kernels[0][0]) : 0;
    emulated_launch(launch, reduces, (enum collet_type)(index % COLLET_TYPE_COUNT),
                    (enum collet_op)(index / COLLET_TYPE_COUNT), task->lanes, launch->works[0].args.sequence + 1);
}

/* Other processes write these words too. */
static void run_words(const struct task *task) {
    for (const struct gpu_word_op *op = task->ops; op < task->ops + task->nops; op++)
        if (!op->waits)
            __atomic_store_n(op->word, op->value, __ATOMIC_RELEASE);
        else
            while (!waits_are_left_out && __atomic_load_n(op->word, __ATOMIC_ACQUIRE) != op->value)
                nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static void task_run(const struct task *task) {
    if (task->kind == LAUNCH)
        run_launch(task);
    else if (task->kind == WORDS)
        run_words(task);
    else if (task->kind == COPY)
        memmove(task->to, task->from, task->bytes);
    else if (task->kind == CALL)
        task->function(task->to);
    else if (task->kind == DELAY)
        nanosleep(&(struct timespec){.tv_nsec = task->delay_ms * 1000000l}, NULL);
    pthread_mutex_lock(&lock);
    if (task->kind == RECORD)
        task->event->reached++;
    while (task->kind == WAIT && task->event->reached < task->until)
        pthread_cond_wait(&changed, &lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void event_leave(void *event_) {
    struct event *event = event_;
    pthread_mutex_lock(&lock);
    bool last = --event->users == 0;
    pthread_mutex_unlock(&lock);
    if (last)
        free(event);
}

static void task_free(struct task *task) {
    if (task->event != NULL)
        event_leave(task->event);
    free(task->launch);
    free(task->ops);
    free(task);
}

static struct gpu_word_op *ops_copy(const struct gpu_word_op *ops, uint32_t nops) {
    struct gpu_word_op *copy = malloc(nops * sizeof(*copy));
    if (copy == NULL)
        abort();
    memcpy(copy, ops, nops * sizeof(*copy));
    return copy;
}

static void *stream_main(void *stream_) {
    struct stream *stream = stream_;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct task *task = stream->first;
        if (task == NULL && stream->over)
            break;
        if (task == NULL) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        stream->first = task->next;
        if (stream->first == NULL)
            stream->end = &stream->first;
        pthread_mutex_unlock(&lock);
        task_run(task);
        task_free(task);
        pthread_mutex_lock(&lock);
        stream->done++;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* With the lock. 2: cudaStreamPerThread. */
static struct stream *stream_of(void *stream) {
    static _Thread_local struct stream *own_stream;
    if ((uintptr_t)stream == 2)
        return own_stream = own_stream != NULL ? own_stream : emulated_stream_create();
    if (stream != NULL)
        return stream;
    if (default_stream == NULL)
        default_stream = emulated_stream_create();
    return default_stream;
}

/* With the lock: what a record or wait means is settled when it is put into a stream that runs. */
static void enqueue(struct stream *stream, struct task *task) {
    if (task->kind == RECORD)
        task->event->recorded++;
    if (task->kind == WAIT)
        task->until = task->event->recorded;
    task->next = NULL;
    *stream->end = task;
    stream->end = &task->next;
    stream->put++;
    pthread_cond_broadcast(&changed);
}

static enum collet_result put(void *stream_, const struct task *text) {
    struct task *task = malloc(sizeof(*task));
    if (task == NULL)
        return COLLET_ERR_NO_MEMORY;
    *task = *text;
    pthread_mutex_lock(&lock);
    if (task->event != NULL)
        task->event->users++;
    struct stream *stream = stream_of(stream_);
    if (stream->capture != 0) {
        *stream->captured_end = task;
        stream->captured_end = &task->next;
        task->next = NULL;
    } else {
        enqueue(stream, task);
    }
    pthread_mutex_unlock(&lock);
    return COLLET_SUCCESS;
}

/* ---- what tests call ---- */

void emulated_gpu_set(int count, const uint32_t *reach_masks, uint32_t resident) {
    gpus = count;
    resident_blocks = resident;
    most_blocks = 0;
    for (int k = 0; reach_masks != NULL && k < count; k++)
        reach[k] = reach_masks[k];
}

void emulated_gpu_set_nvlink(const uint32_t *masks) {
    for (int k = 0; k < gpus; k++)
        nvlink[k] = masks == NULL ? 0 : masks[k];
}

void emulated_gpu_break(bool is) { __atomic_store_n(&broken, is, __ATOMIC_RELAXED); }

void emulated_gpu_refuse_handles(bool refuse) { handles_refused = refuse; }

void emulated_gpu_refuse_words(bool refuse) { words_refused = refuse; }

void emulated_gpu_leave_out_waits(bool leaves) { waits_are_left_out = leaves; }

void emulated_gpu_set_direct(struct gpu_direct can, void (*flush)(void)) {
    direct = can;
    on_flush = flush;
}

void *emulated_stream_create(void) {
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        abort();
    stream->id = __atomic_add_fetch(&stream_ids, 1, __ATOMIC_RELAXED);
    stream->end = &stream->first;
    if (pthread_create(&stream->thread, NULL, stream_main, stream) != 0)
        abort();
    return stream;
}

void emulated_stream_wait(void *stream_) {
    pthread_mutex_lock(&lock);
    struct stream *stream = stream_of(stream_);
    while (stream->done < stream->put)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

bool emulated_stream_is_idle(void *stream_) {
    pthread_mutex_lock(&lock);
    const struct stream *stream = stream_of(stream_);
    bool idle = stream->done == stream->put;
    pthread_mutex_unlock(&lock);
    return idle;
}

void emulated_stream_destroy(void *stream_) {
    struct stream *stream = stream_;
    pthread_mutex_lock(&lock);
    stream->over = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(stream->thread, NULL);
    free(stream);
}

void emulated_stream_delay(void *stream, int ms) { put(stream, &(struct task){.kind = DELAY, .delay_ms = ms}); }

void emulated_capture_begin(void *stream_) {
    struct stream *stream = stream_;
    pthread_mutex_lock(&lock);
    stream->capture = ++captures;
    stream->captured = NULL;
    stream->captured_end = &stream->captured;
    pthread_mutex_unlock(&lock);
}

void *emulated_capture_end(void *stream_) {
    struct stream *stream = stream_;
    pthread_mutex_lock(&lock);
    stream->capture = 0;
    struct task *graph = stream->captured;
    pthread_mutex_unlock(&lock);
    return graph;
}

void emulated_graph_run(void *graph, void *stream) {
    for (const struct task *task = graph; task != NULL; task = task->next) {
        struct task copy = *task;
        if (task->launch != NULL) {
            copy.launch = malloc(bytes_of_launch(task->kernel));
            if (copy.launch == NULL)
                abort();
            memcpy(copy.launch, task->launch, bytes_of_launch(task->kernel));
        }
        if (task->ops != NULL)
            copy.ops = ops_copy(task->ops, task->nops);
        put(stream, &copy);
    }
}

void emulated_graph_destroy(void *graph) {
    for (struct task *task = graph, *next; task != NULL; task = next) {
        next = task->next;
        task_free(task);
    }
}

uint32_t emulated_launches(void) { return __atomic_load_n(&launches, __ATOMIC_RELAXED); }
uint32_t emulated_gpus_opened(void) { return __atomic_load_n(&opened, __ATOMIC_RELAXED); }
uint32_t emulated_most_blocks(void) { return __atomic_load_n(&most_blocks, __ATOMIC_RELAXED); }

/* ---- the driver ---- */

static int count(const char **why) {
    *why = "there is none";
    return gpus;
}

static enum collet_result current_gpu(int *ordinal) {
    *ordinal = current;
    return COLLET_SUCCESS;
}

static enum collet_result open_gpu(int ordinal) {
    __atomic_or_fetch(&opened, 1u << ordinal, __ATOMIC_RELAXED);
    return COLLET_SUCCESS;
}

static uint32_t bus(int ordinal) { return 0x100u * ((uint32_t)ordinal + 1); }

static uint64_t identity(int ordinal) { return (uint64_t)ordinal + 1; }
/* Processes are threads of one machine, which runs them all. */
static bool takes_turns(int ordinal) {
    (void)ordinal;
    return false;
}

static uint32_t capability(int ordinal) {
    (void)ordinal;
    return 90;
}

static const char *model_name = "Emulated GPU";

void emulated_gpu_set_model(const char *name) { model_name = name; }

static void model(int ordinal, char name[GPU_MODEL_BYTES]) {
    (void)ordinal;
    snprintf(name, GPU_MODEL_BYTES, "%s", model_name);
}

static struct gpu_scope enter(int ordinal) {
    struct gpu_scope scope = {current, 0};
    current = ordinal;
    return scope;
}

static void leave(struct gpu_scope scope) { current = scope.ordinal; }

/* Memory that can be shared: a memfd, behind a page that says which. */
#define HEAD_BYTES 4096u
struct head {
    size_t bytes;
    int fd, pid;
    struct head *next; /* of those that this process has made */
};
static struct head *memories;

static enum collet_result memory_create(size_t bytes, void **memory_p) {
    void *memory;
    struct head head = {.bytes = bytes + HEAD_BYTES, .pid = os_pid()};
    COLLET_TRY(os_shared_create("emulated-gpu", head.bytes, &memory, &head.fd));
    pthread_mutex_lock(&lock);
    head.next = memories;
    memcpy(memory, &head, sizeof(head));
    memories = memory;
    pthread_mutex_unlock(&lock);
    *memory_p = (char *)memory + HEAD_BYTES;
    return COLLET_SUCCESS;
}

static void memory_destroy(void *memory) {
    struct head head;
    if (memory == NULL)
        return;
    pthread_mutex_lock(&lock);
    memcpy(&head, (char *)memory - HEAD_BYTES, sizeof(head)); /* next may change until here */
    for (struct head **at = &memories; *at != NULL; at = &(*at)->next)
        if ((char *)*at == (char *)memory - HEAD_BYTES) {
            *at = head.next;
            break;
        }
    pthread_mutex_unlock(&lock);
    close(head.fd);
    os_memory_destroy((char *)memory - HEAD_BYTES, head.bytes);
}

static enum collet_result pinned_create(size_t bytes, void **memory_p) {
    *memory_p = calloc(1, bytes);
    return *memory_p != NULL ? COLLET_SUCCESS : COLLET_ERR_NO_MEMORY;
}

static enum collet_result pin(void *memory, size_t bytes, void **device_p) {
    (void)bytes;
    *device_p = memory;
    return COLLET_SUCCESS;
}

static void unpin(void *memory, size_t bytes) { os_memory_destroy(memory, bytes); }

static void sweep(void) {}
static void sweep_gpu(int ordinal) { (void)ordinal; /* nothing is kept here */ }

static enum collet_result clear_memory(void *memory, size_t bytes) {
    memset(memory, 0, bytes);
    return COLLET_SUCCESS;
}

static enum collet_result write_memory(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    return COLLET_SUCCESS;
}

static bool can_reach(int ordinal, int other) { return ordinal == other || (reach[ordinal] >> other & 1); }

/* As CUDA's does: what is to reach another GPU must be open. */
static bool open_peer(int ordinal, int other) {
    return open_gpu(ordinal) == COLLET_SUCCESS && can_reach(ordinal, other);
}

static bool keeps_lines(int ordinal, int other) { return ordinal == other || (nvlink[ordinal] >> other & 1); }

static enum collet_result shared_create(size_t bytes, bool by_fd, void **memory_p, struct gpu_name *name) {
    struct head head;
    if (!by_fd && handles_refused)
        return err_set(COLLET_ERR_UNSUPPORTED, "the emulated driver has no handles");
    COLLET_TRY(memory_create(bytes, memory_p));
    memcpy(&head, (char *)*memory_p - HEAD_BYTES, sizeof(head));
    *name = (struct gpu_name){.bytes = head.bytes, .fd = by_fd ? dup(head.fd) : -1};
    if (!by_fd)
        memcpy(name->handle, &head, sizeof(head));
    return COLLET_SUCCESS;
}

static void shared_destroy(void *memory, const struct gpu_name *name) {
    (void)name;
    memory_destroy(memory);
}

static enum collet_result attach(const struct gpu_name *name, void **memory_p) {
    struct head head;
    void *memory;
    memcpy(&head, name->handle, sizeof(head));
    COLLET_TRY(name->fd >= 0 ? os_shared_map(name->fd, name->bytes, &memory)
                             : os_shared_open(head.pid, head.fd, name->bytes, &memory));
    *memory_p = (char *)memory + HEAD_BYTES;
    return COLLET_SUCCESS;
}

static void detach(void *memory, const struct gpu_name *name) {
    os_memory_destroy((char *)memory - HEAD_BYTES, name->bytes);
}

/* The descriptor of what has all of it; −1: nothing has. */
static int fd_of(const void *memory, size_t bytes) {
    int fd = -1;
    pthread_mutex_lock(&lock);
    for (const struct head *at = memories; at != NULL && fd < 0; at = at->next) {
        const size_t offset = (size_t)((const char *)memory - (const char *)at);
        if (offset < at->bytes && bytes <= at->bytes - offset)
            fd = at->fd;
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

bool emulated_gpu_owns(const void *memory) { return fd_of(memory, 1) >= 0; }

static struct gpu_direct direct_of(int ordinal) {
    (void)ordinal;
    return direct;
}

/* The memfd stands for the memory. The code that takes the descriptor only looks whether it is open. */
static int export_dmabuf(void *memory, size_t bytes) {
    const int fd = fd_of(memory, bytes);
    errno = EINVAL;
    return fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
}

static enum collet_result flush(void) {
    if (on_flush != NULL)
        on_flush();
    return COLLET_SUCCESS;
}

static enum collet_result event_create(void **event_p) {
    struct event *event = calloc(1, sizeof(*event));
    if (event == NULL)
        return COLLET_ERR_NO_MEMORY;
    event->users = 1;
    *event_p = event;
    return COLLET_SUCCESS;
}

static enum collet_result record(void *event, void *stream, bool external) {
    return put(stream, &(struct task){.kind = RECORD, .event = event, .external = external});
}

static enum collet_result wait_event(void *stream, void *event, bool external) {
    return put(stream, &(struct task){.kind = WAIT, .event = event, .external = external});
}

static enum collet_result query(void *event_) {
    const struct event *event = event_;
    if (__atomic_load_n(&broken, __ATOMIC_RELAXED))
        return err_set(COLLET_ERR_SYSTEM, "the emulated GPU is broken");
    pthread_mutex_lock(&lock);
    bool pending = event->reached < event->recorded;
    pthread_mutex_unlock(&lock);
    return pending ? COLLET_IN_PROGRESS : COLLET_SUCCESS;
}

static enum collet_result capture_of(void *stream, uint64_t *capture_p) {
    pthread_mutex_lock(&lock);
    *capture_p = stream_of(stream)->capture;
    pthread_mutex_unlock(&lock);
    return COLLET_SUCCESS;
}

/* As CUDA, whose streams must not be asked during a capture. */
static enum collet_result id_of(void *stream_, uint64_t *id_p) {
    pthread_mutex_lock(&lock);
    const struct stream *stream = stream_of(stream_);
    if (stream->capture != 0)
        abort();
    *id_p = stream->id;
    pthread_mutex_unlock(&lock);
    return COLLET_SUCCESS;
}

static enum collet_result copy(void *to, const void *from, size_t bytes, void *stream) {
    return put(stream, &(struct task){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}

static bool has_words(void) { return !words_refused; }

static enum collet_result words(const struct gpu_word_op *ops, uint32_t nops, void *stream) {
    return put(stream, &(struct task){.kind = WORDS, .ops = ops_copy(ops, nops), .nops = nops});
}

static enum collet_result call(void (*function)(void *argument), void *argument, void *stream) {
    return put(stream, &(struct task){.kind = CALL, .function = function, .to = argument});
}

static enum collet_result launch(const void *kernel, uint32_t blocks, uint32_t lanes, const void *argument,
                                 void *stream) {
    struct task task = {.kind = LAUNCH, .kernel = kernel, .lanes = lanes};
    __atomic_add_fetch(&launches, 1, __ATOMIC_RELAXED);
    if (blocks > __atomic_load_n(&most_blocks, __ATOMIC_RELAXED))
        __atomic_store_n(&most_blocks, blocks, __ATOMIC_RELAXED);
    if (blocks > resident_blocks)
        return err_set(COLLET_ERR_INTERNAL, "%u blocks were launched, but %u run", blocks, resident_blocks);
    const size_t bytes = bytes_of_launch(kernel);
    task.launch = malloc(bytes);
    if (task.launch == NULL)
        return COLLET_ERR_NO_MEMORY;
    memcpy(task.launch, argument, bytes);
    return put(stream, &task);
}

static uint32_t resident(int ordinal) {
    (void)ordinal;
    return resident_blocks;
}

#define KERNEL(ENUM, type, kind, element, accumulator, wrap, divisor, alike, fraction_bits, largest, conversion, OP,   \
               types)                                                                                                  \
    TYPE_IF_##types##_##kind(THE_KERNEL, NO_KERNEL)(OP, ENUM)
#define THE_KERNEL(OP, ENUM) &reduce_kernels[COLLET_##OP][COLLET_##ENUM],
#define NO_KERNEL(OP, ENUM) NULL,
#define ROW(OP, op, runs, kernel, types, sign) (const void *const[]){COLLET_TYPES(KERNEL, OP, types)},
static const struct gpu_kernels kernels = {"emulated",     &copy_kernel,      &signals_kernel,
                                           &pieces_kernel, {COLLET_OPS(ROW)}, NULL};

static bool is_for_gpus(const void *address) {
    (void)address; /* all of it is memory of the host */
    return true;
}

static const struct gpu_memory table_of_memory = {
    .create = memory_create,
    .clear = clear_memory,
    .destroy = memory_destroy,
    .destroy_now = memory_destroy,
    .pinned_create = pinned_create,
    .pinned_destroy = free,
    .pin = pin,
    .unpin = unpin,
    .sweep = sweep,
    .write = write_memory,
    .is_for_gpus = is_for_gpus,
};

static const struct gpu_sharing table_of_sharing = {
    .can_reach = can_reach,
    .open_peer = open_peer,
    .keeps_lines = keeps_lines,
    .create = shared_create,
    .destroy = shared_destroy,
    .attach = attach,
    .detach = detach,
    .sweep = sweep_gpu,
    .direct = direct_of,
    .export_dmabuf = export_dmabuf,
    .flush = flush,
};

static const struct gpu_streams table_of_streams = {
    .event_create = event_create,
    .event_destroy = event_leave,
    .record = record,
    .wait = wait_event,
    .query = query,
    .capture = capture_of,
    .id = id_of,
    .copy = copy,
    .has_words = has_words,
    .words = words,
    .call = call,
    .launch = launch,
    .resident = resident,
};

const struct gpu_driver emulated_gpu_driver = {
    .kernels = &kernels,
    .max_lanes = LANES,
    .memory = &table_of_memory,
    .sharing = &table_of_sharing,
    .streams = &table_of_streams,
    .count = count,
    .current = current_gpu,
    .open = open_gpu,
    .bus = bus,
    .identity = identity,
    .capability = capability,
    .model = model,
    .takes_turns = takes_turns,
    .enter = enter,
    .enter_streams = enter,
    .leave = leave,
};
