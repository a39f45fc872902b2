/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans of memory of the host: filled and checked element by element.
 */
#include "span.h"

void span_fill(void *memory, const struct perf_pattern *pattern, const struct perf_span *span) {
    for (uint64_t i = 0; i < span->count; i++)
        span_store(memory, span->first + i, pattern->bytes, span_expected(pattern, span, i));
}

void span_check(const void *memory, const struct perf_pattern *pattern, const struct perf_span *span,
                struct perf_wrong *wrong) {
    for (uint64_t i = 0; i < span->count; i++) {
        uint64_t got = span_load(memory, span->first + i, pattern->bytes);
        if (pattern_accepts(pattern, got, span_expected(pattern, span, i)))
            continue;
        wrong->count++;
        span_note(wrong, span->first + i);
    }
}
