/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/courier.h"

#include "base/memory.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

#define RESEND_NS 200000000ull /* doubles as long as nothing is heard */
#define RESEND_DOUBLINGS 5     /* maximum number of doublings */

struct courier_lane {
    struct letter_queue kept; /* sent, but not confirmed */
    uint64_t next_to_send, next_to_get;
    uint64_t sent_ns; /* time at which the first letter of `kept` was last sent */
    int resends;
};

static void send_letter(struct courier *courier, int place, const struct letter *letter) {
    struct parcel parcel = {
        .to_place = place,
        .from_place = courier->self,
        .to = letter->to,
        .from = letter->from,
        .key = letter->key,
        .number = letter->number,
        .next = courier->lanes[place].next_to_get,
    };
    courier->carry(courier, &parcel, letter->data, letter->bytes);
}

static void confirm(struct courier *courier, int place) {
    struct parcel parcel = {.to_place = place, .from_place = courier->self, .to = -1};
    parcel.next = courier->lanes[place].next_to_get;
    courier->carry(courier, &parcel, NULL, 0);
}

static void set_timer(struct courier *courier, uint64_t due_ns) {
    if (courier->timer.link == NULL || courier->timer.due_ns > due_ns)
        watch_timer_set(&courier->timer, due_ns);
}

void courier_send(struct courier *courier, int place, struct letter *letter) {
    struct courier_lane *lane = &courier->lanes[place];
    letter->number = lane->next_to_send++;
    if (lane->kept.first == NULL) {
        lane->sent_ns = os_now_ns();
        lane->resends = 0;
        if (courier->changed)
            set_timer(courier, lane->sent_ns + RESEND_NS);
    }
    letter_append(&lane->kept, letter);
    send_letter(courier, place, letter);
}

static void resend(struct courier *courier, int place) {
    struct courier_lane *lane = &courier->lanes[place];
    for (const struct letter *letter = lane->kept.first; letter != NULL; letter = letter->next)
        send_letter(courier, place, letter);
    lane->sent_ns = os_now_ns();
    if (lane->resends < RESEND_DOUBLINGS)
        lane->resends++;
}

static void on_resend_timer(struct watch_timer *timer) {
    struct courier *courier = WATCH_OWNER(timer, struct courier, timer);
    for (int place = 0; place < courier->nplaces; place++) {
        struct courier_lane *lane = &courier->lanes[place];
        if (lane->kept.first == NULL)
            continue;
        if (os_now_ns() >= lane->sent_ns + (RESEND_NS << lane->resends))
            resend(courier, place);
        set_timer(courier, lane->sent_ns + (RESEND_NS << lane->resends));
    }
}

bool courier_receive(struct courier *courier, const struct parcel *parcel, const void *data, size_t bytes) {
    struct courier_lane *lane = &courier->lanes[parcel->from_place];
    while (lane->kept.first != NULL && lane->kept.first->number < parcel->next) {
        letter_free(letter_take(&lane->kept));
        lane->sent_ns = os_now_ns();
        lane->resends = 0;
    }
    if (parcel->to < 0)
        return true;
    if (parcel->number == lane->next_to_get) {
        struct letter *letter = letter_create(parcel->to, parcel->from, parcel->key, data, bytes);
        if (letter == NULL)
            return false;
        lane->next_to_get++;
        courier->deliver(courier, letter);
    }
    confirm(courier, parcel->from_place); /* confirms a repeated letter too: the first confirmation may be lost */
    return true;
}

void courier_again(struct courier *courier, int place) {
    if (courier->lanes[place].kept.first != NULL)
        resend(courier, place);
}

void courier_hurry(struct courier *courier) {
    courier->changed = true;
    for (int place = 0; place < courier->nplaces; place++) {
        struct courier_lane *lane = &courier->lanes[place];
        lane->resends = 0;
        if (lane->kept.first == NULL)
            continue;
        resend(courier, place);
        set_timer(courier, lane->sent_ns + RESEND_NS);
    }
}

void courier_forget(struct courier *courier, int place) {
    struct letter *letter;
    while ((letter = letter_take(&courier->lanes[place].kept)) != NULL)
        letter_free(letter);
}

enum collet_result courier_init(struct courier *courier, int self, int nplaces) {
    struct courier_lane *lanes;
    COLLET_TRY(memory_get(&lanes, (size_t)nplaces, sizeof *lanes, "no memory for the lanes to %d processes", nplaces));
    for (int place = 0; place < nplaces; place++)
        letter_queue_init(&lanes[place].kept);
    courier->self = self;
    courier->nplaces = nplaces;
    courier->lanes = lanes;
    courier->timer.fire = on_resend_timer;
    return COLLET_SUCCESS;
}

void courier_fini(struct courier *courier) {
    if (courier->lanes == NULL)
        return;
    watch_timer_stop(&courier->timer);
    for (int place = 0; place < courier->nplaces; place++)
        courier_forget(courier, place);
    free(courier->lanes);
    courier->lanes = NULL;
}
