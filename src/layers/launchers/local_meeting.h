/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks get a common unique id if they run on one host, and share nothing but the name of their job.
 */
#ifndef COLLET_LAYERS_LAUNCHERS_LOCAL_MEETING_H
#define COLLET_LAYERS_LAUNCHERS_LOCAL_MEETING_H

#include "base/config.h"
#include "collet.h"

/* Rank 0 makes an id and passes it to ranks 1 … nranks−1, which fetch it. All ranks call it. It blocks for
 * COLLET_INIT_TIMEOUT at most. The name must differ from that of any other job of this user that is starting on this
 * host. Errors: TIMEOUT, which names the ranks that did not come (or says that rank 0 did not); SYSTEM. */
enum collet_result local_meeting(const char *job, int nranks, int rank, const struct config *config,
                                 struct collet_unique_id *id);

#endif
