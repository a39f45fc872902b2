/* SPDX-License-Identifier: Apache-2.0
 *
 * The commons: memory of this process that the other processes of its host can map. What collet_mem_alloc() gives comes from
 * there.
 *
 *    commons of process A     │ nonce │ taken │ no pages │ taken │ no pages yet …     one memfd, as long as the machine's memory
 *                             0       └─ offset
 *    seen by process B        │ nonce │ …                                             mapped whole when B first needs it
 *
 * A place in it is an offset, and no process hears another one's addresses. What is given back loses its pages at once, in all
 * processes; whoever still reads there finds zeros. Peers map the commons by a ticket. They keep it mapped until their last
 * connection to that process is closed.
 *
 * A child of fork() gets a private copy, page by page as it writes, and a commons of its own when it needs one.
 */
#ifndef COLLET_LAYERS_MEMORY_COMMONS_H
#define COLLET_LAYERS_MEMORY_COMMONS_H

#include "fifo/loan_end.h"

#include <stdbool.h>

/* Takes zeroed memory from this process's commons; its address is a multiple of align. NULL: there is no commons, or no room. */
void *commons_take(size_t bytes, size_t align);
/* Returns memory to the commons. False: it was not taken from there. */
bool commons_give_back(void *memory);

/* The address of these bytes of a view in this process. NULL: not in the commons, or it cannot be mapped; the log says why. */
char *commons_view_at(struct commons_view *view, uint64_t offset, size_t bytes);

#endif
