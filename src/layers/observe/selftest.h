/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_SELFTEST: a connection carries test data before anything else.
 *
 *    producer                                                          consumer
 *    each slot once, full of known bytes ── transport ──────────────▶  compares every byte, consumes
 *    ready                               ◀── control plane: as sent ── ready
 *
 * If bytes differ, the error names the link by which the slot came. Connections are usually made at first use. With the
 * self-test, each two ranks get connections when the communicator is created: one connection per ring, and so one per NIC
 * of a ring.
 */
#ifndef COLLET_LAYERS_OBSERVE_SELFTEST_H
#define COLLET_LAYERS_OBSERVE_SELFTEST_H

#include "chan/chan.h"
#include "seams/observe.h"

/* Makes and tests connections with all ranks. IN_PROGRESS: call again, on all ranks. */
enum collet_result selftest_all_try(struct chan *chan, uint64_t deadline_ns);

#endif
