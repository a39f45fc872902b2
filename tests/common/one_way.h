/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection that works one way only from now on, behind the back of whoever uses it.
 */
#ifndef COLLET_TESTS_ONE_WAY_H
#define COLLET_TESTS_ONE_WAY_H

#include <sys/types.h>

enum one_way {
    HALF_OPEN, /* one direction is shut: the other end, or this one, reads its end */
    DEAF,      /* what arrives here is lost, confirmations too: nobody is told */
};

/* Does so to a connected TCP socket of this process; choice: any number, says to which. Gives the process of pids that has the other
 * end: its index, or −1: it is none of them, or there is no such socket. */
int one_way(enum one_way how, unsigned choice, const pid_t *pids, int npids);

#endif
