/* SPDX-License-Identifier: Apache-2.0
 *
 * An inquiry: does a process on another host still live? It is asked by dialling its door: whoever proves to know the key
 * lives. The inquiries about all processes of a host run at the same time, so a host that is lost is lost at once, however
 * many processes it had. Belongs to the watch thread.
 */
#ifndef COLLET_BOOT_INQUIRY_H
#define COLLET_BOOT_INQUIRY_H

#include "boot/peer.h"
#include "boot/dial.h"

struct inquiry;

/* Called once. PEER_ALIVE: wire leads to the process, and the callee owns it. PEER_DEAD or PEER_LOST: why says how that was found. */
typedef void (*inquiry_result_fn)(void *owner, int place, enum peer_state state, struct wire *wire, const char *why);

/* Starts an inquiry. If it is refused for gone_ns, the process is dead; without answer until deadline_ns, it is lost. NULL: no memory. */
struct inquiry *inquiry_start(const struct address_set *set, const uint8_t key[SECRET_BYTES], uint64_t gone_ns,
                              uint64_t deadline_ns, inquiry_result_fn result, void *owner, int place);
void inquiry_stop(struct inquiry *inquiry); /* no result is reported; NULL is fine */

#endif
