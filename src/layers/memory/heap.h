/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared heap: memory of this process that the other processes of its host can map. collet_mem_alloc() takes its memory from the
 * shared heap.
 *
 *    shared heap of process A │ nonce │ taken │ no pages │ taken │ no pages yet …     one memfd, as long as the machine's memory
 *                             0       └─ offset
 *    seen by process B        │ nonce │ …                                             mapped whole when B first needs it
 *
 * Processes name a place in the shared heap by its offset, never by an address. Memory that is given back loses its pages at once, in all
 * processes: a process that still reads there finds zeros. Peers map the shared heap with the help of a ticket. They keep it mapped until
 * their last connection to that process is closed.
 *
 * A child of fork() gets a private copy, page by page as it writes. It creates a shared heap of its own when it needs one.
 */
#ifndef COLLET_LAYERS_MEMORY_HEAP_H
#define COLLET_LAYERS_MEMORY_HEAP_H

#include "fifo/loan_end.h"

#include <stdbool.h>

/* Takes zeroed memory from this process's shared heap; its address is a multiple of align. NULL: there is no shared heap, or no room. */
void *heap_take(size_t bytes, size_t align);
/* Gives memory back to the shared heap. False: the memory was not taken from the shared heap. */
bool heap_give_back(void *memory);

/* Returns the address at which this process has these bytes of another process's shared heap. The first call maps it. NULL: there is no view;
 * or the bytes are outside; or it cannot be mapped. In the last two cases the log says why. */
char *heap_view_at(struct heap_view *view, uint64_t offset, size_t bytes);

#endif
