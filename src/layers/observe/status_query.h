/* SPDX-License-Identifier: Apache-2.0
 *
 * A status query: what every rank of a communicator is doing, found out in one go, for somebody outside (status_socket.h).
 *
 *      status query ── QUERY ──▶ tree ──▶ watch of each process: what the rank's reporter says
 *             ◀── REPORT ── tree ◀──                                      over when all have answered, or after 1 s
 *
 * Belongs to the watch thread.
 */
#ifndef COLLET_LAYERS_OBSERVE_STATUS_QUERY_H
#define COLLET_LAYERS_OBSERVE_STATUS_QUERY_H

#include "boot/hub.h"
#include "seams/observe.h"

/* The watch calls the rank's reporter; after boot_report_by(boot, NULL) it does not any more. */
void boot_report_by(struct boot *boot, const struct boot_reporter *reporter);

/* What is known of a rank. It leaves the process as it is. */
struct query_rank {
    int32_t rank, pid, node; /* as in struct peer_info; pid 0: it is not known yet */
    int32_t state;           /* enum peer_state */
    int32_t local;           /* 1: of the asked process */
    int32_t asked, answered;
    int32_t stopped; /* 1: by a signal or a debugger; seen on the same node only */
    char host[64];
    uint32_t bytes; /* bytes of the report; 0: the rank has made no call yet */
    char report[BOOT_REPORT_BYTES];
};

struct status_query {
    struct hub *hub;          /* a reference */
    struct query_rank *ranks; /* [hub->nranks] */
    uint64_t number;
    int missing; /* answers */
    struct watch_timer deadline;
    void (*done)(struct status_query *query); /* `ranks` is complete; the status query is freed behind it */
    void *owner;
    struct status_query *next; /* of the hub's */
};

/* Asks all ranks, or those of this process. done() may be called before it returns. */
enum collet_result status_query_begin(struct hub *hub, bool all, void (*done)(struct status_query *query), void *owner);
/* Every status query of the hub is over. */
void status_query_end_all(struct hub *hub);

/* A message QUERY asks a rank what it is doing: its answer; NULL if the rank has left, or there is no memory. A message REPORT is
 * such an answer. */
struct letter *status_query_answer(struct hub *hub, const struct letter *question);
void status_query_hear(struct hub *hub, const struct letter *report);

#endif
