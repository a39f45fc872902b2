/* SPDX-License-Identifier: Apache-2.0
 *
 * The example of a network plugin (examples/net_plugin/sockets.c): what it says when a connection breaks. That it carries whole
 * jobs, tests/layers/nccl/test_net_plugin.sh shows.
 */
#include "../../../examples/net_plugin/sockets.c"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>

#include <cmocka.h>

static void log_nothing(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    (void)level, (void)flags, (void)file, (void)line, (void)format;
}

/* A receiver, and a bare socket at its other end. */
static struct line *line_with(int *peer) {
    int fds[2];
    void *line = NULL;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(line_create(fds[0], &line), PLUG_SUCCESS);
    *peer = fds[1];
    return line;
}

static void *irecv_into(struct line *line, void *data, int bytes) {
    void *request;
    assert_int_equal(sockets_irecv(line, 1, &data, &bytes, NULL, NULL, &request), PLUG_SUCCESS);
    return request;
}

static void send_message(int peer, const void *data, uint64_t bytes) {
    assert_int_equal(write(peer, &bytes, sizeof bytes), sizeof bytes);
    assert_int_equal(write(peer, data, bytes), bytes);
}

/* The lowest descriptor that is free: it is the same again if all that were opened since are closed. */
static int lowest_free(void) {
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    return fd;
}

/* -------------------------------------------------------------------------------------------------------------- cases */

static void a_message_that_has_come_is_received_although_the_line_broke_behind_it(void **state) {
    (void)state;
    int peer, to[3] = {0}, from = 7, done, bytes = 0;
    struct line *line = line_with(&peer);
    void *first = irecv_into(line, &to[0], sizeof to[0]), *second = irecv_into(line, &to[1], sizeof to[1]);
    void *third = irecv_into(line, &to[2], sizeof to[2]);
    send_message(peer, &from, sizeof from);
    send_message(peer, &from, sizeof from);
    close(peer);
    assert_int_equal(sockets_test(second, &done, &bytes), PLUG_SUCCESS); /* meets the end of the stream */
    assert_true(done);
    assert_int_equal(bytes, sizeof from);
    assert_int_equal(sockets_test(first, &done, &bytes), PLUG_SUCCESS); /* meets it again */
    assert_true(done);
    assert_int_equal(to[0] + to[1], 14);
    assert_int_equal(sockets_test(third, &done, &bytes), PLUG_REMOTE_ERROR);
    assert_false(done);
    line_close(line);
}

static void a_message_that_is_too_long_is_never_stored(void **state) {
    (void)state;
    int peer, done;
    char to[8] = {0}, from[8] = "1234567";
    struct line *line = line_with(&peer);
    void *request = irecv_into(line, to, 4);
    send_message(peer, from, sizeof from);
    for (int k = 0; k < 2; k++)
        assert_int_equal(sockets_test(request, &done, NULL), PLUG_INTERNAL_ERROR);
    assert_int_equal(to[0] | to[4], 0);
    close(peer);
    line_close(line);
}

static void a_connection_that_is_refused_leaves_no_socket(void **state) {
    (void)state;
    char handle[PLUG_HANDLE_BYTES];
    void *listener, *sender = NULL;
    int result = PLUG_SUCCESS, before = lowest_free();
    assert_int_equal(sockets_listen(0, handle, &listener), PLUG_SUCCESS);
    sockets_close_listen(listener);
    for (int k = 0; k < 1000 && result == PLUG_SUCCESS; k++)
        result = sockets_connect(0, handle, &sender, NULL);
    assert_int_equal(result, PLUG_REMOTE_ERROR);
    assert_null(sender);
    assert_int_equal(lowest_free(), before);
}

static void a_listener_without_a_socket_is_an_error(void **state) {
    (void)state;
    char handle[PLUG_HANDLE_BYTES];
    void *listener;
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int result = sockets_listen(0, handle, &listener);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(result, PLUG_SYSTEM_ERROR);
}

static int find_the_devices(void **state) {
    (void)state;
    return sockets_init(log_nothing);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_has_come_is_received_although_the_line_broke_behind_it),
        cmocka_unit_test(a_message_that_is_too_long_is_never_stored),
        cmocka_unit_test(a_connection_that_is_refused_leaves_no_socket),
        cmocka_unit_test(a_listener_without_a_socket_is_an_error),
    };
    return cmocka_run_group_tests(tests, find_the_devices, NULL);
}
