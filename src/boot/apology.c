/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/apology.h"

#include "base/os.h"
#include "boot/inquiry.h"
#include "boot/rendezvous.h"

#include <sodium.h>
#include <stdlib.h>
#include <time.h>

#define DIAL_NS 1000000000ull
#define NAP_NS 200000

struct apology {
    struct watch_task task;
    struct id id;
    struct failure failure;
    bool dials;  /* the meeting point may be in another process */
    int holders; /* its creator and the watch; the last one frees it */
};

static void let_go(struct apology *apology) {
    if (__atomic_sub_fetch(&apology->holders, 1, __ATOMIC_ACQ_REL) > 0) /* pairs with itself */
        return;
    sodium_memzero(apology, sizeof *apology);
    free(apology);
}

static void on_answer(void *owner, int place, enum peer_state state, struct wire *wire, const char *why) {
    struct apology *apology = owner;
    (void)place, (void)state, (void)why;
    if (wire != NULL)
        wire_send(wire, TABLE_ABSENT, &apology->failure, sizeof apology->failure, NULL, 0);
    wire_finish(wire);
    let_go(apology);
}

static void apologize(struct watch_task *task) {
    struct apology *apology = WATCH_OWNER(task, struct apology, task);
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    id_key(apology->id.secret, "meeting point", NULL, 0, key);
    if (rendezvous_fail(apology->id.secret, &apology->failure) || !apology->dials ||
        inquiry_start(&apology->id.set, key, DIAL_GONE_NS, os_now_ns() + DIAL_NS, on_answer, apology, 0) == NULL)
        let_go(apology);
}

void apology_make(const struct id *id, const struct failure *failure, uint64_t patience_ns) {
    const uint64_t limit_ns = os_now_ns() + patience_ns;
    struct watch *watch;
    struct apology *apology;
    if (id->set.count == 0 || watch_start(&watch) != COLLET_SUCCESS || (apology = calloc(1, sizeof *apology)) == NULL)
        return;
    apology->id = *id;
    apology->failure = *failure;
    apology->dials = patience_ns > 0;
    apology->holders = 2;
    watch_task_init(&apology->task, watch, apologize);
    watch_post(&apology->task);
    while (__atomic_load_n(&apology->holders, __ATOMIC_ACQUIRE) == 2 && os_now_ns() < limit_ns)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    let_go(apology);
}
