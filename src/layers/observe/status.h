/* SPDX-License-Identifier: Apache-2.0
 *
 * The record tells the present calls of a rank; other ranks and programs ask for it. A rank asks if its call is blocked (inquest.h). A
 * program outside the job may ask (status_query.h). The metrics of the process use the record, too.
 *
 *      rank 4 ── QUERY ──▶ tree ──▶ the watch of rank 3's process makes the record: a rank need not be in a call to answer.
 *             ◀── REPORT ── tree ◀──     A stopped process is found by its missing answer
 */
#ifndef COLLET_LAYERS_OBSERVE_STATUS_H
#define COLLET_LAYERS_OBSERVE_STATUS_H

#include "boot/hub.h"
#include "layers/observe/comms.h"

#define STATUS_CALLS 6

/* A call that has begun and not ended. */
struct status_call {
    struct call_facts facts;
    uint64_t idle_ns;   /* nanoseconds for which the call has not moved; 0: the call moves */
    int32_t waits_for;  /* rank that the call waits for; −1: none */
    uint8_t connecting; /* 1: the call waits for a connection (no bool: another process may send any number) */
    uint8_t sending;    /* 1: the call waits for credit; if `sending` and `connecting` are 0, it waits for data */
    uint8_t blocked;    /* 1: the call has waited for so long that others should know */
    uint8_t protocol;
    char algorithm[16];
};

struct status {
    uint64_t calls; /* number of collectives so far */
    uint64_t counters[CONN_COUNTERS];
    int32_t failure;
    int32_t ncalls;                /* number of calls under way; call[] has the first STATUS_CALLS of them */
    char name[32];                 /* name of the communicator */
    uint64_t behind[COMMS_BEHIND]; /* see struct comms_entry */
    struct status_call call[STATUS_CALLS];
    /* If no call is blocked: a blocked call of another communicator of this process. */
    struct status_elsewhere {
        struct status_call call;
        uint64_t process[2]; /* identity of the process of the awaited rank */
        char name[32];       /* name of that communicator */
    } elsewhere;
    /* Text of the failure, cut to this length. It is the last field, so its unused end is not sent. */
    char error[256];
};

/* Makes the record of a communicator's local rank. Other threads may be running its calls. */
void status_make(const struct comms_entry *entry, struct status *status);

/* Reads a record that another process has sent. False: it is malformed. Numbers are not checked, except in `facts`. */
bool status_read(const void *bytes, size_t nbytes, struct status *status);

/* The first blocked call of the record; NULL: there is none. */
const struct status_call *status_blocked(const struct status *status);

/* ---- question and answer ---- */

struct status_answer {
    uint64_t question; /* number of the question */
    uint64_t now_ns;   /* os_now_ns() of the answering host */
    uint32_t bytes;    /* bytes of status; 0: the communicator is still being created */
    struct status status;
};
_Static_assert(sizeof(struct status_answer) <= BOOT_MESSAGE_BYTES, "is one message");

/* Kind of asker: it is the second part of a message's key. */
enum status_asker { STATUS_RANK, STATUS_OUTSIDE };
/* Makes a message QUERY; NULL: no memory. */
struct letter *status_question(int to, int from, enum status_asker asker, uint64_t number);
/* Makes the answer to a message QUERY. NULL: the rank has left, or there is no memory. */
struct letter *status_answer(struct hub *hub, const struct letter *question);
/* Reads a message REPORT. If it has no record, answer->status is zero. */
bool status_read_answer(const void *data, size_t bytes, struct status_answer *answer);

/* Asks another rank for its record. *number: number of the question. */
enum collet_result status_ask(struct boot *boot, int rank, uint64_t *number);
/* Takes the answer to question `number`. IN_PROGRESS: it has not come yet. A stopped process does not answer. */
enum collet_result status_try_answer(struct boot *boot, int rank, uint64_t number, struct status_answer *answer);

#endif
