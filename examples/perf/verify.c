/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of a rank and the check of what a call left in them. Before the call:
 *
 *   out of place   send  [guard| input . . . . . |guard]     recv  [guard| filler . . . . |guard]
 *   in place       send  [guard|guard . . .                  recv  [guard| filler | input | filler |guard]
 *
 * After it, every element between the guards is the result that the collective owes at that place, or else exactly what
 * was there before: inputs out of place, blocks beside the result, the receive buffers of ranks that are not the root.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 256 };
static const unsigned char filler = 0xa5;

size_t verify_allocated_bytes(size_t max_bytes) {
    return 2 * (GUARD_BYTES + VERIFY_MAX_UNALIGN + max_bytes + GUARD_BYTES);
}

/* Zeroed. */
static unsigned char *collet_memory(size_t bytes, int rank, int device) {
    void *memory;
    MUST(rank, collet_mem_alloc, &memory, bytes, device);
    return memory;
}

static unsigned char *gpu_memory(size_t bytes, int rank, bool registered) {
    perf_device->use(device_of(rank));
    return registered ? collet_memory(bytes, rank, COLLET_DEVICE_CUDA(device_of(rank))) : perf_device->allocate(bytes);
}

/* Buffer i, as calls see it. */
static unsigned char *called(const struct perf_buffers *buffers, int i) {
    return buffers->on_gpu[i] ? buffers->on_gpu[i] : buffers->memory[i];
}

static void register_one(struct perf_buffers *buffers, int i, size_t bytes, int rank) {
    if (buffers->registered == PERF_IN_WINDOWS)
        MUST(rank, collet_win_register, buffers->comm, called(buffers, i), bytes, &buffers->windows[i]);
    else
        MUST(rank, collet_comm_register, buffers->comm, called(buffers, i), bytes, &buffers->registrations[i]);
}

void verify_allocate(struct perf_buffers *buffers, size_t max_bytes, int rank, enum perf_registered registered,
                     struct collet_comm *comm) {
    size_t bytes = verify_allocated_bytes(max_bytes) / 2;
    buffers->registered = registered;
    buffers->comm = comm;
    for (int i = 0; i < 2; i++) {
        buffers->memory[i] = registered && !perf_device ? collet_memory(bytes, rank, COLLET_DEVICE_HOST)
                                                        : (unsigned char *)perf_allocate(bytes);
        memset(buffers->memory[i], filler, bytes);
        buffers->on_gpu[i] = perf_device ? gpu_memory(bytes, rank, registered) : NULL;
        if (perf_device)
            perf_device->copy(buffers->on_gpu[i], buffers->memory[i], bytes);
        if (registered)
            register_one(buffers, i, bytes, rank);
    }
    verify_unalign(buffers, 0);
}

void verify_unalign(struct perf_buffers *buffers, size_t bytes) {
    buffers->send = buffers->memory[0] + GUARD_BYTES + bytes;
    buffers->recv = buffers->memory[1] + GUARD_BYTES + bytes;
}

/* Windows end with their communicator, since all ranks would have to end them at once, those of this thread, too. So their buffers
 * stay until the process ends. */
void verify_free(struct perf_buffers *buffers) {
    for (int i = 0; i < 2; i++) {
        if (buffers->registered == PERF_REGISTERED)
            MUST(-1, collet_comm_deregister, buffers->comm, buffers->registrations[i]);
        if (buffers->registered == PERF_REGISTERED)
            MUST(-1, collet_mem_free, called(buffers, i));
        if (buffers->on_gpu[i] && !buffers->registered)
            perf_device->release(buffers->on_gpu[i]);
        if (buffers->on_gpu[i] || !buffers->registered)
            free(buffers->memory[i]);
    }
}

/* Where calls find what the host has at `address` of buffer i. */
static unsigned char *as_called(const struct perf_buffers *buffers, int i, unsigned char *address) {
    return called(buffers, i) + (address - buffers->memory[i]);
}

void verify_aim(const struct perf_buffers *buffers, size_t shift, struct perf_call *call) {
    unsigned char *recv = as_called(buffers, 1, buffers->recv) + shift;
    if (!call->in_place) {
        call->send = as_called(buffers, 0, buffers->send) + shift;
        call->recv = recv;
        return;
    }
    size_t rank_bytes = (size_t)call->rank * call->type->bytes;
    call->send = recv + call->shape.in_place_input * rank_bytes;
    call->recv = recv + call->shape.in_place_output * rank_bytes;
}

/* With a constant size memcpy() is one instruction, with any other a call. */
static uint64_t load_element(const unsigned char *memory, size_t size) {
    uint64_t bits = 0;
    switch (size) {
    case 1: memcpy(&bits, memory, 1); break;
    case 2: memcpy(&bits, memory, 2); break;
    case 4: memcpy(&bits, memory, 4); break;
    case 8: memcpy(&bits, memory, 8); break;
    }
    return bits;
}

static void store_element(unsigned char *memory, size_t size, uint64_t bits) {
    switch (size) {
    case 1: memcpy(memory, &bits, 1); break;
    case 2: memcpy(memory, &bits, 2); break;
    case 4: memcpy(memory, &bits, 4); break;
    case 8: memcpy(memory, &bits, 8); break;
    }
}

/* ----------------------------------------------------------------------------------------------- what must be where */

/* A buffer during one call: `elements` elements from `start`, of which some are inputs and some become results. */
struct area {
    unsigned char *start;
    size_t elements;
    size_t first_input, inputs;
    size_t first_output, outputs;
};

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static void describe_areas(const struct perf_buffers *buffers, const struct perf_call *call, struct area areas[2]) {
    const struct perf_shape *shape = &call->shape;
    if (call->in_place) {
        areas[0] = (struct area){.start = buffers->send};
        areas[1] = (struct area){
            .start = buffers->recv,
            .elements = larger(shape->input, shape->output),
            .first_input = (size_t)call->rank * shape->in_place_input,
            .inputs = shape->input,
            .first_output = (size_t)call->rank * shape->in_place_output,
            .outputs = shape->output,
        };
    } else {
        areas[0] = (struct area){.start = buffers->send, .elements = shape->input, .inputs = shape->input};
        areas[1] = (struct area){.start = buffers->recv, .elements = shape->output, .outputs = shape->output};
    }
}

static struct perf_pattern pattern_of(const struct perf_call *call, uint64_t seed) {
    return pattern_make(call->type, call->collective->reduces ? call->op : NULL, call->nranks, seed);
}

static bool within(size_t element, size_t first, size_t count) { return element >= first && element - first < count; }

/* An area with its guards, to the GPU or back. */
static void area_copy(const struct perf_buffers *buffers, int i, const struct area *area, size_t size, bool to_gpu) {
    unsigned char *first = area->start - GUARD_BYTES;
    size_t bytes = area->elements * size + 2 * (size_t)GUARD_BYTES;
    if (!buffers->on_gpu[i])
        return;
    if (to_gpu)
        perf_device->copy(as_called(buffers, i, first), first, bytes);
    else
        perf_device->copy(first, as_called(buffers, i, first), bytes);
}

static uint64_t filler_element(const struct type_format *type) {
    uint64_t bits = 0;
    memset(&bits, filler, type->bytes);
    return bits;
}

static uint64_t before_call(const struct perf_call *call, const struct perf_pattern *pattern, const struct area *area,
                            size_t element) {
    if (within(element, area->first_input, area->inputs))
        return pattern_input(pattern, call->rank, element - area->first_input);
    return filler_element(call->type);
}

static uint64_t after_call(const struct perf_call *call, const struct perf_pattern *pattern, const struct area *area,
                           size_t element) {
    if (within(element, area->first_output, area->outputs)) {
        struct perf_origin origin = call->collective->origin(call, element - area->first_output);
        if (origin.rank == PERF_ALL_RANKS)
            return pattern_reduced(pattern, origin.element);
        if (origin.rank != PERF_UNTOUCHED)
            return pattern_input(pattern, origin.rank, origin.element);
    }
    return before_call(call, pattern, area, element);
}

/* --------------------------------------------------------------------------------------------------- fill and check */

void verify_fill(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed) {
    struct perf_pattern pattern = pattern_of(call, seed);
    struct area areas[2];
    describe_areas(buffers, call, areas);
    for (const struct area *area = areas; area < areas + 2; area++) {
        size_t size = call->type->bytes;
        memset(area->start - GUARD_BYTES, filler, GUARD_BYTES);
        for (size_t element = 0; element < area->elements; element++)
            store_element(area->start + element * size, size, before_call(call, &pattern, area, element));
        memset(area->start + area->elements * size, filler, GUARD_BYTES);
        area_copy(buffers, (int)(area - areas), area, size, true);
    }
}

static size_t count_changed_guards(const unsigned char *guard, size_t size) {
    size_t changed = 0;
    for (size_t element = 0; element < GUARD_BYTES / size; element++) {
        bool same = true;
        for (size_t byte = 0; byte < size; byte++)
            same = same && guard[element * size + byte] == filler;
        changed += !same;
    }
    return changed;
}

size_t verify_count_wrong(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed) {
    struct perf_pattern pattern = pattern_of(call, seed);
    struct area areas[2];
    describe_areas(buffers, call, areas);
    size_t wrong = 0;
    for (const struct area *area = areas; area < areas + 2; area++) {
        size_t size = call->type->bytes;
        area_copy(buffers, (int)(area - areas), area, size, false);
        for (size_t element = 0; element < area->elements; element++) {
            uint64_t got = load_element(area->start + element * size, size);
            wrong += !pattern_accepts(&pattern, got, after_call(call, &pattern, area, element));
        }
        wrong += count_changed_guards(area->start - GUARD_BYTES, size);
        wrong += count_changed_guards(area->start + area->elements * size, size);
    }
    return wrong;
}
