/* SPDX-License-Identifier: Apache-2.0
 *
 * Statistics of the times of single iterations (-I). A percentile is a sample (nearest-rank method): with fewer than 100 samples
 * the 99th percentile is the largest sample.
 */
#include "perf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(const double *sorted, int count, int percent) {
    int index = (count * percent + 99) / 100 - 1;
    return sorted[index < 0 ? 0 : index];
}

void stats_compute(const double *samples, int count, struct perf_stats *stats) {
    double *sorted = perf_allocate((size_t)count * sizeof(*sorted));
    memcpy(sorted, samples, (size_t)count * sizeof(*sorted));
    qsort(sorted, (size_t)count, sizeof(*sorted), compare);

    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++)
        sum += sorted[i];
    double average = sum / count;
    for (int i = 0; i < count; i++)
        squares += (sorted[i] - average) * (sorted[i] - average);
    *stats = (struct perf_stats){
        .min = sorted[0],
        .max = sorted[count - 1],
        .average = average,
        .p50 = sorted[count / 2],
        .p95 = percentile(sorted, count, 95),
        .p99 = percentile(sorted, count, 99),
        .deviation = sqrt(squares / count),
    };
    free(sorted);
}
