/* SPDX-License-Identifier: Apache-2.0
 *
 * What the core knows of the layer "vectors": blocks with counts of their own, operators that programs create, probes. Without the
 * layer nobody makes any of these.
 */
#ifndef COLLET_SEAMS_VECTORS_H
#define COLLET_SEAMS_VECTORS_H

#include "api/comm.h"

#define PROBE_ANY (-1) /* a post with this peer is a probe */

/* The operator of a request is none of enum collet_op. One that was created on the communicator is replaced by COLLET_PREMULSUM and
 * its factor. Errors: INVALID_ARGUMENT; without the layer always. */
enum collet_result op_resolve_created(const struct collet_comm *comm, struct exec_request *request);

/* By the driver. SUCCESS: a message is there, and the probe has its rank; IN_PROGRESS; or a failure, TIMEOUT too. *idle_since_ns: when
 * the driver first found nothing; 0: not yet. */
enum collet_result probe_try(struct collet_comm *comm, struct post *probe, uint64_t *idle_since_ns);

#endif
