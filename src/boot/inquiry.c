/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/inquiry.h"

#include <stdlib.h>

struct inquiry {
    struct dial dial;
    struct watch_timer deadline;
    uint64_t gone_ns;
    inquiry_result_fn result;
    void *owner;
    int place;
};

void inquiry_stop(struct inquiry *inquiry) {
    if (inquiry == NULL)
        return;
    dial_stop(&inquiry->dial);
    watch_timer_stop(&inquiry->deadline);
    free(inquiry);
}

static void inquiry_end(struct inquiry *inquiry, enum peer_state state, struct wire *wire) {
    inquiry->result(inquiry->owner, inquiry->place, state, wire, inquiry->dial.trouble);
    inquiry_stop(inquiry);
}

static void on_answer(struct dial *dial, struct wire *wire) {
    inquiry_end(WATCH_OWNER(dial, struct inquiry, dial), PEER_ALIVE, wire);
}

static void on_no_answer(struct dial *dial) {
    struct inquiry *inquiry = WATCH_OWNER(dial, struct inquiry, dial);
    if (dial_refused_ns(dial) > inquiry->gone_ns)
        inquiry_end(inquiry, PEER_DEAD, NULL);
}

static void on_deadline(struct watch_timer *timer) {
    inquiry_end(WATCH_OWNER(timer, struct inquiry, deadline), PEER_LOST, NULL);
}

struct inquiry *inquiry_start(const struct address_set *set, const uint8_t key[SECRET_BYTES], uint64_t gone_ns,
                              uint64_t deadline_ns, inquiry_result_fn result, void *owner, int place) {
    struct inquiry *inquiry = calloc(1, sizeof *inquiry);
    if (inquiry == NULL)
        return NULL;
    inquiry->gone_ns = gone_ns;
    inquiry->result = result;
    inquiry->owner = owner;
    inquiry->place = place;
    inquiry->deadline.fire = on_deadline;
    dial_start(&inquiry->dial, set, key, 0, on_answer, on_no_answer);
    watch_timer_set(&inquiry->deadline, deadline_ns);
    return inquiry;
}
