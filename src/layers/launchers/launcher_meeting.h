/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks get a common unique id if they run on several hosts, and share nothing but their launcher.
 */
#ifndef COLLET_LAYERS_LAUNCHERS_LAUNCHER_MEETING_H
#define COLLET_LAYERS_LAUNCHERS_LAUNCHER_MEETING_H

#include "base/config.h"
#include "collet.h"

#include <stdbool.h>

/* Does the launcher of this process have a store that can be used for the meeting? */
bool launcher_meeting_possible(void);

/* Rank 0 makes an id and passes it to the others through the launcher's store. All ranks of the job call it. It blocks
 * for COLLET_INIT_TIMEOUT at most. Errors: TIMEOUT, SYSTEM. */
enum collet_result launcher_meeting(int rank, const struct config *config, struct collet_unique_id *id);

#endif
