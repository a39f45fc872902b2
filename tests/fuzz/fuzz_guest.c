/* SPDX-License-Identifier: Apache-2.0
 *
 * What the meeting point tells a guest: seats, rejections, news, failures, the table, in any order.
 *
 *      meeting point ── SEAT, KNOBS, CARDS, NODES, DONE, REJECT, NEWS, FAIL, OVER ──▶ this process, with rank 1 of 3
 */
#include "base/config_read.h"
#include "boot/hub.c"
#include "boot/member.c"

#include "fuzz.h"
#include "watch_none.h"

#include <sys/socket.h>
#include <unistd.h>

#define RANKS 3

static void ignore(struct watch_task *task) { (void)task; }

/* Rank r of process r; 1 is this one. */
static struct card card_of_rank(int rank) {
    struct card card = {.rank = rank, .nranks = RANKS, .host = "host"};
    memcpy(card.process, process_identity(), sizeof card.process);
    card.process[0] += (uint64_t)rank - 1;
    card.listener.count = 1;
    card.listener.port = 4711;
    card.listener.addresses[0] = (struct address){.family = 4, .ip = {127, 0, 0, 1}};
    return card;
}

static size_t make_frame(const struct member *member, uint32_t type, struct fuzz_input *input, char *bytes) {
    struct seat seat = {.rank = 1, .place = 1, .nplaces = RANKS, .parent = card_of_rank(0), .meeting = "rank 0"};
    struct rejection rejection = {.rank = 1, .code = COLLET_ERR_INVALID_ARGUMENT, .text = "why"};
    struct failure failure = {.code = COLLET_ERR_REMOTE, .rank = -1, .text = "why"};
    const int32_t nodes[RANKS] = {0};
    struct config agreed;
    struct card cards[RANKS];
    size_t size = 0;
    switch (type) {
    case TABLE_SEAT: memcpy(bytes, &seat, size = sizeof seat); break;
    case TABLE_REJECT: memcpy(bytes, &rejection, size = sizeof rejection); break;
    case TABLE_NEWS:
    case TABLE_FAIL: memcpy(bytes, &failure, size = sizeof failure); break;
    case TABLE_NODES: memcpy(bytes, nodes, size = sizeof nodes); break;
    case TABLE_KNOBS:
        memset(&agreed, 0, sizeof agreed);
        config_adopt(&agreed, member->hub->local[1]->config);
        memcpy(bytes, &agreed, size = sizeof agreed);
        break;
    case TABLE_CARDS:
        for (int rank = 0; rank < RANKS; rank++)
            cards[rank] = card_of_rank(rank);
        memcpy(bytes, cards, size = sizeof cards);
        break;
    default: break;
    }
    if (size > 0)
        fuzz_patch(input, bytes, size);
    return size - (size > 0 ? fuzz_byte(input) % 2 : 0);
}

/* False: it is understood to be nonsense. */
static bool tell(struct member *member, struct fuzz_input *input) {
    static const uint32_t types[] = {TABLE_SEAT,   TABLE_KNOBS, TABLE_CARDS, TABLE_NODES, TABLE_DONE,
                                     TABLE_REJECT, TABLE_NEWS,  TABLE_FAIL,  TABLE_OVER};
    static char
        bytes[sizeof(struct config) + sizeof(struct failure) + sizeof(struct seat) + RANKS * sizeof(struct card)];
    const uint8_t kind = fuzz_byte(input);
    struct frame frame = {.type = kind == 255 ? fuzz_byte(input) : types[kind % 9]};
    frame.bytes = make_frame(member, frame.type, input, bytes);
    char *exact = malloc(frame.bytes + 1);
    memcpy(exact, bytes, frame.bytes);
    frame.data = exact;
    const bool understood = on_root_frame(member, &frame);
    free(exact);
    return understood;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    static struct config config;
    struct boot_self self = {0};
    struct member member = {0};
    struct boot *boot;
    char text[ERR_TEXT_BYTES];
    int pair[2];
    watch_task_init(&member.work, NULL, ignore);
    if (config_read(&config) != COLLET_SUCCESS)
        abort();
    if (hub_create(RANKS, NULL, &member.hub) != COLLET_SUCCESS)
        abort();
    member.hub->work = &member.work;
    if (hub_add(member.hub, 1, &self, &config, &boot) != COLLET_SUCCESS ||
        tree_open(&member.tree, member.hub, AF_INET, "lo") != COLLET_SUCCESS ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 ||
        wire_create(pair[0], root_ready, &member, &member.root) != COLLET_SUCCESS)
        abort();
    while (input.size > 0 && tell(&member, &input)) {
        continue_init(&member);
        waiting_text(&member, text, sizeof text);
    }
    leave_meeting_point(&member);
    tree_close(&member.tree);
    watch_fire_all();
    close(pair[1]);
    hub_remove(boot);
    hub_release(member.hub);
    return 0;
}
