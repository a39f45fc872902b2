/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_SELFTEST: a connection carries test data before anything else.
 *
 *    producer                                                          consumer
 *    each slot once, full of known bytes ── transport ──────────────▶  compares every byte, consumes
 *    ready                               ◀── control plane: as sent ── ready
 *
 * A difference names the link that the slot came by. Connections are made at first use. Those of every two ranks, one per ring
 * and so one per NIC of a ring, are made when the communicator is created.
 */
#ifndef COLLET_LAYERS_OBSERVE_SELFTEST_H
#define COLLET_LAYERS_OBSERVE_SELFTEST_H

#include "chan/chan.h"
#include "seams/observe.h"

/* Makes and tests connections with all ranks. All ranks call it again and again until it is not IN_PROGRESS any more. */
enum collet_result selftest_all_try(struct chan *chan, uint64_t deadline_ns);

#endif
