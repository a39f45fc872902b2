/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of this process's communicators. Code that answers questions about the process goes through this list. The end of the
 * process does so, too:
 *
 *      exit(), or return of main() ─▶ atexit functions and destructors of the program ─▶ farewell ─▶ all ranks: ENDED, its last call
 *      a signal, _exit()           ─▶ nothing: DEAD
 *
 * The farewell is sent for each communicator that has not been destroyed. By it, other ranks can tell a process that ends
 * in order from a process that was killed.
 */
#ifndef COLLET_LAYERS_OBSERVE_COMMS_H
#define COLLET_LAYERS_OBSERVE_COMMS_H

#include "api/comm.h"

#define COMMS_BEHIND 4 /* maximum number of processes that a rank names behind the process for which it waits */

struct comms_entry {
    const struct collet_comm *comm; /* NULL: the entry is in no list */
    /* inquest.c fills in these fields, for the rank's record (status.h): */
    uint64_t
        behind[COMMS_BEHIND]; /* processes in the chain behind the rank that its blocked call waits for; 0: not known */
    /* A call whose arguments differ from another rank's arguments; NULL: there is none. */
    const struct exec_call *differing;
    struct comms_entry *next, **link;
};

/* Adds a communicator to the list when it begins, and removes it when it ends. */
void comms_add(struct comms_entry *entry, const struct collet_comm *comm);
void comms_remove(struct comms_entry *entry);

/* Locks the list, and returns its first entry. comms_next() returns the next entry. Entries that a parent process had before fork() are
 * skipped. No communicator is removed until comms_unlock(). */
const struct comms_entry *comms_lock(void);
const struct comms_entry *comms_next(const struct comms_entry *entry);
void comms_unlock(void);

#endif
