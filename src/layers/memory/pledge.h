/* SPDX-License-Identifier: Apache-2.0
 *
 * Pledged memory: memory of the host of which the program has said that it stays where it is. That is what collet_mem_alloc()
 * gave, and what the program registered. A NIC is told of it once, and uses it in every call until the pledge ends.
 *
 *    pledge   │ address, bytes │ by NIC: its registration │      made when the NIC first carries something from there
 *
 * So a registration belongs to a pledge, never to an address: what lies at the same address after the pledge has ended is other
 * memory, and no NIC knows it. Pledges may overlap. The NICs of a forked child know nothing of what its parent pledged: they are
 * told anew.
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
/* Ends a pledge; no call uses the memory any more. NULL is fine. After it, no NIC knows the memory by this pledge. */
void pledge_end(struct pledge *pledge);

/* Is all of this memory in one pledge? */
int pledge_covers(uint64_t address, uint32_t bytes);

/* The keys by which a NIC reads the memory, and others write it. */
struct pledge_keys {
    uint32_t local, remote;
    bool writable; /* 0: other ranks cannot write it, because the program may only read it */
};
/* Gets the keys. False: the memory is not pledged, or the NIC refuses it; then the log says why. */
bool pledge_keys(const struct verbs_host *host, const struct verbs_device *device, uint64_t address, uint32_t bytes,
                 struct pledge_keys *keys);

#endif
