/* SPDX-License-Identifier: Apache-2.0
 *
 * What there is one of in each process: its random identity, its probe memory, its watch, and the hubs that still gather
 * ranks. A forked child starts with none of it: it has another identity and no watch thread.
 */
#ifndef COLLET_BOOT_PROCESS_H
#define COLLET_BOOT_PROCESS_H

#include "collet.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define PROBE_BYTES 4096
#define PROBE_NONCE_BYTES 16

/* Shared memory with random content. A process that can map it, and finds the nonce there, shares memory with this process. */
struct probe {
    int32_t fd; /* −1: this system has none, so nobody shares memory with us */
    uint8_t nonce[PROBE_NONCE_BYTES];
};

struct process {
    pthread_mutex_t lock;
    uint64_t identity[2]; /* constant after process_lock() */
    struct probe probe;   /* constant after process_probe() */
    bool probe_made;
    struct watch *watch;
    struct hub *gathering;
    uint64_t issues;                     /* number of the newest group with calls on streams */
    struct collet_comm *free_handles;    /* handles of destroyed communicators, for reuse */
    struct status_socket *status_socket; /* NULL: none yet */
    struct rendezvous *meetings;         /* only for the watch thread, without the lock */
    struct peer_link *links;             /* likewise: of all communicators (boot/link.h) */
    int spare;                           /* likewise: a descriptor that is set aside for a link; 0: none */
    struct pending *pending; /* likewise: unproven connections at its doors (boot/door.h), the oldest first */
};

/* Locks the process. Critical sections are short; a hub's lock may be taken inside. */
struct process *process_lock(void);
void process_unlock(void);
/* For what only the watch thread uses. */
struct process *process_without_lock(void);

const uint64_t *process_identity(void);
bool process_is_here(const uint64_t identity[2]);      /* does this identity belong to this process? */
enum collet_result process_probe(struct probe *probe); /* errors: no descriptor, or no memory, at the moment */

/* The number of forks before this process. Objects made under another number belong to a parent. */
extern unsigned process_forks;

#endif
