/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "memory": no end lends, and no process has a commons. So no call has loans.
 */
#include "exec/exec.h"

/* ---- the commons ---- */

const struct commons *commons_own(void) {
    static const struct commons none = {.ticket.fd = -1};
    return &none;
}

enum collet_result commons_view_open(const struct commons_ticket *ticket, struct commons_view **view_p) {
    (void)ticket;
    *view_p = NULL;
    return COLLET_SUCCESS;
}

void commons_view_close(struct commons_view *view) { (void)view; }

bool commons_view_map(struct commons_view *view) {
    (void)view;
    return false;
}

/* ---- loans ---- */

exec_visit *exec_direct_visit(const struct exec_call *call) {
    (void)call;
    return NULL;
}

void exec_stop_loans(const struct exec_call *call) { (void)call; }
