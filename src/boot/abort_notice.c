/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/abort_notice.h"

#include "base/os.h"
#include "boot/dial.h"
#include "boot/rendezvous.h"

#include <sodium.h>
#include <stdlib.h>
#include <time.h>

#define DIAL_NS 1000000000ull
#define NAP_NS 200000

struct abort_notice {
    struct watch_task task;
    struct dial dial;
    struct id id;
    struct failure failure;
    bool dials;  /* the meeting point may be in another process */
    int holders; /* its creator and the watch; the last one frees it */
};

static void let_go(struct abort_notice *notice) {
    if (__atomic_sub_fetch(&notice->holders, 1, __ATOMIC_ACQ_REL) > 0) /* pairs with itself */
        return;
    sodium_memzero(notice, sizeof *notice);
    free(notice);
}

static void on_answer(struct dial *dial, struct wire *wire) {
    struct abort_notice *notice = WATCH_OWNER(dial, struct abort_notice, dial);
    wire_send(wire, TABLE_ABSENT, &notice->failure, sizeof notice->failure, NULL, 0);
    wire_finish(wire);
    let_go(notice);
}

static void on_no_answer(struct dial *dial) {
    if (dial_refused_ns(dial) < DIAL_GONE_NS && os_now_ns() - dial->started_ns < DIAL_NS)
        return;
    dial_stop(dial);
    let_go(WATCH_OWNER(dial, struct abort_notice, dial));
}

static void deliver(struct watch_task *task) {
    struct abort_notice *notice = WATCH_OWNER(task, struct abort_notice, task);
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    id_key(notice->id.secret, "meeting point", NULL, 0, key);
    if (rendezvous_fail(notice->id.secret, &notice->failure) || !notice->dials)
        let_go(notice);
    else
        dial_start(&notice->dial, &notice->id.set, key, 0, on_answer, on_no_answer);
}

void abort_notice_send(const struct id *id, const struct failure *failure, uint64_t patience_ns) {
    const uint64_t limit_ns = os_now_ns() + patience_ns;
    struct watch *watch;
    struct abort_notice *notice;
    if (id->set.count == 0 || watch_start(&watch) != COLLET_SUCCESS || (notice = calloc(1, sizeof *notice)) == NULL)
        return;
    notice->id = *id;
    notice->failure = *failure;
    notice->dials = patience_ns > 0;
    notice->holders = 2;
    watch_task_init(&notice->task, watch, deliver);
    watch_post(&notice->task);
    while (__atomic_load_n(&notice->holders, __ATOMIC_ACQUIRE) == 2 && os_now_ns() < limit_ns)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    let_go(notice);
}
