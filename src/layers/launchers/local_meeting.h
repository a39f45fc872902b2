/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks of one host that share nothing but the name of their job come to one unique id.
 */
#ifndef COLLET_LAYERS_LAUNCHERS_LOCAL_MEETING_H
#define COLLET_LAYERS_LAUNCHERS_LOCAL_MEETING_H

#include "base/config.h"
#include "collet.h"

/* Rank 0 makes an id and hands it to ranks 1 … nranks−1; the others fetch it. Collective and blocking, up to COLLET_INIT_TIMEOUT.
 * The name must differ from that of any other job of this user that is starting on this host. Errors: TIMEOUT naming the
 * ranks that did not come (or that rank 0 did not), SYSTEM. */
enum collet_result local_meeting(const char *job, int nranks, int rank, const struct config *config,
                                 struct collet_unique_id *id);

#endif
