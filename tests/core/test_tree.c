/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that loses its parent in the tree while the communicator is created:
 *
 *      meeting point ── "rank 3 died" ──▶ place 1, this process (rank 1) ── edge ──▶ place 0 (rank 0), which ends
 *
 * Nothing is watched and timers fire when a case says so (fuzz/watch_none.h), so each order can be made.
 */
#include "boot/hub.c"
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
static int other_end; /* of the edge to place 0 */

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
    assert_int_equal(route_open(&tree), COLLET_SUCCESS);
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

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_meeting_point_has_the_word_on_why_init_failed),
        TEST(a_lost_parent_is_named_where_nobody_knows_more),
        TEST(a_parent_that_does_not_answer_is_lost_when_its_time_is_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
