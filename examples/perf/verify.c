/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of a rank and the check of what a call left in them. Before the call:
 *
 *   out of place   send  [guard| input . . . . . |guard]     recv  [guard| filler . . . . |guard]
 *   in place       send  [guard|guard . . .                  recv  [guard| filler | input | filler |guard]
 *
 * After the call, every element between the guards must be the right result for its place. The call must not change any other element:
 * not in an input that has a buffer of its own, not in the blocks beside the result, and not in the receive buffer of a rank that gets no
 * result.
 *
 * On a GPU, kernels fill and check, in the stream of the call. The host checks a sample of each buffer, too, and must find as many wrong
 * elements in the sample as the kernel: so the check by kernels is itself checked.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GUARD_BYTES = 256, SAMPLE_BYTES = 4096 };

size_t verify_allocated_bytes(size_t max_bytes) {
    return 2 * (GUARD_BYTES + VERIFY_MAX_UNALIGN + max_bytes + GUARD_BYTES);
}

/* Allocates zeroed memory. */
static unsigned char *collet_memory(size_t bytes, int rank, int device) {
    void *memory;
    MUST(rank, collet_mem_alloc, &memory, bytes, device);
    return memory;
}

static unsigned char *gpu_memory(size_t bytes, int rank, bool registered) {
    perf_device->use(device_of(rank));
    return registered ? collet_memory(bytes, rank, COLLET_DEVICE_CUDA(device_of(rank))) : perf_device->allocate(bytes);
}

/* Allocates memory and writes to it, so that no call has to wait for pages. */
static unsigned char *host_memory(size_t bytes, int rank, bool registered) {
    unsigned char *memory = registered ? collet_memory(bytes, rank, COLLET_DEVICE_HOST) : perf_allocate(bytes);
    return memset(memory, SPAN_FILLER_BYTE, bytes);
}

static void register_one(struct perf_buffers *buffers, int i, size_t bytes, int rank) {
    if (buffers->registered == PERF_IN_WINDOWS)
        MUST(rank, collet_win_register, buffers->comm, buffers->memory[i], bytes, &buffers->windows[i]);
    else
        MUST(rank, collet_comm_register, buffers->comm, buffers->memory[i], bytes, &buffers->registrations[i]);
}

void verify_allocate(struct perf_buffers *buffers, size_t max_bytes, int rank, enum perf_registered registered,
                     struct collet_comm *comm) {
    size_t bytes = verify_allocated_bytes(max_bytes) / 2;
    buffers->registered = registered;
    buffers->comm = comm;
    for (int i = 0; i < 2; i++) {
        buffers->memory[i] = perf_device ? gpu_memory(bytes, rank, registered) : host_memory(bytes, rank, registered);
        if (registered)
            register_one(buffers, i, bytes, rank);
    }
    buffers->found = perf_device ? perf_device->allocate(VERIFY_FOUND_BYTES) : NULL;
    verify_unalign(buffers, 0);
}

void verify_unalign(struct perf_buffers *buffers, size_t bytes) {
    buffers->send = buffers->memory[0] + GUARD_BYTES + bytes;
    buffers->recv = buffers->memory[1] + GUARD_BYTES + bytes;
}

/* Windows end with their communicator, because all ranks would have to deregister them at once, also those of this thread. So the buffers
 * of windows stay until the process ends. */
void verify_free(struct perf_buffers *buffers) {
    for (int i = 0; i < 2; i++) {
        if (buffers->registered == PERF_REGISTERED) {
            MUST(-1, collet_comm_deregister, buffers->comm, buffers->registrations[i]);
            MUST(-1, collet_mem_free, buffers->memory[i]);
        } else if (!buffers->registered && perf_device) {
            perf_device->release(buffers->memory[i]);
        } else if (!buffers->registered) {
            free(buffers->memory[i]);
        }
    }
    if (buffers->found)
        perf_device->release(buffers->found);
}

void verify_aim(const struct perf_buffers *buffers, size_t shift, struct perf_call *call) {
    unsigned char *recv = buffers->recv + shift;
    if (!call->in_place) {
        call->send = buffers->send + shift;
        call->recv = recv;
        return;
    }
    size_t rank_bytes = (size_t)call->rank * call->type->bytes;
    call->send = recv + call->shape.in_place_input * rank_bytes;
    call->recv = recv + call->shape.in_place_output * rank_bytes;
}

/* ------------------------------------------------------------------------------------------- the content of a buffer */

/* A buffer during one call: `elements` elements from `start`, guards included, of which some are inputs and some become
 * results. */
struct area {
    unsigned char *start;
    uint64_t elements;
    uint64_t first_input, inputs;
    uint64_t first_output, outputs;
};

static size_t guard_elements(const struct perf_call *call) { return GUARD_BYTES / call->type->bytes; }

/* The area of a buffer that starts at `memory`: a guard, `elements` elements, another guard. */
static struct area area_of(unsigned char *memory, const struct perf_call *call, size_t elements) {
    size_t guard = guard_elements(call);
    return (struct area){
        .start = memory - GUARD_BYTES, .elements = elements + 2 * guard, .first_input = guard, .first_output = guard};
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static void describe_areas(const struct perf_buffers *buffers, const struct perf_call *call, struct area areas[2]) {
    const struct perf_shape *shape = &call->shape;
    if (call->in_place) {
        areas[0] = area_of(buffers->send, call, 0);
        areas[1] = area_of(buffers->recv, call, larger(shape->input, shape->output));
        areas[1].first_input += (size_t)call->rank * shape->in_place_input;
        areas[1].first_output += (size_t)call->rank * shape->in_place_output;
    } else {
        areas[0] = area_of(buffers->send, call, shape->input);
        areas[1] = area_of(buffers->recv, call, shape->output);
    }
    areas[call->in_place].inputs = shape->input;
    areas[1].outputs = shape->output;
}

static struct perf_pattern pattern_of(const struct perf_call *call, uint64_t seed) {
    return pattern_make(call->type, call->collective->reduces ? (int)call->op->op : PATTERN_MOVED, call->nranks,
                        (uint32_t)seed);
}

static bool within(uint64_t element, uint64_t first, uint64_t count) {
    return element >= first && element - first < count;
}

/* The next border of a stretch of `count` elements from `first` on: where it begins or ends behind `at`, if that is before `end`; else
 * `end`. */
static uint64_t next_border(uint64_t at, uint64_t first, uint64_t count, uint64_t end) {
    uint64_t border = at < first ? first : first + count;
    return border > at && border < end ? border : end;
}

/* The span that begins at `at`, before the call. It ends where elements of another kind begin. */
static struct perf_span span_before(const struct perf_call *call, const struct area *area, uint64_t at) {
    uint64_t end = next_border(at, area->first_input, area->inputs, area->elements);
    bool is_input = within(at, area->first_input, area->inputs);
    return (struct perf_span){at, end - at, is_input ? at - area->first_input : 0, is_input ? call->rank : PERF_FILLER};
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The span that begins at `at`, after the call. */
static struct perf_span span_after(const struct perf_call *call, const struct area *area, uint64_t at) {
    struct perf_span span = span_before(call, area, at);
    uint64_t border = next_border(at, area->first_output, area->outputs, area->elements);
    if (!within(at, area->first_output, area->outputs)) {
        span.count = smaller(span.count, border - at);
        return span;
    }
    struct perf_origin origin = call->collective->origin(call, at - area->first_output);
    uint64_t run = smaller(origin.run, border - at);
    if (origin.rank != PERF_UNTOUCHED)
        return (struct perf_span){at, run, origin.element, origin.rank};
    span.count = smaller(span.count, run);
    return span;
}

/* --------------------------------------------------------------------------------------------------- fill and check */

static void fill_span(const struct perf_call *call, void *memory, const struct perf_pattern *pattern,
                      const struct perf_span *span) {
    if (perf_device)
        perf_device->fill(memory, pattern, span, call->stream);
    else
        span_fill(memory, pattern, span);
}

void verify_fill(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed) {
    struct perf_pattern pattern = pattern_of(call, seed);
    struct area areas[2];
    describe_areas(buffers, call, areas);
    if (perf_device)
        perf_device->use(device_of(call->rank));
    for (const struct area *area = areas; area < areas + 2; area++) {
        struct perf_span span;
        for (uint64_t at = 0; at < area->elements; at += span.count) {
            span = span_before(call, area, at);
            fill_span(call, area->start, &pattern, &span);
        }
    }
}

void verify_spread(const struct perf_buffers *buffers, const struct perf_call *call, size_t bytes) {
    struct perf_pattern pattern = pattern_of(call, 0);
    struct perf_span span = {0, bytes / call->type->bytes, 0, PERF_FILLER};
    if (!perf_device)
        return;
    perf_device->use(device_of(call->rank));
    fill_span(call, buffers->send, &pattern, &span);
    fill_span(call, buffers->recv, &pattern, &span);
}

/* A check of the elements from `first` to before `end` of an area. */
struct check {
    const struct perf_call *call;
    struct perf_pattern pattern;
    const struct area *area;
    uint64_t first, end;
};

static struct perf_span check_span(const struct check *check, uint64_t at) {
    struct perf_span span = span_after(check->call, check->area, at);
    span.count = smaller(span.count, check->end - at);
    return span;
}

static void check_on_gpu(const struct check *check, struct perf_wrong *found) {
    struct perf_span span;
    for (uint64_t at = check->first; at < check->end; at += span.count) {
        span = check_span(check, at);
        perf_device->check(check->area->start, &check->pattern, &span, found, check->call->stream);
    }
}

/* memory: the address of the elements to check, or of a copy of them. */
static void check_on_host(const struct check *check, const void *memory, struct perf_wrong *found) {
    struct perf_span span;
    for (uint64_t at = check->first; at < check->end; at += span.count) {
        span = check_span(check, at);
        span.first -= check->first;
        span_check(memory, &check->pattern, &span, found);
    }
}

/* A sample of an area. Its place depends on the seed. */
static struct check sample_of(const struct check *whole, uint64_t seed) {
    struct check sample = *whole;
    uint64_t elements = smaller(SAMPLE_BYTES / whole->call->type->bytes, whole->end);
    sample.first = pattern_mix((uint32_t)seed) % (whole->end - elements + 1);
    sample.end = sample.first + elements;
    return sample;
}

/* Ends the program if the host does not find as many wrong elements in a sample as the GPU has counted. */
static void must_agree(const struct check *sample, uint64_t counted) {
    struct perf_wrong found = {.count = 0};
    uint64_t bytes[SAMPLE_BYTES / sizeof(uint64_t)];
    size_t size = sample->call->type->bytes;
    perf_device->read(bytes, sample->area->start + sample->first * size, (sample->end - sample->first) * size,
                      sample->call->stream);
    check_on_host(sample, bytes, &found);
    if (found.count == counted)
        return;
    fprintf(stderr, "rank %d: of a sample, the GPU says that %llu elements are wrong, and the host %llu\n",
            sample->call->rank, (unsigned long long)counted, (unsigned long long)found.count);
    _exit(PERF_FAILED);
}

/* Queues all checks, and waits once. found[0] and found[1]: results for the two areas. In GPU memory the results for samples follow. */
static void check_areas_on_gpu(const struct perf_buffers *buffers, const struct check checks[2], uint64_t seed,
                               struct perf_wrong found[4]) {
    void *stream = checks[0].call->stream;
    struct check samples[2] = {sample_of(&checks[0], seed), sample_of(&checks[1], seed)};
    perf_device->use(device_of(checks[0].call->rank));
    perf_device->clear(buffers->found, VERIFY_FOUND_BYTES, stream);
    for (int i = 0; i < 2; i++) {
        check_on_gpu(&checks[i], &buffers->found[i]);
        check_on_gpu(&samples[i], &buffers->found[2 + i]);
    }
    perf_device->read(found, buffers->found, VERIFY_FOUND_BYTES, stream);
    for (int i = 0; i < 2; i++)
        must_agree(&samples[i], found[2 + i].count);
}

static void make_checks(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed,
                        struct area areas[2], struct check checks[2]) {
    describe_areas(buffers, call, areas);
    for (int i = 0; i < 2; i++)
        checks[i] = (struct check){call, pattern_of(call, seed), &areas[i], 0, areas[i].elements};
}

size_t verify_check(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed,
                    struct perf_wrong wrong[2]) {
    struct area areas[2];
    struct check checks[2];
    struct perf_wrong found[4] = {{.count = 0}};
    make_checks(buffers, call, seed, areas, checks);
    if (perf_device)
        check_areas_on_gpu(buffers, checks, seed, found);
    for (int i = 0; i < 2; i++) {
        if (!perf_device)
            check_on_host(&checks[i], areas[i].start, &found[i]);
        wrong[i] = found[i];
    }
    return wrong[0].count + wrong[1].count;
}

static uint64_t element_of(const struct check *check, uint64_t at) {
    size_t size = check->call->type->bytes;
    uint64_t bits = 0;
    if (perf_device)
        perf_device->read(&bits, check->area->start + at * size, size, check->call->stream);
    else
        memcpy(&bits, check->area->start + at * size, size);
    return bits;
}

void verify_report(const struct perf_buffers *buffers, const struct perf_call *call, uint64_t seed,
                   const struct perf_wrong wrong[2]) {
    static const char *const names[] = {"send", "receive"};
    struct area areas[2];
    struct check checks[2];
    make_checks(buffers, call, seed, areas, checks);
    for (int i = 0; i < 2; i++)
        for (uint32_t k = 0; k < wrong[i].nplaces && k < SPAN_PLACES; k++) {
            uint64_t at = wrong[i].places[k];
            struct perf_span span = check_span(&checks[i], at);
            fprintf(stderr, "rank %d, %zu elements%s: element %lld of the %s buffer is 0x%llx, not 0x%llx\n",
                    call->rank, call->shape.count, call->in_place ? " in place" : "",
                    (long long)(at - guard_elements(call)), names[i], (unsigned long long)element_of(&checks[i], at),
                    (unsigned long long)span_expected(&checks[i].pattern, &span, 0));
        }
}
