/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans: a buffer is described by what its elements must be, stretch by stretch. The same spans fill it before a call and
 * check it after one, on the host (span.c) or on a GPU, in a stream (span_gpu.cu).
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

/* Where an element comes from, if from no single rank. */
enum { PERF_ALL_RANKS = -1, PERF_UNTOUCHED = -2, PERF_FILLER = -3 };
enum { SPAN_FILLER_BYTE = 0xa5 };

struct perf_span {
    uint64_t first, count; /* elements of the buffer … */
    uint64_t element;      /* … are elements from this one on … */
    int32_t rank;          /* … of this rank's input, or PERF_ALL_RANKS: of all ranks reduced; or PERF_FILLER */
};

/* What a check has found, added up over spans. It begins as zeros. */
enum { SPAN_PLACES = 4 };
struct perf_wrong {
    uint64_t count;               /* elements that are not what they must be */
    uint64_t places[SPAN_PLACES]; /* of some of them: element of the buffer … */
    uint32_t nplaces;             /* … so many were noted; more than SPAN_PLACES were not kept */
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

/* The same on the current GPU, queued in a stream (a cudaStream_t) of it; memory and *wrong are its own, or any that it
 * reaches. They return a cudaError_t. What span_gpu_load() is for: CUDA may load a kernel at its first launch and wait
 * there for all kernels that run. A kernel of a collective that waits for another rank would then wait without end. So
 * load them first, once per GPU. */
int span_gpu_load(void);
int span_gpu_fill(void *memory, const struct perf_pattern *pattern, const struct perf_span *span, void *stream);
int span_gpu_check(const void *memory, const struct perf_pattern *pattern, const struct perf_span *span,
                   struct perf_wrong *wrong, void *stream);

#if defined(__cplusplus)
}
#endif

#endif
