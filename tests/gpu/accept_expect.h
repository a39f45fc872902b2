/* SPDX-License-Identifier: Apache-2.0
 *
 * What each element of a region of memory is before a call, and what it has to be after it. Host and GPU compute it alike, each
 * element by itself:
 *
 *     │ margin │ buffer: IN, or OUT, or both (in place) … │ margin │
 *
 * Inputs and results are those of the perf programs (pattern.h): they have one right value, whatever the order of a reduction. What
 * is neither an input nor a result has a pattern, and keeps it.
 */
#ifndef COLLET_TESTS_ACCEPT_EXPECT_H
#define COLLET_TESTS_ACCEPT_EXPECT_H

#include "perf/pattern.h"

#define EXPECT_RANKS 8

/* Elements `at` … of a region: elements `first` … of what rank gives, or, EXPECT_ALL, of the reduction of what all give. */
#define EXPECT_ALL (-1)
struct expect_block {
    uint64_t at, count, first;
    int rank;
};

struct expect_region {
    struct perf_pattern pattern;
    void *memory;
    uint64_t elems; /* with the margins */
    uint32_t elem_bytes;
    int ninputs, nresults;
    struct expect_block inputs[EXPECT_RANKS], results[EXPECT_RANKS];
};

PORT_FN const struct expect_block *expect_find(const struct expect_block *blocks, int n, uint64_t elem) {
    for (int k = 0; k < n; k++)
        if (elem - blocks[k].at < blocks[k].count) /* below `at` the difference is huge */
            return &blocks[k];
    return NULL;
}

PORT_FN uint64_t expect_mask(const struct expect_region *r) { return ~(uint64_t)0 >> (64 - 8 * r->elem_bytes); }

PORT_FN uint64_t expect_margin(const struct expect_region *r, uint64_t elem) {
    return ((elem + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 7) & expect_mask(r);
}

PORT_FN uint64_t expect_before(const struct expect_region *r, uint64_t elem) {
    const struct expect_block *b = expect_find(r->inputs, r->ninputs, elem);
    return b != NULL ? pattern_input(&r->pattern, b->rank, b->first + (elem - b->at)) : expect_margin(r, elem);
}

PORT_FN uint64_t expect_after(const struct expect_region *r, uint64_t elem) {
    const struct expect_block *b = expect_find(r->results, r->nresults, elem);
    if (b == NULL)
        return expect_before(r, elem);
    const uint64_t at = b->first + (elem - b->at);
    return b->rank == EXPECT_ALL ? pattern_reduced(&r->pattern, at) : pattern_input(&r->pattern, b->rank, at);
}

/* An average is rounded, and only a result may be. */
PORT_FN int expect_is_right(const struct expect_region *r, uint64_t elem, uint64_t got) {
    const uint64_t expected = expect_after(r, elem);
    if (got == expected)
        return 1;
    return expect_find(r->results, r->nresults, elem) != NULL && pattern_accepts(&r->pattern, got, expected);
}

PORT_FN uint64_t expect_load(const struct expect_region *r, uint64_t elem) {
    switch (r->elem_bytes) {
    case 1: return ((const uint8_t *)r->memory)[elem];
    case 2: return ((const uint16_t *)r->memory)[elem];
    case 4: return ((const uint32_t *)r->memory)[elem];
    default: return ((const uint64_t *)r->memory)[elem];
    }
}

PORT_FN void expect_store(const struct expect_region *r, uint64_t elem, uint64_t bits) {
    switch (r->elem_bytes) {
    case 1: ((uint8_t *)r->memory)[elem] = (uint8_t)bits; return;
    case 2: ((uint16_t *)r->memory)[elem] = (uint16_t)bits; return;
    case 4: ((uint32_t *)r->memory)[elem] = (uint32_t)bits; return;
    default: ((uint64_t *)r->memory)[elem] = bits; return;
    }
}

#endif
