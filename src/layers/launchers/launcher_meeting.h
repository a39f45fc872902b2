/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks on several hosts that have nothing but their launcher come to one unique id.
 */
#ifndef COLLET_LAYERS_LAUNCHERS_LAUNCHER_MEETING_H
#define COLLET_LAYERS_LAUNCHERS_LAUNCHER_MEETING_H

#include "base/config.h"
#include "collet.h"

#include <stdbool.h>

/* Does the launcher of this process keep a store that can be used for it? */
bool launcher_meeting_possible(void);

/* Rank 0 makes an id and hands it to the others through the launcher's store. Collective over the job and blocking, up to
 * COLLET_INIT_TIMEOUT. Errors: TIMEOUT, SYSTEM. */
enum collet_result launcher_meeting(int rank, const struct config *config, struct collet_unique_id *id);

#endif
