/* SPDX-License-Identifier: Apache-2.0
 *
 * An apology: a rank will not come. The meeting point of its id hears why, and with it all that come there; so nobody waits for it.
 *
 *      begin_rank() fails ──▶ apology ──▶ watch: the meeting point is in this process? it is told
 *                                               in another one? dial ──▶ prove the secret ──▶ TABLE_ABSENT
 */
#ifndef COLLET_BOOT_APOLOGY_H
#define COLLET_BOOT_APOLOGY_H

#include "boot/id.h"
#include "boot/table.h"

/* failure->rank: who will not come; −1: none in particular. Waits until it is said, or in vain, but for patience_ns at most: the
 * process may be about to exit. */
void apology_make(const struct id *id, const struct failure *failure, uint64_t patience_ns);

#endif
