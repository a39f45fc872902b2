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
    int nranks;  /* that it brought */
    bool asks;   /* who is missing */
    bool via;    /* what it says is for another meeting point */
    bool astray; /* for one to which this one does not lead */
    struct guest *next, **link;
};

struct rendezvous {
    struct watch_task start;
    struct door door;
    bool listed;
    uint8_t secret[SECRET_BYTES];
    enum meeting_state state;
    struct guest *guests;
    struct relay *relay; /* NULL: the ranks meet here */
    struct watch_timer end;
    struct failure failure;
    struct rendezvous *next;

    /* From the first JOIN on: */
    int nranks;
    struct arena arena;   /* has the next two */
    struct guest **owner; /* by rank; NULL: has not come */
    uint8_t *have;        /* by rank: came (MEETING_GATHERS), reported its node (MEETING_LINKS) */
    int nhave;
    struct table table;
};

/* To all guests that brought ranks. */
void meeting_tell(struct rendezvous *meeting, enum table_frame type, const void *data, size_t bytes);
/* Init is over for everybody. False: the meeting is gone, since nobody can come late and ask. */
bool meeting_fail(struct rendezvous *meeting, const struct failure *failure);
void meeting_destroy(struct rendezvous *meeting); /* what is queued for guests is sent */

#endif
