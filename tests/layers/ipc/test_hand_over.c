/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptors on their way to another process.
 */
#include "base/err.h"
#include "transport/ipc/hand_over.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIES 2000 /* of a millisecond */

static int listener;
static char name[HAND_OVER_NAME_BYTES];

static int listen_anew(void **state) {
    (void)state;
    return hand_over_listen(name, &listener) == COLLET_SUCCESS ? 0 : -1;
}

static int hang_up(void **state) {
    (void)state;
    return close(listener);
}

static int take(void) {
    int from, fd = -1;
    enum collet_result result = COLLET_IN_PROGRESS;
    assert_int_equal(hand_over_connect(name, &from), COLLET_SUCCESS);
    for (int k = 0; k < TRIES && (result = hand_over_take(from, &fd)) == COLLET_IN_PROGRESS; k++)
        usleep(1000);
    close(from);
    return result == COLLET_SUCCESS ? fd : -1;
}

static void give(int fd) {
    enum collet_result result = COLLET_IN_PROGRESS;
    for (int k = 0; k < TRIES && (result = hand_over_give(listener, fd)) == COLLET_IN_PROGRESS; k++)
        usleep(1000);
    assert_int_equal(result, COLLET_SUCCESS);
}

static void another_process_uses_what_it_was_given(void **state) {
    (void)state;
    char text[6] = "";
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]); /* it has only what it is given */
        int fd = take();
        _exit(fd >= 0 && write(fd, "hello", 6) == 6 ? 0 : 1);
    }
    give(ends[1]);
    close(ends[1]); /* the giver needs it no more */
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read(ends[0], text, 6), 6);
    assert_string_equal(text, "hello");
    close(ends[0]);
}

static void nothing_waits_for_anybody(void **state) {
    (void)state;
    int from, fd;
    assert_int_equal(hand_over_give(listener, 0), COLLET_IN_PROGRESS);
    assert_int_equal(hand_over_connect(name, &from), COLLET_SUCCESS);
    assert_int_equal(hand_over_take(from, &fd), COLLET_IN_PROGRESS);
    close(from);
}

static void a_giver_that_goes_is_noticed(void **state) {
    (void)state;
    int from, fd;
    assert_int_equal(hand_over_connect(name, &from), COLLET_SUCCESS);
    close(listener);
    assert_int_equal(hand_over_take(from, &fd), COLLET_ERR_REMOTE);
    close(from);
    assert_int_equal(hand_over_connect(name, &from), COLLET_ERR_SYSTEM);
    assert_non_null(strstr(err_last(), "network namespace"));
    assert_int_equal(hand_over_listen(name, &listener), COLLET_SUCCESS); /* for hang_up() */
}

static void bytes_without_a_descriptor_are_refused(void **state) {
    (void)state;
    int ends[2], fd;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(write(ends[0], "x", 1), 1);
    assert_int_equal(hand_over_take(ends[1], &fd), COLLET_ERR_REMOTE);
    close(ends[0]);
    close(ends[1]);
}

static void other_users_get_nothing(void **state) {
    (void)state;
    int status = -1;
    if (geteuid() != 0)
        skip(); /* only root can become somebody else */
    pid_t child = fork();
    if (child == 0) {
        int from, fd;
        enum collet_result result = COLLET_IN_PROGRESS;
        if (setuid(65534) != 0 || hand_over_connect(name, &from) != COLLET_SUCCESS)
            _exit(1);
        for (int k = 0; k < TRIES && (result = hand_over_take(from, &fd)) == COLLET_IN_PROGRESS; k++)
            usleep(1000);
        _exit(result == COLLET_ERR_REMOTE ? 0 : 1);
    }
    for (int k = 0; k < TRIES && waitpid(child, &status, WNOHANG) == 0; k++) {
        assert_int_equal(hand_over_give(listener, 0), COLLET_IN_PROGRESS);
        usleep(1000);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_process_uses_what_it_was_given, listen_anew, hang_up),
        cmocka_unit_test_setup_teardown(nothing_waits_for_anybody, listen_anew, hang_up),
        cmocka_unit_test_setup_teardown(a_giver_that_goes_is_noticed, listen_anew, hang_up),
        cmocka_unit_test_setup_teardown(bytes_without_a_descriptor_are_refused, listen_anew, hang_up),
        cmocka_unit_test_setup_teardown(other_users_get_nothing, listen_anew, hang_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
