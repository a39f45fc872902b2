/* SPDX-License-Identifier: Apache-2.0
 *
 * The meeting point of one unique id: where the ranks find each other. Served by the watch of the process that opened it.
 */
#ifndef COLLET_BOOT_RENDEZVOUS_H
#define COLLET_BOOT_RENDEZVOUS_H

#include "boot/id.h"
#include "boot/table.h"

/* Opens the meeting point of an id; any thread may call it. If id is listed, it uses the first free port of id->set. Otherwise it makes a
 * fresh id and fills in *id. */
enum collet_result rendezvous_open(struct id *id);

/* Tells a failure to all guests of this secret's meeting point, on the watch thread. False: that meeting point is not in this process,
 * or is over. */
bool rendezvous_fail(const uint8_t secret[SECRET_BYTES], const struct failure *failure);

/* An abort notice: tells the meeting point that a rank will not come: failure->rank, or −1 for no rank in particular. All that come there
 * hear why, so nobody waits for it. Returns when that is told, when it cannot be told, or after patience_ns: the process may exit right after
 * it. patience_ns 0: only if the meeting point is in this process.
 *
 *      begin_rank() fails ──▶ notice ──▶ watch: the meeting point is in this process? it is told
 *                                               in another one? dial ──▶ prove the secret ──▶ TABLE_ABSENT
 */
void abort_notice_send(const struct id *id, const struct failure *failure, uint64_t patience_ns);

#endif
