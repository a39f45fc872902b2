/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/memory/pledge.h"

#include "base/log.h"
#include "base/memory.h"
#include "boot/process.h"
#include "transport/verbs/verbs_memory.h"

#include <stdlib.h>
#include <string.h>

struct pledge {
    struct pledge *next;
    void *memory;
    size_t bytes;
    unsigned generation;                   /* process_forks of the process that made the registrations */
    struct ibv_mr *mrs[VERBS_DEVICES_MAX]; /* [device]: registration; NULL: there is none */
    /* [device]: writable: other ranks can write the memory. refused: the device has refused to register the memory. */
    bool writable[VERBS_DEVICES_MAX], refused[VERBS_DEVICES_MAX];
};

PROCESS_LOCK(pledges_lock);    /* Protects all pledges */
static struct pledge *pledges; /* List of all pledges, the most recently used one first */

/* ---- making and ending ---- */

static void put_first(struct pledge *pledge) {
    pledge->next = pledges;
    __atomic_store_n(&pledges, pledge, __ATOMIC_RELAXED);
}

static void take_out(struct pledge **link) { __atomic_store_n(link, (*link)->next, __ATOMIC_RELAXED); }

enum collet_result pledge_make(const void *memory, size_t bytes, struct pledge **pledge_p) {
    struct pledge *pledge;
    process_identity(); /* From now on process_forks counts forks */
    COLLET_TRY(memory_get(&pledge, 1, sizeof *pledge, "no memory to note %zu bytes that stay", bytes));
    SCOPED_LOCK(&pledges_lock);
    pledge->memory = (void *)memory;
    pledge->bytes = bytes;
    pledge->generation = process_forks;
    put_first(pledge);
    *pledge_p = pledge;
    return COLLET_SUCCESS;
}

void pledge_end(struct pledge *pledge) {
    SCOPED_LOCK(&pledges_lock);
    struct pledge **link = &pledges;
    while (pledge != NULL && *link != pledge)
        link = &(*link)->next;
    if (pledge == NULL)
        return;
    take_out(link);
    for (int k = 0; k < VERBS_DEVICES_MAX && pledge->generation == process_forks; k++)
        if (pledge->mrs[k] != NULL)
            verbs_host()->lib.dereg_mr(pledge->mrs[k]);
    free(pledge);
}

/* ---- looking ---- */

/* Finds the pledge that contains all of this memory; NULL: there is none. The caller holds the lock. */
static struct pledge *pledge_of(uint64_t address, uint32_t bytes) {
    struct pledge **link = &pledges, *pledge;
    for (; (pledge = *link) != NULL; link = &pledge->next) {
        uint64_t offset = address - (uintptr_t)pledge->memory;
        if (offset < pledge->bytes && bytes <= pledge->bytes - offset)
            break;
    }
    if (pledge != NULL && pledge != pledges) {
        take_out(link);
        put_first(pledge);
    }
    return pledge;
}

/* Is there any pledge? Most programs make no pledge, and then no call takes the lock. The load needs no order: a thread that makes a call
 * sees the pledges that were made before. */
static bool are_any(void) { return __atomic_load_n(&pledges, __ATOMIC_RELAXED) != NULL; }

int pledge_covers(uint64_t address, uint32_t bytes) {
    if (!are_any())
        return 0;
    SCOPED_LOCK(&pledges_lock);
    return pledge_of(address, bytes) != NULL;
}

/* After fork(): forgets the registrations, because they belong to the parent. */
static void leave_parent(struct pledge *pledge) {
    if (pledge->generation == process_forks)
        return;
    memset(pledge->mrs, 0, sizeof pledge->mrs);
    memset(pledge->refused, 0, sizeof pledge->refused);
    pledge->generation = process_forks;
}

static void tell(const struct verbs_host *host, const struct verbs_device *device, struct pledge *pledge) {
    const long k = device - host->devices;
    pledge->mrs[k] = verbs_memory_register(&host->lib, device, pledge->memory, pledge->bytes);
    pledge->writable[k] = pledge->mrs[k] != NULL;
    if (pledge->mrs[k] == NULL) /* Read-only memory can still be sent */
        pledge->mrs[k] = host->lib.reg_mr(device->pd, pledge->memory, pledge->bytes, 0);
    pledge->refused[k] = pledge->mrs[k] == NULL;
    if (pledge->refused[k])
        log_info(NET, "%s does not register %zu bytes of the program: %m; they go through slots", device->name,
                 pledge->bytes);
}

bool pledge_keys(const struct verbs_host *host, const struct verbs_device *device, uint64_t address, uint32_t bytes,
                 struct pledge_keys *keys) {
    const long k = device - host->devices;
    SCOPED_LOCK(&pledges_lock);
    struct pledge *pledge = pledge_of(address, bytes);
    if (pledge == NULL)
        return false;
    leave_parent(pledge);
    if (pledge->mrs[k] == NULL && !pledge->refused[k])
        tell(host, device, pledge);
    if (pledge->mrs[k] == NULL)
        return false;
    *keys = (struct pledge_keys){pledge->mrs[k]->lkey, pledge->mrs[k]->rkey, pledge->writable[k]};
    return true;
}
