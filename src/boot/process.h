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

/* Shared memory with a random content. A process that can map it and finds the nonce shares memory with this process. */
struct probe {
    int32_t fd; /* −1: this system makes none; then nobody shares memory with us */
    uint8_t nonce[PROBE_NONCE_BYTES];
};

struct process {
    pthread_mutex_t lock;
    uint64_t identity[2]; /* constant once process_lock() has returned */
    struct probe probe;   /* constant once process_probe() has returned */
    bool probe_made;
    struct watch *watch;
    struct hub *gathering;
    uint64_t issues;                  /* of calls on streams, so far; the number of the newest group */
    struct boot *sayers;              /* ranks of this process that wait in a call, and say in which */
    struct collet_comm *free_handles; /* of destroyed communicators, to be used again */
    struct reception *reception;      /* NULL: none yet */
    struct exporter *exporter;        /* NULL: nobody wants metrics */
    struct rendezvous *meetings;      /* touched by the watch thread only, without the lock */
    int shortcuts;                    /* of all communicators (boot/shortcut.h); the same */
    struct entrant *entrants;         /* who stands at its doors (boot/door.h), the oldest first; the same */
};

/* The process, locked. Critical sections are short; a hub's lock may be taken inside. */
struct process *process_lock(void);
void process_unlock(void);

const uint64_t *process_identity(void);
bool process_is_here(const uint64_t identity[2]);      /* is it this one? */
enum collet_result process_probe(struct probe *probe); /* an error: no descriptor, or no memory, for it now */

/* The number of forks on the way to this process. What was made under another number belongs to an ancestor. */
extern unsigned process_forks;
static inline unsigned process_generation(void) { return process_forks; }

#endif
