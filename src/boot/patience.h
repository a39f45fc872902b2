/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane carries the news that there is no memory. So it does not give up when there is none at one moment: what it
 * needs is small. It tries again for a second. Then a connection ends, or a rank does not join the others.
 */
#ifndef COLLET_BOOT_PATIENCE_H
#define COLLET_BOOT_PATIENCE_H

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define PATIENCE_NAPS 100
#define PATIENCE_NAP_NS 10000000

/* False: it has been long enough. *naps starts at 0. */
static inline bool patience_left(int *naps) {
    if (*naps == PATIENCE_NAPS)
        return false;
    ++*naps;
    nanosleep(&(struct timespec){.tv_nsec = PATIENCE_NAP_NS}, NULL);
    return true;
}

static inline void *patient_malloc(size_t bytes) {
    void *memory;
    int naps = 0;
    while ((memory = malloc(bytes)) == NULL && patience_left(&naps))
        ;
    return memory;
}

#endif
