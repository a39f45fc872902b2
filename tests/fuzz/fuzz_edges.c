/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames between the processes of the tree: hellos, news, failures, from a parent and a child; and letters, by links that they make.
 *
 *      place 0 (rank 0) ◀── edge ── place 1, this process (rank 1) ◀── edge ── place 2 (rank 2), or nobody yet
 *                       ◀── link ──                                ◀── link ──
 */
#include "boot/hub.c"
#include "boot/link.c"
#include "boot/tree_serve.c"

#include "fuzz.h"
#include "watch_none.h"

#include <sys/socket.h>
#include <unistd.h>

#define RANKS 3

static void make_cards(struct card *cards) {
    for (int rank = 0; rank < RANKS; rank++) {
        cards[rank] = (struct card){.rank = rank, .nranks = RANKS, .host = "host"};
        memcpy(cards[rank].process, process_identity(), sizeof cards[rank].process);
        cards[rank].process[0] += (uint64_t)rank - 1; /* rank 1 is this process */
        cards[rank].listener.count = 1;
        cards[rank].listener.port = 4711;
        cards[rank].listener.addresses[0] = (struct address){.family = 4, .ip = {127, 0, 0, 1}};
    }
}

static struct edge *make_edge(struct tree *tree, int place, int *other_end) {
    struct wire *wire;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || wire_create(pair[0], NULL, NULL, &wire) != COLLET_SUCCESS)
        abort();
    *other_end = pair[1];
    struct edge *edge = tree_add_edge(tree, wire, place);
    if (edge == NULL)
        abort();
    if (place >= 0)
        place_of(tree, place)->edge = edge;
    return edge;
}

static size_t make_frame(struct fuzz_input *input, uint32_t type, uint8_t kind, char *bytes) {
    struct hello hello = {.place = 2, .serial = kind % 4};
    const struct letter_head head = {.to = 1, .from = kind % RANKS, .number = fuzz_byte(input) % 4};
    const uint64_t got = fuzz_byte(input) % 4;
    struct state_news news = {.rank = kind % RANKS, .state = 1 + kind / 4 % 3};
    struct failure failure = {.code = COLLET_ERR_REMOTE, .rank = -1, .text = "why"};
    size_t size, more = 0;
    memcpy(hello.process, process_identity(), sizeof hello.process);
    hello.process[0]++;
    switch (type) {
    case TREE_LINK:
    case TREE_HELLO: memcpy(bytes, &hello, size = sizeof hello); break;
    case TREE_LETTER: memcpy(bytes, &head, size = sizeof head); break;
    case TREE_GOT: memcpy(bytes, &got, size = sizeof got); break;
    case TREE_STATE: memcpy(bytes, &news, size = sizeof news); break;
    default: memcpy(bytes, &failure, size = sizeof failure); break;
    }
    fuzz_patch(input, bytes, size);
    if (type == TREE_LETTER) {
        const uint8_t *data = fuzz_bytes(input, fuzz_byte(input), &more);
        if (more > 0)
            memcpy(bytes + size, data, more);
    }
    return size + more;
}

static void ignore(struct watch_task *task) { (void)task; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct card cards[RANKS];
    static struct config config;
    struct boot_self self = {0};
    struct boot *boot;
    struct hub *hub;
    struct tree tree;
    struct watch_task work;
    int other_ends[2];
    watch_task_init(&work, NULL, ignore);
    make_cards(cards);
    if (hub_create(RANKS, NULL, &hub) != COLLET_SUCCESS)
        return 0;
    hub->work = &work;
    tree_init(&tree, hub);
    tree.parent = 0;
    if (hub_add(tree.hub, 1, &self, &config, &boot) != COLLET_SUCCESS ||
        places_create(&tree.places, cards, RANKS) != COLLET_SUCCESS)
        abort();
    for (int rank = 0; rank < RANKS; rank++)
        hub_set_peer(tree.hub, &cards[rank]);
    make_edge(&tree, 0, &other_ends[0]);
    make_edge(&tree, fuzz_byte(&input) % 2 ? 2 : -1, &other_ends[1]);
    tree.known = fuzz_byte(&input) % 4 != 0;
    while (input.size > 0 && tree.edges != NULL) {
        char bytes[1024];
        uint8_t kind = fuzz_byte(&input);
        struct edge *edge = kind & 0x80 && tree.edges->next != NULL ? tree.edges->next : tree.edges;
        struct frame frame = {.type = TREE_HELLO + (kind >> 4 & 7) % 6};
        const struct peer_link *link = place_of(&tree, kind & 0x80 ? 2 : 0)->link;
        if (frame.type >= TREE_LETTER && link != NULL && link->edges != NULL)
            edge = link->edges;
        frame.bytes = make_frame(&input, frame.type, kind & 15, bytes);
        char *exact = malloc(frame.bytes + 1);
        memcpy(exact, bytes, frame.bytes);
        frame.data = exact;
        if (edge->owner == link && !edge->frame(edge, &frame))
            edge->lost(edge, PEER_LOST, "it sent nonsense");
        else if (edge->owner == &tree && !on_edge_frame(edge, &frame)) {
            if (edge->place >= 0)
                place_of(&tree, edge->place)->edge = NULL;
            edge_destroy(edge);
        }
        free(exact);
    }
    tree_close(&tree);
    watch_fire_all();
    close(other_ends[0]);
    close(other_ends[1]);
    hub_remove(boot);
    hub_release(tree.hub);
    return 0;
}
