/* SPDX-License-Identifier: Apache-2.0
 *
 * What messages of the control plane are about.
 */
#ifndef COLLET_BOOT_MESSAGE_H
#define COLLET_BOOT_MESSAGE_H

#include "collet.h"

#include <stddef.h>
#include <stdint.h>

struct boot;

#define BOOT_MESSAGE_BYTES 1024 /* maximum length of a message */
#define BOOT_LETTERS_NS                                                                                                \
    1000000000ull /* maximum time for which a goodbye waits until the messages before it have come */

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
    BOOT_CALL,        /* exec: which call a blocked rank is in. Only the newest one of a rank is kept */
    BOOT_VOTE,        /* boot: a vote, to the coordinator of an agreement */
    BOOT_COORDINATOR, /* boot: the coordinator is now waiting for votes */
    BOOT_DECISION,    /* boot: the coordinator's decision */
    BOOT_QUERY,       /* layers/observe: what is a rank doing? */
    BOOT_REPORT,      /* layers/observe: the answer to that */
    BOOT_TESTED,      /* chan: to the producer: its test data came unchanged */
    BOOT_WINDOW,      /* chan: a window begins or ends */
    BOOT_COPIES,      /* exec: where the words of copy engines are */
    BOOT_RMA,         /* layers/windows: a rank wants to put into windows of another one, or get from them */
    BOOT_NOTE         /* layers/windows: a note behind a transfer between GPUs */
};
#define BOOT_KEY_REST ((1ull << 56) - 1)
static inline uint64_t boot_key(enum boot_subject subject, uint64_t rest) { return (uint64_t)subject << 56 | rest; }

/* Sets the address of this rank's counter of collectives; NULL: it has none any more. */
void boot_count_at(struct boot *boot, const uint64_t *calls);

#endif
