/* SPDX-License-Identifier: Apache-2.0
 *
 * What a traced worker notes around each try of a step (chan/tracer.h). Only the traced copy of exec_worker_visit() calls it.
 *
 *      try: BUSY … BUSY, done         wait ├────────────┤
 *                                     step              ├──────┤
 */
#ifndef COLLET_EXEC_EXEC_TRACE_H
#define COLLET_EXEC_EXEC_TRACE_H

#include "exec/exec.h"

/* A step before it is tried. */
struct trace_try {
    uint64_t begin_ns, round;
    uint32_t pc, bytes;
    bool skipped; /* it has nothing to carry */
};
struct trace_try trace_before(const struct interp_worker *w);
void trace_after(const struct exec_call *call, const struct interp_worker *w, const struct trace_try *before,
                 enum interp_result result);

#endif
