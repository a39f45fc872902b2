/* SPDX-License-Identifier: Apache-2.0
 *
 * What messages of the control plane are about, and what a rank says of itself when it is asked.
 */
#ifndef COLLET_BOOT_MESSAGE_H
#define COLLET_BOOT_MESSAGE_H

#include "collet.h"

#include <stddef.h>
#include <stdint.h>

struct boot;

#define BOOT_MESSAGE_BYTES 1024 /* maximum length of a message */

/* The subject of a message. Its key begins with the subject, so no room takes another room's message. Sender and receiver agree on the
 * rest of the key. */
enum boot_subject {
    BOOT_OFFER = 1,   /* chan: a consumer's offer to its producer */
    BOOT_TRANSPORT,   /* for the transports (transport_key()) */
    BOOT_GPU_MEETING, /* kernels: a rank has a program on its GPU */
    BOOT_PLACE,       /* plan: where a rank runs */
    BOOT_GRAPH,       /* plan: the graph of a node */
    BOOT_ATLAS,       /* plan: the places of all ranks and the graphs of all nodes */
    BOOT_SPLIT,       /* api: a communicator is made of this one */
    BOOT_QUESTION,    /* boot: what is a rank waiting in? */
    BOOT_ANSWER,      /* boot: the answer */
    BOOT_VOTE,        /* boot: a vote, to the coordinator of an agreement */
    BOOT_COORDINATOR, /* boot: the coordinator is now waiting for votes */
    BOOT_DECISION,    /* boot: the coordinator's decision */
    BOOT_QUERY,       /* boot: what is a rank doing? Asked by somebody outside */
    BOOT_REPORT,      /* boot: the answer to that */
    BOOT_TESTED,      /* chan: to the producer: its test data came unchanged */
    BOOT_WINDOW,      /* chan: a window begins or ends */
    BOOT_COPIES       /* exec: where the words of copy engines are */
};
#define BOOT_KEY_REST ((1ull << 56) - 1)
static inline uint64_t boot_key(enum boot_subject subject, uint64_t rest) { return (uint64_t)subject << 56 | rest; }

/* A rank's status: what it waits for. Others may ask for it. Boot only carries the bytes. The asked rank's watch thread answers, so the
 * rank may be computing, or in a call on another communicator. */
#define BOOT_STATUS_BYTES 128
struct boot_answer {
    uint64_t question;
    uint64_t now_ns;    /* os_now_ns() of the answering host */
    uint64_t calls;     /* number of collectives that the rank has begun */
    uint32_t bytes;     /* bytes of status; 0: it waits in no call */
    uint32_t elsewhere; /* 1: status is of another communicator in its process */
    char status[BOOT_STATUS_BYTES];
};
void boot_say(struct boot *boot, const void *status, size_t bytes); /* sets the status; bytes 0: none */
/* Sets the address of this rank's counter of collectives; NULL: it has none any more. */
void boot_count_at(struct boot *boot, const uint64_t *calls);

/* Describes what a rank is doing, for collet-status (status_query.h). Boot only carries the bytes. The watch thread calls the reporter while it
 * holds locks of this room. */
#define BOOT_REPORT_BYTES 960
struct boot_reporter {
    size_t (*report)(const void *owner, char report[BOOT_REPORT_BYTES]); /* returns the number of bytes */
    const void *owner;
};

#endif
