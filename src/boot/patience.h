/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane carries the news that there is no memory. So it does not give up when there is none at one moment: what it
 * needs is small. It tries again for a second. Then a connection ends, or a rank does not join the others. A thread has this
 * patience once until it gets memory again: one that serves many connections has heartbeats to send.
 */
#ifndef COLLET_BOOT_PATIENCE_H
#define COLLET_BOOT_PATIENCE_H

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_NAPS 100
#define PATIENCE_NAP_NS 10000000

/* Sleeps for a nap. False: the patience is over. *naps starts at 0. */
static inline bool patience_left(int *naps) {
    if (*naps == PATIENCE_NAPS)
        return false;
    ++*naps;
    nanosleep(&(struct timespec){.tv_nsec = PATIENCE_NAP_NS}, NULL);
    return true;
}

void *patient_malloc(size_t bytes);

#endif
