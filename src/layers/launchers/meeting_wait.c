/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/launchers/meeting_wait.h"

#include "base/err.h"
#include "base/log.h"

void meeting_wait_begin(struct meeting_wait *wait, const struct config *config) {
    const uint64_t now_ns = os_now_ns();
    *wait =
        (struct meeting_wait){.config = config, .deadline_ns = now_ns + (uint64_t)config->init_timeout * 1000000000u};
    late_begin(&wait->late, now_ns, config->warn_after);
}

enum collet_result meeting_wait_look(struct meeting_wait *wait, const char *missing) {
    if (os_now_ns() > wait->deadline_ns)
        return err_set(COLLET_ERR_TIMEOUT, "after %d s (COLLET_INIT_TIMEOUT) %s (%s)", (int)wait->config->init_timeout,
                       missing, wait->config->believed);
    if (late_look(&wait->late))
        log_always(INIT, "init %s: %s (%s)", late_text(&wait->late), missing, wait->config->believed);
    return COLLET_SUCCESS;
}

uint64_t meeting_wait_due_ns(const struct meeting_wait *wait) {
    return wait->late.due_ns < wait->deadline_ns ? wait->late.due_ns : wait->deadline_ns;
}
