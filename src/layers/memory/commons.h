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

#include "base/port.h"
#include "collet.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As it lies in this process. */
struct commons {
    char *base;   /* NULL: there is none */
    size_t bytes; /* 0: there is none */
};

/* The offset of an address; 0: it is not in the commons. The nonce is at 0. */
PORT_FN uint64_t commons_offset(const struct commons *commons, uint64_t address) {
    uint64_t offset = address - (uint64_t)(uintptr_t)commons->base;
    return offset < commons->bytes ? offset : 0;
}

/* This process's, made when it is first asked for. The pointer stays the same. */
const struct commons *commons_own(void);

/* Zeroed memory whose address is a multiple of align, of this process's commons. NULL: there is no commons, or no room. */
void *commons_take(size_t bytes, size_t align);
/* False: it was not taken from this process's commons. */
bool commons_give_back(void *memory);

/* ---- another process's ---- */

struct commons_ticket {
    uint64_t nonce, bytes;
    int32_t pid, fd; /* fd −1: there is no commons */
};
struct commons_ticket commons_own_ticket(void);

struct commons_view;

/* One view per process, however often it is opened. *view_p: NULL, if there is no commons. */
enum collet_result commons_view_open(const struct commons_ticket *ticket, struct commons_view **view_p);
void commons_view_close(struct commons_view *view); /* NULL is fine */

/* Where this process reaches so many bytes. NULL: they are not in the commons, or it cannot be mapped. The log says why. */
char *commons_view_at(struct commons_view *view, uint64_t offset, size_t bytes);

#endif
