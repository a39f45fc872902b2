/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait for other ranks of the job before there is an id. COLLET_INIT_TIMEOUT ends it. After COLLET_WARN_AFTER, a message
 * names the missing ranks, and the variables that make this rank expect them.
 */
#ifndef COLLET_LAYERS_LAUNCHERS_MEETING_WAIT_H
#define COLLET_LAYERS_LAUNCHERS_MEETING_WAIT_H

#include "base/config.h"
#include "base/wait.h"

struct meeting_wait {
    const struct config *config;
    uint64_t deadline_ns;
    struct late late;
};

void meeting_wait_begin(struct meeting_wait *wait, const struct config *config);

/* SUCCESS: go on waiting. TIMEOUT: the time is over. missing: text of what has not happened. */
enum collet_result meeting_wait_look(struct meeting_wait *wait, const char *missing);

/* The time at which meeting_wait_look() must be called again at the latest. */
uint64_t meeting_wait_due_ns(const struct meeting_wait *wait);

#endif
