/* SPDX-License-Identifier: Apache-2.0
 *
 * A call of the user on its way, and what holds it: its stream's queue, a lane, the engine of its communicator. engine.h has the picture.
 */
#ifndef COLLET_API_POST_H
#define COLLET_API_POST_H

#include "base/err.h"
#include "base/wait.h"
#include "seams/observe.h"

struct driver;

/* The first failure among calls that a thread waits for together. Several threads may end such calls. */
struct post_failure {
    enum collet_result result; /* SUCCESS: no failure; IN_PROGRESS: a thread is writing the failure. */
    uint64_t place;            /* Place in its stream of the call that failed. */
    char text[ERR_TEXT_BYTES];
};

/* The calls of a host stream, which are done in the order of issue. */
struct queue {
    uint64_t issued, done; /* Numbers of calls. */
    struct post_failure failure;
};

/* One call of the user, from issue to end. The functions of collet.h fill in the first five fields, up to `stream`. */
struct post {
    struct exec_request request;
    struct collet_comm *comm;
    const void *in;
    void *out;
    void *stream;
    /* Not NULL: the call on a host stream has returned, and this copy of its post is in the stream's queue. */
    struct queue *queue;
    uint64_t place;       /* The call may begin once this many calls of its queue are done. */
    struct post *partner; /* Send to oneself: the matching receive, which is done together with the send. Else NULL. */
    struct post *next;    /* Next post in its lane, or in `incoming`. */
    struct post_failure *failure; /* A failure of this call is recorded there. */
    bool is_partner;              /* Receive from oneself: the post is in no lane. */
    bool waits_outside;           /* The post was issued while another thread was the driver. */
    bool done;                    /* The thread that issued the post waits for this. */
};

/* Calls of one communicator that must run in order, oldest first. */
struct lane {
    struct post *first, *last;
    uint64_t begun;        /* Number of calls begun so far. */
    uint64_t launched;     /* On a GPU: number of those begun calls that are in streams. */
    struct exec_call call; /* The lane's first call, if it has begun; else in state EXEC_IDLE. */
    struct call_run run;   /* The lane's newest calls that are equal. */
    struct lane *next;     /* Next lane that is not empty. */
};

struct engine {
    /* [0]: collectives; [1 + 2·peer]: sends to peer; [2 + 2·peer]: receives from peer; last: probes. */
    struct lane *lanes;
    int probed;                   /* Rank that the last probe found. */
    struct lane *busy;            /* List of lanes that are not empty. */
    struct lane **busy_end;       /* End of that list: a new lane is linked here. */
    struct post *incoming;        /* Posts that are not admitted yet, newest first. Any thread may push one. */
    struct waiter patience;       /* Waiting policy of this rank's threads. */
    struct engine_thread *thread; /* The thread collet-engine. NULL: not started. */
    /* Number of threads that wait here and could drive. If it is not 0, collet-engine leaves driving to them. */
    int callers;
    /* The driver that holds the communicator's lock. NULL: nobody drives, though the lock may be held for other work. */
    struct driver *driver;
    struct collet_comm *driven; /* Next communicator of the same driver. */
};

#endif
