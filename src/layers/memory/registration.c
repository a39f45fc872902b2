/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/memory/registration.h"

#include "base/log.h"
#include "base/memory.h"
#include "boot/process.h"
#include "transport/verbs/verbs_memory.h"

#include <stdlib.h>
#include <string.h>

struct registration {
    struct registration *next;
    void *memory;
    size_t bytes;
    unsigned generation;                   /* process_forks of the process that was given the MRs */
    struct ibv_mr *mrs[VERBS_DEVICES_MAX]; /* [device]; NULL: the NIC was not told */
    /* [device]: writable: other ranks can write the memory. refused: the device has refused to register the memory. */
    bool writable[VERBS_DEVICES_MAX], refused[VERBS_DEVICES_MAX];
};

PROCESS_LOCK(registrations_lock);          /* Protects all registrations */
static struct registration *registrations; /* List of all registrations, the most recently used one first */

/* ---- making and ending ---- */

static void put_first(struct registration *registration) {
    registration->next = registrations;
    __atomic_store_n(&registrations, registration, __ATOMIC_RELAXED);
}

static void take_out(struct registration **link) { __atomic_store_n(link, (*link)->next, __ATOMIC_RELAXED); }

enum collet_result registration_make(const void *memory, size_t bytes, struct registration **registration_p) {
    struct registration *registration;
    process_identity(); /* From now on process_forks counts forks */
    COLLET_TRY(memory_get(&registration, 1, sizeof *registration, "no memory to note %zu bytes that stay", bytes));
    SCOPED_LOCK(&registrations_lock);
    registration->memory = (void *)memory;
    registration->bytes = bytes;
    registration->generation = process_forks;
    put_first(registration);
    *registration_p = registration;
    return COLLET_SUCCESS;
}

void registration_end(struct registration *registration) {
    SCOPED_LOCK(&registrations_lock);
    struct registration **link = &registrations;
    while (registration != NULL && *link != registration)
        link = &(*link)->next;
    if (registration == NULL)
        return;
    take_out(link);
    for (int k = 0; k < VERBS_DEVICES_MAX && registration->generation == process_forks; k++)
        if (registration->mrs[k] != NULL)
            verbs_host()->lib.dereg_mr(registration->mrs[k]);
    free(registration);
}

/* ---- looking ---- */

/* Finds the registration that contains all of this memory; NULL: there is none. The caller holds the lock. */
static struct registration *registration_of(uint64_t address, uint32_t bytes) {
    struct registration **link = &registrations, *registration;
    for (; (registration = *link) != NULL; link = &registration->next) {
        uint64_t offset = address - (uintptr_t)registration->memory;
        if (offset < registration->bytes && bytes <= registration->bytes - offset)
            break;
    }
    if (registration != NULL && registration != registrations) {
        take_out(link);
        put_first(registration);
    }
    return registration;
}

/* Is there any registration? Most programs register nothing, and then no call takes the lock. The load needs no order: a thread that makes
 * a call sees the registrations that were made before. */
static bool are_any(void) { return __atomic_load_n(&registrations, __ATOMIC_RELAXED) != NULL; }

int registration_covers(uint64_t address, uint32_t bytes) {
    if (!are_any())
        return 0;
    SCOPED_LOCK(&registrations_lock);
    return registration_of(address, bytes) != NULL;
}

/* After fork(): forgets the MRs, because they belong to the parent. */
static void leave_parent(struct registration *registration) {
    if (registration->generation == process_forks)
        return;
    memset(registration->mrs, 0, sizeof registration->mrs);
    memset(registration->refused, 0, sizeof registration->refused);
    registration->generation = process_forks;
}

static void tell(const struct verbs_host *host, const struct verbs_device *device, struct registration *registration) {
    const long k = device - host->devices;
    registration->mrs[k] = verbs_memory_register(&host->lib, device, registration->memory, registration->bytes);
    registration->writable[k] = registration->mrs[k] != NULL;
    if (registration->mrs[k] == NULL) /* Read-only memory can still be sent */
        registration->mrs[k] = host->lib.reg_mr(device->pd, registration->memory, registration->bytes, 0);
    registration->refused[k] = registration->mrs[k] == NULL;
    if (registration->refused[k])
        log_info(NET, "%s does not register %zu bytes of the program: %m; they go through slots", device->name,
                 registration->bytes);
}

bool registration_keys(const struct verbs_host *host, const struct verbs_device *device, uint64_t address,
                       uint32_t bytes, struct registration_keys *keys) {
    const long k = device - host->devices;
    SCOPED_LOCK(&registrations_lock);
    struct registration *registration = registration_of(address, bytes);
    if (registration == NULL)
        return false;
    leave_parent(registration);
    if (registration->mrs[k] == NULL && !registration->refused[k])
        tell(host, device, registration);
    if (registration->mrs[k] == NULL)
        return false;
    *keys =
        (struct registration_keys){registration->mrs[k]->lkey, registration->mrs[k]->rkey, registration->writable[k]};
    return true;
}
