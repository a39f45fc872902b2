/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "observe" no events are recorded. A lane keeps one run for all of its calls.
 */
#include "seams/observe.h"

#include "base/err.h"

enum collet_result recorder_tell(struct recorder *recorder, enum told told, struct call_run *run,
                                 struct exec_call *call) {
    (void)recorder, (void)told;
    if (run != NULL)
        run->args_id = call->args_id;
    return COLLET_SUCCESS;
}

enum collet_result selftest_conn_try(struct conn *conn) {
    (void)conn;
    return COLLET_SUCCESS;
}
