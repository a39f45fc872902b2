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

/* The transport of the connection is ready. SUCCESS when the test has passed or there is none, IN_PROGRESS before. REMOTE, on the
 * consumer: data changed on the way. */
enum collet_result selftest_conn_try(struct conn *conn);

/* Makes and tests connections with all ranks. All ranks call it again and again until it is not IN_PROGRESS any more. */
enum collet_result selftest_all_try(struct chan *chan, uint64_t deadline_ns);

#endif
