/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of the user on its way, and what holds it: a queue, a lane, the engine of its communicator. engine.h has the picture.
 */
#ifndef COLLET_API_POST_H
#define COLLET_API_POST_H

#include "base/err.h"
#include "base/wait.h"
#include "seams/observe.h"

struct driver;

/* Calls that are done in order: those of a host stream, or those of one blocking call or group. */
struct queue {
    uint64_t issued, done;      /* number of calls */
    bool shared;                /* several threads may finish its calls */
    enum collet_result failure; /* failure of the first call that failed; SUCCESS: none; IN_PROGRESS: being written */
    uint64_t failed_place;      /* place of that call */
    char text[ERR_TEXT_BYTES];  /* error text of that call */
};

/* One call of the user, from issue to end. */
struct post {
    struct exec_request request;
    struct collet_comm *comm;
    const void *in;
    void *out;
    void *stream;
    struct queue *queue;
    uint64_t place;       /* it may begin once this many calls of its queue are done */
    struct post *partner; /* send to oneself: the matching receive, done together with it; else NULL */
    struct post *next;    /* next one in its lane, or in `incoming` */
    bool is_partner;      /* receive from oneself: it is in no lane */
    bool is_copy;         /* copy of a post whose call has returned (stream.h) */
    bool waits_outside;   /* issued while another thread was the driver */
    bool done;
};

/* Calls of one communicator that must run in order, oldest first. */
struct lane {
    struct post *first, *last;
    uint64_t begun;              /* number of calls begun so far */
    uint64_t launched;           /* on a GPU: how many of these are in streams */
    struct exec_call call;       /* the first call, if it has begun; else IDLE */
    struct journal_entry *entry; /* journal entry of that call */
    struct lane *next;           /* next lane that is not empty */
};

struct engine {
    struct lane *lanes; /* 0: collectives; 1 + 2·peer: sends to peer; 2 + 2·peer: receives from peer; last: probes */
    struct journal *journal;      /* NULL: no journal */
    struct journal_entry none;    /* the entry of no call */
    int probed;                   /* rank that the last probe found */
    struct lane *busy;            /* list of lanes that are not empty */
    struct lane **busy_end;       /* end of that list */
    struct post *incoming;        /* posts not admitted yet, newest first; any thread may push one */
    struct waiter patience;       /* how the rank waits */
    struct engine_thread *thread; /* thread collet-engine; NULL: not started */
    int callers;                  /* number of threads that wait here and would drive; collet-engine then lets them */
    struct driver *driver; /* driver that holds the communicator's lock; NULL: none, or locked for something else */
    struct collet_comm *driven; /* next communicator with the same driver */
};

#endif
