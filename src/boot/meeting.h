/* SPDX-License-Identifier: Apache-2.0
 *
 * A meeting point, as rendezvous.c and relay.c see it. It belongs to the watch thread.
 */
#ifndef COLLET_BOOT_MEETING_H
#define COLLET_BOOT_MEETING_H

#include "base/memory.h"
#include "boot/door.h"
#include "seams/elastic.h"
#include "boot/table.h"

enum meeting_state { MEETING_GATHERS, MEETING_LINKS, MEETING_FAILED };

struct guest {
    struct rendezvous *meeting;
    struct wire *wire;
    int nranks;  /* number of ranks that it brought */
    bool asks;   /* it wants to know who is missing */
    bool via;    /* its messages are for another meeting point */
    bool astray; /* they are for one that this one does not serve */
    struct guest *next, **link;
};

struct rendezvous {
    struct watch_task start;
    struct door door;
    bool listed;
    uint8_t secret[SECRET_BYTES];
    enum meeting_state state;
    struct guest *guests;
    struct relay *relay; /* NULL: the ranks meet at this one */
    struct watch_timer end;
    struct failure failure;
    struct rendezvous *next;

    /* Set by the first JOIN: */
    int nranks;
    struct arena arena;   /* owns the next two */
    struct guest **owner; /* [rank] NULL: has not come */
    uint8_t *have;        /* [rank] 1: has come (MEETING_GATHERS), or has reported its node (MEETING_LINKS) */
    int nhave;
    struct table table;
};

/* Sends to all guests that brought ranks. */
void meeting_tell(struct rendezvous *meeting, enum table_frame type, const void *data, size_t bytes);
/* Ends init for everybody. False: the meeting is freed, because no late guest can come. */
bool meeting_fail(struct rendezvous *meeting, const struct failure *failure);
void meeting_destroy(struct rendezvous *meeting); /* queued messages for guests are sent first */

#endif
