/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that loses its parent in the tree while the communicator is created, and the connections of its link to it:
 *
 *      meeting point ── "rank 3 died" ──▶ place 1, this process (rank 1) ── edge ──▶ place 0 (rank 0), which ends
 *                                                                        ◀── link ──
 *
 * Nothing is watched and timers fire when a case says so (fuzz/watch_none.h), so each order can be made.
 */
#include "boot/hub.c"
#include "boot/link.c"
#include "boot/losses.c"
#include "boot/tree_serve.c"

#include "fuzz/watch_none.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 2

static struct tree tree;
static struct boot *boot;
static struct watch_task work;
static int other_end;         /* of the edge to place 0 */
static struct wire *wires[4]; /* other ends of links */
static int nwires;

static void do_nothing(struct watch_task *task) { (void)task; }

static int set_up(void **state) {
    static struct config config;
    struct card cards[RANKS] = {{.rank = 0}, {.rank = 1}};
    struct boot_self self = {.device = 0};
    struct wire *wire;
    int pair[2];
    (void)state;
    memcpy(cards[1].process, process_identity(), sizeof cards[1].process);
    struct hub *hub;
    watch_task_init(&work, NULL, do_nothing);
    assert_int_equal(hub_create(RANKS, NULL, &hub), COLLET_SUCCESS);
    hub->work = &work;
    tree_init(&tree, hub);
    tree.parent = 0;
    assert_int_equal(hub_add(tree.hub, 1, &self, &config, &boot), COLLET_SUCCESS);
    assert_int_equal(places_create(&tree.places, cards, RANKS), COLLET_SUCCESS);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(wire_create(pair[0], NULL, NULL, &wire), COLLET_SUCCESS);
    other_end = pair[1];
    place_of(&tree, 0)->edge = tree_add_edge(&tree, wire, 0);
    assert_non_null(place_of(&tree, 0)->edge);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tree_close(&tree);
    watch_fire_all();
    for (; nwires > 0; nwires--)
        wire_destroy(wires[nwires - 1]);
    hub_remove(boot);
    hub_release(tree.hub);
    return 0;
}

static void the_parent_ends(void) {
    close(other_end);
    edge_read(place_of(&tree, 0)->edge);
    assert_null(place_of(&tree, 0)->edge);
}

static void the_meeting_point_has_the_word_on_why_init_failed(void **state) {
    (void)state;
    the_parent_ends();
    assert_int_equal(hub_failed(tree.hub), COLLET_SUCCESS);
    hub_fail(tree.hub, COLLET_ERR_REMOTE, 3, "rank 3 died");
    watch_fire_all();
    assert_string_equal(tree.hub->failed_text, "rank 3 died");
}

static void a_lost_parent_is_named_where_nobody_knows_more(void **state) {
    (void)state;
    the_parent_ends();
    watch_fire_all();
    assert_int_equal(hub_failed(tree.hub), COLLET_ERR_REMOTE);
    assert_non_null(strstr(tree.hub->failed_text, "the process of rank 0 was lost while the communicator was created"));
}

/* Not only when an attempt to dial it ends: that may last for seconds more, in which the others count this process as lost. */
static void a_parent_that_does_not_answer_is_lost_when_its_time_is_up(void **state) {
    (void)state;
    tree.known = tree.running = true;
    tree.hub->peers[0].node = 7;
    tree.silence_ns = 1000000000;
    tree.beat_ns = 100000000;
    tree.beaten_ns = os_now_ns();
    edge_destroy(place_of(&tree, 0)->edge);
    place_of(&tree, 0)->edge = NULL;
    dial_parent(&tree);
    beat(&tree.beat);
    assert_int_equal(hub_state(tree.hub, 0, NULL), PEER_ALIVE);
    tree.dial.started_ns -= 1 + patience_ns(&tree);
    beat(&tree.beat);
    assert_int_equal(hub_state(tree.hub, 0, NULL), PEER_LOST);
    assert_int_equal(tree.parent, -1);
}

/* A connection of a link comes from place 0, which dialled. Returns its other end; NULL: it was refused. */
static struct wire *link_comes(int serial) {
    const uint8_t key[WIRE_KEY_BYTES] = {0};
    uint8_t opening[WIRE_OPENING_BYTES];
    struct hello hello = {.place = 0, .serial = serial};
    const struct frame frame = {.type = TREE_LINK, .bytes = sizeof hello, .data = (const char *)&hello};
    struct wire *mine, *theirs;
    int pair[2];
    tree.known = true;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(wire_create(pair[0], NULL, NULL, &mine), COLLET_SUCCESS);
    assert_int_equal(wire_create(pair[1], NULL, NULL, &theirs), COLLET_SUCCESS);
    wire_open_sending(mine, key, opening);
    wire_open_receiving(theirs, key, opening);
    wires[nwires++] = theirs;
    memcpy(hello.process, place_of(&tree, 0)->process, sizeof hello.process);
    struct edge *edge = tree_add_edge(&tree, mine, -1);
    if (on_edge_frame(edge, &frame))
        return theirs;
    edge_destroy(edge);
    return NULL;
}

/* Reads what has come there: are these letters `first` … `last`? */
static void assert_letters(struct wire *wire, uint64_t first, uint64_t last) {
    struct frame frame;
    struct letter_head head;
    wire_fill(wire, 4096);
    for (uint64_t number = first; number <= last; number++) {
        assert_int_equal(wire_next(wire, 1024, &frame), 1);
        assert_int_equal(frame.type, TREE_LETTER);
        memcpy(&head, frame.data, sizeof head);
        assert_int_equal(head.number, number);
    }
    assert_int_equal(wire_next(wire, 1024, &frame), 0);
}

static bool hear_that_place_0_has(uint64_t got) {
    const struct frame frame = {.type = TREE_GOT, .bytes = sizeof got, .data = (const char *)&got};
    return on_link_frame(place_of(&tree, 0)->link->edges, &frame);
}

static bool hear_letter(uint64_t number) {
    const struct letter_head head = {.to = 1, .from = 0, .key = 7, .number = number};
    const struct frame frame = {.type = TREE_LETTER, .bytes = sizeof head, .data = (const char *)&head};
    return on_link_frame(place_of(&tree, 0)->link->edges, &frame);
}

static void letters_that_are_not_confirmed_come_by_the_next_connection(void **state) {
    (void)state;
    struct wire *first = link_comes(3);
    assert_non_null(first);
    for (int k = 0; k < 3; k++)
        link_post(&tree, letter_create(0, 1, 7, "abc", 3));
    assert_letters(first, 0, 2);
    assert_true(hear_that_place_0_has(1));
    assert_null(link_comes(2)); /* it is older */
    assert_false(links_clear(&tree));
    struct wire *second = link_comes(3); /* as old, but the lower place has dialled it */
    assert_non_null(second);
    assert_letters(second, 1, 2);
    assert_null(place_of(&tree, 0)->link->edges->next);
    assert_true(hear_that_place_0_has(3));
    assert_true(links_clear(&tree));
    struct wire *third = link_comes(4);
    assert_non_null(third);
    link_post(&tree, letter_create(0, 1, 7, "abc", 3));
    assert_letters(third, 3, 3);
}

static void a_link_that_stands_still_is_dialled_again(void **state) {
    (void)state;
    assert_non_null(link_comes(1));
    const struct peer_link *link = place_of(&tree, 0)->link;
    links_tidy(&tree, UINT64_MAX, 0);
    assert_false(link->dial.active); /* nothing waits */
    link_post(&tree, letter_create(0, 1, 7, "abc", 3));
    links_tidy(&tree, UINT64_MAX, 1000000000);
    assert_false(link->dial.active);
    links_tidy(&tree, UINT64_MAX, 0);
    assert_true(link->dial.active);
    assert_true(hear_that_place_0_has(1));
    assert_false(link->dial.active);
    links_tidy(&tree, 0, 0);
    assert_null(link->edges); /* it was idle */
}

static void a_letter_that_comes_twice_is_taken_once(void **state) {
    (void)state;
    assert_non_null(link_comes(1));
    assert_true(hear_letter(0) && hear_letter(0) && hear_letter(1) && hear_letter(0));
    assert_false(hear_letter(3)); /* where is the one before it? */
    for (int k = 0; k < 3; k++) {
        struct letter *letter = hub_collect(boot, 0, 7);
        assert_true((letter != NULL) == (k < 2));
        letter_free(letter);
    }
}

/* A process of which nothing is heard is asked. It has no time to answer. */
static void a_process_that_does_not_answer_is_lost(void **state) {
    (void)state;
    const char *why = NULL;
    assert_int_equal(link_verdict(&tree, 0, &why), PEER_ALIVE);
    link_ask(&tree, 0, os_now_ns() + 1000000000);
    assert_int_equal(link_verdict(&tree, 0, &why), PEER_ALIVE);
    place_of(&tree, 0)->link->deadline_ns = 1;
    assert_int_equal(link_verdict(&tree, 0, &why), PEER_LOST);
    assert_string_equal(why, "nothing was tried yet");
    assert_non_null(link_comes(1));
    assert_int_equal(link_verdict(&tree, 0, &why), PEER_ALIVE);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_meeting_point_has_the_word_on_why_init_failed),
        TEST(a_lost_parent_is_named_where_nobody_knows_more),
        TEST(a_parent_that_does_not_answer_is_lost_when_its_time_is_up),
        TEST(letters_that_are_not_confirmed_come_by_the_next_connection),
        TEST(a_link_that_stands_still_is_dialled_again),
        TEST(a_letter_that_comes_twice_is_taken_once),
        TEST(a_process_that_does_not_answer_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
