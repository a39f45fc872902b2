/* SPDX-License-Identifier: Apache-2.0
 *
 * A status query asks every rank of a communicator for its record (status.h), for a program outside the job (status_socket.h).
 *
 *      status query ── QUERY ──▶ tree ──▶ watch of each process: the record of the rank
 *             ◀── REPORT ── tree ◀──                                      over when all ranks have answered, or after 1 s
 *
 * Only the watch thread uses these functions.
 */
#ifndef COLLET_LAYERS_OBSERVE_STATUS_QUERY_H
#define COLLET_LAYERS_OBSERVE_STATUS_QUERY_H

#include "boot/hub.h"
#include "layers/observe/status.h"

/* The known facts about a rank. The struct is sent to the asking program as it is. */
struct query_rank {
    int32_t rank, pid, node; /* see struct peer_info; pid 0: not known yet */
    int32_t state;           /* enum peer_state */
    int32_t local;           /* 1: the rank is in the asked process */
    int32_t asked, answered;
    int32_t stopped; /* 1: stopped by a signal or a debugger; only seen on the same node */
    char host[64];
    uint32_t bytes; /* bytes of `status` that have come; 0: the communicator is still being created */
    struct status status;
};

struct status_query {
    struct hub *hub;          /* one reference to the hub */
    struct query_rank *ranks; /* [hub->nranks] */
    uint64_t number;
    int missing; /* number of answers that have not come */
    struct watch_timer deadline;
    void (*done)(struct status_query *query); /* called when `ranks` is complete; then the query is freed */
    void *owner;
    struct status_query *next; /* list of the hub's queries */
};

/* Asks all ranks, or only those of this process. done() may be called before this function returns. */
enum collet_result status_query_begin(struct hub *hub, bool all, void (*done)(struct status_query *query), void *owner);
/* Ends every status query of the hub. */
void status_query_end_all(struct hub *hub);

/* Takes a message REPORT that answers a status query. */
void status_query_hear(struct hub *hub, const struct letter *report);

#endif
