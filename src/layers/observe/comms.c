/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/comms.h"

#include "base/memory.h"
#include "boot/hub.h"

PROCESS_LOCK(lock);
static struct comms_entry *entries;

void comms_add(struct comms_entry *entry, const struct collet_comm *comm) {
    SCOPED_LOCK(&lock);
    *entry = (struct comms_entry){.comm = comm, .next = entries, .link = &entries};
    if (entries != NULL)
        entries->link = &entry->next;
    entries = entry;
}

void comms_remove(struct comms_entry *entry) {
    SCOPED_LOCK(&lock);
    if (entry->comm == NULL)
        return;
    *entry->link = entry->next;
    if (entry->next != NULL)
        entry->next->link = entry->link;
    entry->comm = NULL;
}

static const struct comms_entry *own(const struct comms_entry *entry) {
    while (entry != NULL && comm_is_inherited(entry->comm))
        entry = entry->next;
    return entry;
}

const struct comms_entry *comms_lock(void) {
    pthread_mutex_lock(&lock);
    return own(entries);
}

const struct comms_entry *comms_next(const struct comms_entry *entry) { return own(entry->next); }

void comms_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- farewell ---- */

/* Is the lock free? A signal handler may have called exit() while this thread held the lock. Then no farewell is sent, and others only see
 * that the process ended. */
static bool is_free(pthread_mutex_t *mutex) {
    const bool free = pthread_mutex_trylock(mutex) == 0;
    if (free)
        pthread_mutex_unlock(mutex);
    return free;
}

/* A destructor runs after the program's atexit functions, which may call collet_comm_destroy(). */
__attribute__((destructor)) static void say_farewell(void) {
    if (pthread_mutex_trylock(&lock) != 0)
        return;
    for (const struct comms_entry *entry = own(entries); entry != NULL; entry = comms_next(entry)) {
        struct boot *boot = entry->comm->boot;
        if (boot_failed(boot) == COLLET_SUCCESS && is_free(&boot->hub->lock))
            boot_say_end(boot, PEER_ENDED);
    }
    pthread_mutex_unlock(&lock);
}
