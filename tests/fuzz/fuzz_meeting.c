/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames that processes which know the key send to the meeting point: three guests, in any order, anything.
 */
#include "boot/rendezvous.c"

#include "fuzz.h"
#include "watch_none.h"

#include <sys/socket.h>
#include <unistd.h>

#define GUESTS 3
#define RANKS 3

static struct rendezvous *meeting_create(bool listed) {
    struct rendezvous *meeting = calloc(1, sizeof *meeting);
    struct process *process = process_lock();
    process_unlock();
    if (meeting == NULL)
        abort();
    meeting->listed = listed;
    meeting->news.fire = send_news;
    meeting->door.listener.fd = -1;
    meeting->next = process->meetings;
    return process->meetings = meeting;
}

static bool is_over(const struct rendezvous *meeting) {
    struct process *process = process_lock();
    process_unlock();
    return process->meetings != meeting;
}

static void guest_create(struct rendezvous *meeting, int *other_end) {
    struct wire *wire;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || wire_create(pair[0], NULL, NULL, &wire) != COLLET_SUCCESS)
        abort();
    on_guest_proven(&meeting->door, wire);
    *other_end = pair[1];
}

/* What such a frame should be, but for some bytes; or anything. */
static size_t make_frame(struct fuzz_input *input, uint32_t type, uint8_t kind, char *frame) {
    struct card card = {.rank = kind % RANKS, .nranks = RANKS, .host = "host"};
    struct failure failure = {.code = COLLET_ERR_REMOTE, .rank = -1, .text = "why"};
    struct node_report reports[RANKS] = {{0, 0}, {1, 0}, {2, kind % RANKS}};
    size_t bytes;
    card.listener.count = 1;
    card.listener.port = 4711;
    card.listener.addresses[0] = (struct address){.family = 4, .ip = {127, 0, 0, 1}};
    switch (type) {
    case TABLE_JOIN:
        memcpy(frame, &card, sizeof card);
        bytes = sizeof card + (card.rank == 0 ? sizeof(struct config) : 0);
        memset(frame + sizeof card, 0, bytes - sizeof card);
        break;
    case TABLE_READY: memcpy(frame, reports, bytes = sizeof reports); break;
    default: memcpy(frame, &failure, bytes = sizeof failure); break;
    }
    fuzz_patch(input, frame, bytes);
    return kind & 0x40 ? bytes - fuzz_byte(input) % bytes : bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char bytes[sizeof(struct card) + sizeof(struct config) + sizeof(struct failure)];
    struct fuzz_input input = {data, size};
    uint8_t first = fuzz_byte(&input);
    struct rendezvous *meeting = meeting_create(first & 1);
    int other_ends[GUESTS];
    for (int k = 0; k < GUESTS; k++)
        guest_create(meeting, &other_ends[k]);
    while (input.size > 0 && !is_over(meeting)) {
        uint8_t kind = fuzz_byte(&input), type = TABLE_JOIN + (kind >> 4) % 4;
        struct guest *guest = meeting->guests;
        for (int k = fuzz_byte(&input) % GUESTS; k > 0 && guest->next != NULL; k--)
            guest = guest->next;
        if (guest == NULL)
            break;
        struct frame frame = {.type = type == TABLE_NEWS ? TABLE_FAIL : type, .data = bytes};
        frame.bytes = make_frame(&input, frame.type, kind, bytes);
        char *exact = malloc(frame.bytes); /* so that a sanitizer sees its end */
        memcpy(exact, bytes, frame.bytes);
        frame.data = exact;
        if (kind == 0xff)
            guest_lost(guest, "died");
        else
            (void)on_guest_frame(guest, &frame);
        free(exact);
    }
    if (!is_over(meeting))
        meeting_destroy(meeting);
    watch_fire_all();
    for (int k = 0; k < GUESTS; k++)
        close(other_ends[k]);
    return 0;
}
