/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "memory": no end lends, and no process has a shared heap. So no call has loans.
 */
#include "exec/exec.h"

/* ---- the shared heap ---- */

const struct heap *heap_own(void) {
    static const struct heap none = {.ticket.fd = -1};
    return &none;
}

enum collet_result heap_view_open(const struct heap_ticket *ticket, struct heap_view **view_p) {
    (void)ticket;
    *view_p = NULL;
    return COLLET_SUCCESS;
}

void heap_view_close(struct heap_view *view) { (void)view; }

bool heap_view_map(struct heap_view *view) {
    (void)view;
    return false;
}

/* ---- loans ---- */

exec_visit *exec_direct_visit(const struct exec_call *call) {
    (void)call;
    return NULL;
}

void exec_stop_loans(const struct exec_call *call) { (void)call; }
