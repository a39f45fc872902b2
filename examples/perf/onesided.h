/* SPDX-License-Identifier: Apache-2.0
 *
 * What put_perf and get_perf share: the ring of ranks, and windows. The first call on a buffer makes its window, on all ranks; that is not timed, as a warm-up
 * comes first. It ends with the communicator.
 */
#ifndef COLLET_EXAMPLES_PERF_ONESIDED_H
#define COLLET_EXAMPLES_PERF_ONESIDED_H

#include "perf.h"

/* The ranks before and behind this one, around the ring. */
static inline int onesided_before(const struct perf_call *call) {
    return (call->rank + call->nranks - 1) % call->nranks;
}
static inline int onesided_behind(const struct perf_call *call) { return (call->rank + 1) % call->nranks; }
/* All elements come from the rank before. */
struct perf_origin onesided_origin(const struct perf_call *call, size_t element);

enum collet_result onesided_window(struct collet_comm *comm, void *buff, size_t bytes, struct collet_window **window);
const char *onesided_refuses(const struct perf_job *job);

#endif
