/* SPDX-License-Identifier: Apache-2.0
 *
 * Pledged memory: host memory that stays at its address for as long as the pledge lasts. collet_mem_alloc() pledges the memory that it
 * returns, and collet_comm_register() pledges the buffer that the program names. The memory is registered with a NIC once, and the NIC
 * uses this registration in every call until the pledge ends.
 *
 *    pledge   │ address, bytes │ for each NIC: its registration │      made when the NIC first sends or receives there
 *
 * A registration belongs to a pledge, never to an address: after the pledge has ended, other memory may lie at the same address, and no
 * NIC knows that memory. Pledges may overlap. In a forked child the parent's registrations are not valid: the child registers its pledged
 * memory anew.
 */
#ifndef COLLET_LAYERS_MEMORY_PLEDGE_H
#define COLLET_LAYERS_MEMORY_PLEDGE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pledge;
struct verbs_host;
struct verbs_device;

/* Declares that the memory stays in place until pledge_end(). Any thread may call all functions of this file. */
enum collet_result pledge_make(const void *memory, size_t bytes, struct pledge **pledge_p);
/* Ends a pledge, and its registrations with NICs. No call may use the memory any more. NULL is fine. */
void pledge_end(struct pledge *pledge);

/* Does one pledge contain all of this memory? */
int pledge_covers(uint64_t address, uint32_t bytes);

/* local: the key for this rank's own NIC (lkey). remote: the key by which other ranks write the memory (rkey). */
struct pledge_keys {
    uint32_t local, remote;
    bool writable; /* false: other ranks cannot write the memory, because the program itself may only read it */
};
/* Gets the keys of pledged memory. False: the memory is not pledged, or the NIC refuses to register it; then the log says why. */
bool pledge_keys(const struct verbs_host *host, const struct verbs_device *device, uint64_t address, uint32_t bytes,
                 struct pledge_keys *keys);

#endif
