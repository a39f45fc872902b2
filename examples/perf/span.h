/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans: they describe which elements a buffer must hold, stretch by stretch. Spans fill a buffer before a call, and check it after the
 * call, on the host (span.c) or on a GPU, in a stream (span_gpu.cu).
 *
 *    │ filler (guard) │ input of rank 2 │ filler (guard) │       before
 *    │ filler (guard) │ all reduced     │ filler (guard) │       after
 */
#ifndef COLLET_EXAMPLES_PERF_SPAN_H
#define COLLET_EXAMPLES_PERF_SPAN_H

#include "pattern.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* Values for a rank, if an element does not come from a single rank. */
enum { PERF_ALL_RANKS = -1, PERF_UNTOUCHED = -2, PERF_FILLER = -3 };
enum { SPAN_FILLER_BYTE = 0xa5 };

struct perf_span {
    uint64_t first, count; /* First element of the span in the buffer, and number of elements */
    uint64_t element;      /* Element of the inputs that belongs to the span's first element; the next ones follow */
    int32_t rank;          /* Rank of the input; or PERF_ALL_RANKS: the inputs of all ranks, reduced; or PERF_FILLER */
};

/* The result of a check, added up over spans. Set it to zeros before. */
enum { SPAN_PLACES = 4 };
struct perf_wrong {
    uint64_t count;               /* Number of wrong elements */
    uint64_t places[SPAN_PLACES]; /* Places of some wrong elements in the buffer */
    uint32_t nplaces;             /* Number of places that were found. Only the first SPAN_PLACES are kept */
};

PORT_FN uint64_t span_expected(const struct perf_pattern *pattern, const struct perf_span *span, uint64_t index) {
    if (span->rank == PERF_FILLER)
        return UINT64_C(0xa5a5a5a5a5a5a5a5) & pattern_mask(pattern);
    if (span->rank == PERF_ALL_RANKS)
        return pattern_reduced(pattern, span->element + index);
    return pattern_input(pattern, span->rank, span->element + index);
}

PORT_FN uint64_t span_load(const void *memory, uint64_t element, uint32_t size) {
    switch (size) {
    case 1: return ((const uint8_t *)memory)[element];
    case 2: return ((const uint16_t *)memory)[element];
    case 4: return ((const uint32_t *)memory)[element];
    default: return ((const uint64_t *)memory)[element];
    }
}

PORT_FN void span_store(void *memory, uint64_t element, uint32_t size, uint64_t bits) {
    switch (size) {
    case 1: ((uint8_t *)memory)[element] = (uint8_t)bits; break;
    case 2: ((uint16_t *)memory)[element] = (uint16_t)bits; break;
    case 4: ((uint32_t *)memory)[element] = (uint32_t)bits; break;
    default: ((uint64_t *)memory)[element] = bits; break;
    }
}

PORT_FN void span_note(struct perf_wrong *wrong, uint64_t place) {
    if (wrong->nplaces < SPAN_PLACES)
        wrong->places[wrong->nplaces] = place;
    wrong->nplaces++;
}

/* memory: the buffer, aligned to the size of an element. */
void span_fill(void *memory, const struct perf_pattern *pattern, const struct perf_span *span);
void span_check(const void *memory, const struct perf_pattern *pattern, const struct perf_span *span,
                struct perf_wrong *wrong);

/* These do the same on the current GPU, in a stream (a cudaStream_t). The GPU must be able to access memory and *wrong. They return a
 * cudaError_t. Call span_gpu_load() first, once per GPU: CUDA may load a kernel at its first launch, and then wait
 * for all kernels that run. If one of these is a collective that waits for another rank, this would never end. */
int span_gpu_load(void);
int span_gpu_fill(void *memory, const struct perf_pattern *pattern, const struct perf_span *span, void *stream);
int span_gpu_check(const void *memory, const struct perf_pattern *pattern, const struct perf_span *span,
                   struct perf_wrong *wrong, void *stream);

#if defined(__cplusplus)
}
#endif

#endif
