/* SPDX-License-Identifier: Apache-2.0
 *
 * What the GPUs of a process do: one thread begins operations of streams as they become possible, lets the machine run the
 * kernels a little, and looks which are over.
 *
 * A GPU has some queues that its streams share, CUDA_DEVICE_MAX_CONNECTIONS of them. In a queue an operation begins behind all
 * that were put into it before. A stream that waits for a word still has its queue.
 */
#include "gpusim/machine.h"
#include "gpusim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE 20000 /* instructions of warps */

/* ---- may it begin? ---- */

static bool is_first_in_queue(const struct sim_stream *stream, const struct sim_op *op) {
    uint64_t queues = sim_number("CUDA_DEVICE_MAX_CONNECTIONS", 8);
    for (const struct sim_stream *other = sim_streams; other != NULL; other = other->next) {
        const struct sim_op *waiting = other->first;
        if (other->device != stream->device || other->id % queues != stream->id % queues)
            continue;
        if (waiting != NULL && waiting->has_begun && waiting->kind != OP_WORDS)
            waiting = waiting->next;
        if (waiting != NULL && waiting->number < op->number)
            return false;
    }
    return true;
}

static bool may_begin(const struct sim_stream *stream, const struct sim_op *op) {
    if (op == NULL || op->has_begun)
        return false;
    for (int k = 0; k < op->nwaits; k++)
        if (!sim_is_reached(op->waits[k]))
            return false;
    return is_first_in_queue(stream, op) && (op->begins_ns == 0 || op->begins_ns <= sim_now_ns());
}

/* ---- failures ---- */

/* From now on every call for this device says so. What was in its streams is forgotten. */
static void device_fails(struct sim_device *device, const char *why) {
    fprintf(stderr, "gpusim: GPU %d: %s\n", device->ordinal, why);
    device->failed = cudaErrorIllegalAddress;
    device->copies = NULL;
    for (struct sim_stream *stream = sim_streams; stream != NULL; stream = stream->next)
        while (stream->device == device && stream->first != NULL) {
            if (stream->first->grid != NULL)
                gpusim_grid_free(stream->first->grid);
            if (stream->first->kind == OP_HOST && stream->first->has_begun && !stream->first->has_ended)
                break; /* its thread ends it */
            sim_op_ended(stream);
        }
}

/* ---- operations ---- */

/* Memory of the host is what the runtime knows nothing of, and nothing keeps a copy from it. */
static bool may_copy(const struct sim_device *device, const void *memory, size_t bytes, bool writes) {
    return sim_range_at(memory) == NULL || gpusim_range_allows(device->place, memory, bytes, writes);
}

/* Copies between GPUs need no peer access, but stay within what there is. */
static bool may_move(const struct sim_stream *stream, const struct sim_op *op) {
    const struct sim_range *to = sim_range_at(op->to), *from = op->staged != NULL ? NULL : sim_range_at(op->from);
    const struct sim_device *device = stream->device;
    return may_copy(to != NULL && to->kind == MEMORY_OF_GPU ? to->device : device, op->to, op->bytes, true) &&
           (op->staged != NULL ||
            may_copy(from != NULL && from->kind == MEMORY_OF_GPU ? from->device : device, op->from, op->bytes, false));
}

static void *host_main(void *stream_) {
    struct sim_stream *stream = stream_;
    struct sim_op *op = stream->first;
    sim_host_function(op->function, op->argument);
    sim_lock();
    op->has_ended = true;
    sim_changed();
    sim_unlock();
    return NULL;
}

static void begin_host(struct sim_stream *stream) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, host_main, stream) != 0)
        sim_violation("no thread for a function of the host");
    pthread_detach(thread);
}

static void begin_kernel(struct sim_stream *stream, struct sim_op *op) {
    const struct sim_launch *l = op->launch;
    op->grid =
        gpusim_grid_start(stream->device->place, l->kernel, (struct gpusim_dim){l->grid[0], l->grid[1], l->grid[2]},
                          (struct gpusim_dim){l->block[0], l->block[1], l->block[2]}, l->shared, l->arguments);
}

static void begin(struct sim_stream *stream, struct sim_op *op) {
    op->has_begun = true;
    op->has_ended = op->kind == OP_SET || op->kind == OP_RECORD || op->kind == OP_WAIT;
    if (op->kind == OP_KERNEL)
        begin_kernel(stream, op);
    else if (op->kind == OP_HOST)
        begin_host(stream);
    else if ((op->kind == OP_COPY && !may_move(stream, op)) ||
             (op->kind == OP_SET && !may_copy(stream->device, op->to, op->bytes, true)))
        device_fails(stream->device, gpusim_error());
    else if (op->kind == OP_SET)
        memset(op->to, op->value, op->bytes);
}

/* A device has one engine, which does a quarter of a copy at a time. */
static bool go_on_copying(struct sim_stream *stream, struct sim_op *op) {
    const char *from = op->staged != NULL ? op->staged : op->from;
    size_t left = op->bytes - op->moved, some = op->bytes / 4 + 1 < left ? op->bytes / 4 + 1 : left;
    bool backwards = op->to > from && op->to < from + op->bytes; /* it overlaps: as memmove does it */
    if (stream->device->copies != NULL && stream->device->copies != stream)
        return false;
    if (backwards)
        some = left;
    memmove(op->to + op->moved, from + op->moved, some);
    op->moved += some;
    op->has_ended = op->moved == op->bytes;
    stream->device->copies = op->has_ended ? NULL : stream;
    return true;
}

/* In their order, as far as the words that are waited for have come. False: not a step further. */
static bool go_on_with_words(struct sim_stream *stream, struct sim_op *op) {
    unsigned before = op->word;
    for (; op->word < op->nwords; op->word++) {
        const CUstreamBatchMemOpParams *this = &op->words[op->word];
        bool waits = this->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
        uint32_t *word = (void *)(uintptr_t)this->writeValue.address;
        if (!gpusim_range_allows(stream->device->place, word, sizeof(*word), !waits)) {
            device_fails(stream->device, gpusim_error());
            return true;
        }
        if (!waits)
            __atomic_store_n(word, this->writeValue.value,
                             __ATOMIC_RELEASE); /* pairs with the wait, here or elsewhere */
        else if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != this->waitValue.value)
            return op->word > before;
    }
    op->has_ended = true;
    return true;
}

/* Only the process whose slice of time it is does such things on a GPU. */
static bool takes_time(const struct sim_op *op) {
    return op->kind == OP_KERNEL || op->kind == OP_COPY || op->kind == OP_SET;
}

static bool wants_time(const struct sim_device *device) {
    for (const struct sim_stream *stream = sim_streams; stream != NULL; stream = stream->next) {
        const struct sim_op *op = stream->first;
        if (op != NULL && stream->device == device && takes_time(op) && (op->has_begun || may_begin(stream, op)))
            return true;
    }
    return false;
}

/* False: nothing has changed. */
static bool look_at_stream(struct sim_stream *stream) {
    struct sim_op *op = stream->first;
    if (op != NULL && takes_time(op) && !sim_slice_is_ours(stream->device))
        return false;
    if (may_begin(stream, op))
        begin(stream, op);
    if (stream->first != op || op == NULL || !op->has_begun)
        return false;
    if (op->kind == OP_KERNEL && op->grid == NULL) {
        device_fails(stream->device, gpusim_error());
        return true;
    }
    if (op->kind == OP_KERNEL && gpusim_grid_done(op->grid)) {
        if (gpusim_grid_fault(op->grid) != NULL) {
            device_fails(stream->device, gpusim_grid_fault(op->grid));
            return true;
        }
        gpusim_grid_free(op->grid);
        op->has_ended = true;
    }
    bool moved = !op->has_ended && ((op->kind == OP_COPY && go_on_copying(stream, op)) ||
                                    (op->kind == OP_WORDS && go_on_with_words(stream, op)));
    if (stream->first != op || !op->has_ended)
        return moved;
    sim_op_ended(stream);
    return true;
}

static bool look_at_all(bool *runs_p, bool *waits_p) {
    bool moved = false;
    *runs_p = false;
    *waits_p = sim_slices_take(wants_time);
    for (struct sim_stream *stream = sim_streams; stream != NULL; stream = stream->next) {
        moved |= look_at_stream(stream);
        *runs_p |= stream->first != NULL && stream->first->grid != NULL && sim_slice_is_ours(stream->device);
        *waits_p |= stream->first != NULL &&
                    ((stream->first->kind == OP_WORDS && stream->first->has_begun) || stream->first->begins_ns > 0);
    }
    return moved;
}

/* ---- the thread ---- */

static void *engine_main(void *unused) {
    bool runs, waits;
    (void)unused;
    sim_lock();
    for (;;) {
        bool moved = look_at_all(&runs, &waits);
        if (runs) {
            sim_unlock();
            bool works = gpusim_run(SLICE);
            sim_lock();
            if (!works && !moved) /* other processes leave no room */
                sim_wait_briefly();
        } else if (!moved && waits) {
            sim_wait_briefly();
        } else if (!moved) {
            sim_wait();
        }
    }
    return NULL;
}

void sim_engine_start(void) {
    static bool is_started;
    pthread_t thread;
    if (is_started)
        return;
    is_started = true;
    if (pthread_create(&thread, NULL, engine_main, NULL) != 0)
        sim_violation("no thread for the GPUs");
    pthread_detach(thread);
}
