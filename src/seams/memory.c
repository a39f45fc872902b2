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

struct exec_loans exec_loans_of(const struct exec_program *program) {
    (void)program;
    return (struct exec_loans){0};
}

void exec_lend(const struct exec_call *call) { (void)call; }

void exec_announce(struct interp_worker *w) { (void)w; }

enum interp_result exec_borrow(struct interp_worker *w, const struct prog_step *step, uint32_t bytes,
                               const struct interp_piece *piece) {
    (void)w, (void)step, (void)bytes, (void)piece;
    return INTERP_STEPPED;
}

int exec_land(struct interp_worker *w, const struct prog_step *step, int ndst, uint32_t bytes, uint32_t *stream_mask) {
    (void)w, (void)step, (void)bytes, (void)stream_mask;
    return ndst;
}

void exec_carry(struct interp_worker *w, const struct prog_step *step, uint32_t bytes) {
    (void)w, (void)step, (void)bytes;
}

void exec_help(const struct exec_program *program, bool *moved) { (void)program, (void)moved; }

void exec_stop_loans(const struct exec_call *call) { (void)call; }
