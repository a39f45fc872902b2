/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "vectors": collectives whose blocks have their own counts, operators that programs create, and probes.
 * Without the layer programs cannot have these. Each communicator has a list of its operators.
 */
#ifndef COLLET_SEAMS_VECTORS_H
#define COLLET_SEAMS_VECTORS_H

#include "api/comm.h"

#define PROBE_ANY (-1) /* A peer of a probe: any rank */

/* Tries a probe. The driver calls this. SUCCESS: a message has come, and the probe holds the sender's rank. IN_PROGRESS: no message has
 * come yet. Any other result is a failure, also TIMEOUT. *idle_since_ns: the time of the first try that found nothing; 0: there was
 * none. */
enum collet_result probe_try(struct collet_comm *comm, struct post *probe, uint64_t *idle_since_ns);

#endif
