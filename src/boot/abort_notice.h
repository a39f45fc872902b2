/* SPDX-License-Identifier: Apache-2.0
 *
 * An abort notice: a rank will not come. The meeting point of its id hears why, and with it all that come there; so nobody waits for it.
 *
 *      begin_rank() fails ──▶ notice ──▶ watch: the meeting point is in this process? it is told
 *                                               in another one? dial ──▶ prove the secret ──▶ TABLE_ABSENT
 */
#ifndef COLLET_BOOT_ABORT_NOTICE_H
#define COLLET_BOOT_ABORT_NOTICE_H

#include "boot/id.h"
#include "boot/table.h"

/* Tells the meeting point that a rank will not come: failure->rank, or −1 for no rank in particular. Returns when that is told, when it
 * cannot be told, or after patience_ns. It waits because the process may exit right after it. patience_ns 0: only if the meeting point is in this
 * process. */
void abort_notice_send(const struct id *id, const struct failure *failure, uint64_t patience_ns);

#endif
