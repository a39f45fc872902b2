/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/farewell.h"

#include "base/memory.h"
#include "boot/hub.h"

PROCESS_LOCK(lock);
static struct farewell *farewells;

void farewell_add(struct farewell *farewell, struct collet_comm *comm) {
    SCOPED_LOCK(&lock);
    farewell->comm = comm;
    farewell->next = farewells;
    farewell->link = &farewells;
    if (farewells != NULL)
        farewells->link = &farewell->next;
    farewells = farewell;
}

void farewell_remove(struct farewell *farewell) {
    SCOPED_LOCK(&lock);
    if (farewell->comm == NULL)
        return;
    *farewell->link = farewell->next;
    if (farewell->next != NULL)
        farewell->next->link = farewell->link;
    farewell->comm = NULL;
}

/* A signal handler may have called exit() while this very thread had the lock. Then the others see that the process ended. */
static bool is_free(pthread_mutex_t *mutex) {
    const bool free = pthread_mutex_trylock(mutex) == 0;
    if (free)
        pthread_mutex_unlock(mutex);
    return free;
}

/* As a destructor, it comes behind what the program does at its end, which may be collet_comm_destroy(). */
__attribute__((destructor)) static void say_farewell(void) {
    if (pthread_mutex_trylock(&lock) != 0)
        return;
    for (const struct farewell *farewell = farewells; farewell != NULL; farewell = farewell->next) {
        struct boot *boot = farewell->comm->boot;
        if (!comm_is_inherited(farewell->comm) && boot_failed(boot) == COLLET_SUCCESS && is_free(&boot->hub->lock))
            boot_say_end(boot, PEER_ENDED);
    }
    pthread_mutex_unlock(&lock);
}
