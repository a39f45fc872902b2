/* SPDX-License-Identifier: Apache-2.0
 *
 * The meeting point and its guests, which know the key: joins, nodes, questions, failures, and guests that leave.
 *
 *      guest 0, 1, 2 ── JOIN, READY, ASK, FAIL ──▶ meeting point ── SEAT, CARDS, NODES … ──▶ nobody reads them
 */
#include "boot/rendezvous.c"

#include "fuzz.h"
#include "watch_none.h"

#include <sys/socket.h>
#include <unistd.h>

#define GUESTS 3
#define RANKS_LIKELY 64 /* longer tables are as good, and slow */

static struct card card_of(uint8_t kind, struct fuzz_input *input) {
    struct card card = {.rank = kind % 4, .nranks = 3, .host = "host"};
    memcpy(card.process, process_identity(), sizeof card.process);
    card.process[0] += kind % 4;
    card.listener.count = 1;
    card.listener.port = 4711;
    card.listener.addresses[0] = (struct address){.family = 4, .ip = {127, 0, 0, 1}};
    fuzz_patch(input, &card, sizeof card);
    if (card.nranks > RANKS_LIKELY)
        card.nranks = card.nranks % RANKS_LIKELY + 1;
    return card;
}

static size_t make_join(uint8_t kind, struct fuzz_input *input, char *bytes) {
    static struct config agreed;
    struct card card = card_of(kind, input);
    size_t more = card.rank == 0 ? sizeof((struct table *)NULL)->agreed : 0;
    memcpy(bytes, &card, sizeof card);
    memcpy(bytes + sizeof card, &agreed, more);
    return sizeof card + more - fuzz_byte(input) % 2;
}

static size_t make_frame(uint32_t type, uint8_t kind, struct fuzz_input *input, char *bytes) {
    struct node_report reports[4];
    struct failure failure = {.code = COLLET_ERR_REMOTE, .rank = -1, .text = "why"};
    size_t size;
    if (type == TABLE_JOIN)
        return make_join(kind, input, bytes);
    if (type == TABLE_READY) {
        for (int k = 0; k < 4; k++)
            reports[k] = (struct node_report){.rank = k, .node = fuzz_byte(input) % 4};
        fuzz_patch(input, reports, sizeof reports);
        memcpy(bytes, reports, sizeof reports);
        return fuzz_byte(input) % (sizeof reports + 1);
    }
    fuzz_patch(input, &failure, sizeof failure);
    memcpy(bytes, &failure, size = sizeof failure);
    return size - fuzz_byte(input) % 2;
}

/* False: the meeting is over. */
static bool say(struct guest *guest, uint8_t kind, struct fuzz_input *input) {
    static const enum table_frame types[] = {TABLE_JOIN,   TABLE_JOIN, TABLE_JOIN, TABLE_READY,
                                             TABLE_ABSENT, TABLE_ASK,  TABLE_FAIL, TABLE_NEWS};
    static char bytes[sizeof(struct card) + sizeof(struct config) + sizeof(struct failure)];
    struct frame frame = {.type = types[kind >> 4 & 7]};
    frame.bytes = (uint32_t)make_frame(frame.type, kind & 15, input, bytes);
    char *exact = malloc(frame.bytes + 1);
    memcpy(exact, bytes, frame.bytes);
    frame.data = exact;
    bool goes_on = on_guest_frame(guest, &frame);
    free(exact);
    return goes_on;
}

static struct guest *nth_guest(const struct rendezvous *meeting, int n) {
    struct guest *guest = meeting->guests;
    for (; n > 0 && guest->next != NULL; n--)
        guest = guest->next;
    return guest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct rendezvous *meeting = calloc(1, sizeof *meeting), **first = &process_lock()->meetings;
    int others[GUESTS];
    process_unlock();
    meeting->door.listener.fd = -1;
    meeting->listed = fuzz_byte(&input) % 2;
    *first = meeting;
    for (int k = 0; k < GUESTS; k++) {
        struct wire *wire;
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || wire_create(pair[0], NULL, NULL, &wire) != COLLET_SUCCESS)
            abort();
        others[k] = pair[1];
        on_guest_proven(&meeting->door, wire);
    }
    while (input.size > 0 && *first == meeting && meeting->guests != NULL) {
        uint8_t kind = fuzz_byte(&input);
        struct guest *guest = nth_guest(meeting, fuzz_byte(&input) % GUESTS);
        if (kind == 255)
            guest_lost(guest, "died");
        else if (!say(guest, kind, &input))
            break;
    }
    if (*first == meeting)
        meeting_destroy(meeting);
    watch_fire_all();
    for (int k = 0; k < GUESTS; k++)
        close(others[k]);
    return 0;
}
