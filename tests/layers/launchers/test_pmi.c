/* SPDX-License-Identifier: Apache-2.0
 *
 * PMI-1, with a launcher that is a socket whose answers were written before the questions were asked.
 */
#include "base/err.h"
#include "layers/launchers/pmi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELLO "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\ncmd=my_kvsname kvsname=kvs_7\n"

/* Runs pmi_share() in a process of its own, which says its goodbye at exit. What it returned, and in text what it got;
 * in asked what it said. */
static enum collet_result share(int rank, const char *answers, char *text, char asked[2048]) {
    int sockets[2], results[2], status;
    struct {
        enum collet_result result;
        char text[PMI_TEXT_BYTES];
    } got = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_int_equal(pipe(results), 0);
    assert_int_equal(write(sockets[0], answers, strlen(answers)), strlen(answers));
    pid_t pid = fork();
    if (pid == 0) {
        char fd[16];
        snprintf(fd, sizeof fd, "%d", sockets[1]);
        setenv("PMI_FD", fd, 1);
        close(sockets[0]);
        snprintf(got.text, sizeof got.text, "%s", text);
        got.result = pmi_share(rank, "collet-0", got.text, &(struct config){.init_timeout = 1});
        exit(write(results[1], &got, sizeof got) == sizeof got ? 0 : 1);
    }
    close(sockets[1]);
    assert_int_equal(read(results[0], &got, sizeof got), sizeof got);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    ssize_t n = recv(sockets[0], asked, 2047, MSG_DONTWAIT); /* all of it: the process is gone */
    asked[n > 0 ? n : 0] = '\0';
    strcpy(text, got.text);
    close(sockets[0]);
    close(results[0]);
    close(results[1]);
    return got.result;
}

static void rank_0_puts_its_text_before_the_barrier(void **state) {
    (void)state;
    char asked[2048], text[PMI_TEXT_BYTES] = "0123abcd";
    const char *answers = HELLO "cmd=put_result rc=0 msg=success\ncmd=barrier_out\ncmd=finalize_ack\n";
    assert_int_equal(share(0, answers, text, asked), COLLET_SUCCESS);
    assert_string_equal(asked, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=get_my_kvsname\n"
                               "cmd=put kvsname=kvs_7 key=collet-0 value=0123abcd\ncmd=barrier_in\ncmd=finalize\n");
}

static void another_rank_gets_it_after_the_barrier(void **state) {
    (void)state;
    char asked[2048], text[PMI_TEXT_BYTES] = "";
    const char *answers =
        HELLO "cmd=barrier_out rc=0\ncmd=get_result rc=0 msg=success value=0123abcd\ncmd=finalize_ack\n";
    assert_int_equal(share(3, answers, text, asked), COLLET_SUCCESS);
    assert_string_equal(text, "0123abcd");
    assert_non_null(strstr(asked, "cmd=barrier_in\ncmd=get kvsname=kvs_7 key=collet-0\n"));
}

static void a_launcher_that_says_no_is_an_error(void **state) {
    (void)state;
    char asked[2048], text[PMI_TEXT_BYTES] = "";
    assert_int_equal(share(1, HELLO "cmd=barrier_out\ncmd=get_result rc=-1 msg=unknown\n", text, asked),
                     COLLET_ERR_SYSTEM);
}

static void a_launcher_that_says_nothing_is_not_waited_for_longer_than_allowed(void **state) {
    (void)state;
    char asked[2048], text[PMI_TEXT_BYTES] = "";
    assert_int_equal(share(1, HELLO, text, asked), COLLET_ERR_TIMEOUT);
}

static void nonsense_is_an_error(void **state) {
    (void)state;
    char asked[2048], text[PMI_TEXT_BYTES] = "", answers[4096] = HELLO "cmd=barrier_out\ncmd=get_result rc=0 value=";
    assert_int_equal(share(1, "\n", text, asked), COLLET_ERR_SYSTEM);
    assert_int_equal(share(1, HELLO "cmd=barrier_out\ncmd=get_result rc=0\n", text, asked), COLLET_ERR_SYSTEM);
    memset(answers + strlen(answers), 'x', 500); /* longer than a text may be */
    strcat(answers, "\n");
    assert_int_equal(share(1, answers, text, asked), COLLET_ERR_SYSTEM);
    memset(answers + strlen(answers) - 1, 'x', 2000); /* longer than a line may be */
    assert_int_equal(share(1, answers, text, asked), COLLET_ERR_SYSTEM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_puts_its_text_before_the_barrier),
        cmocka_unit_test(another_rank_gets_it_after_the_barrier),
        cmocka_unit_test(a_launcher_that_says_no_is_an_error),
        cmocka_unit_test(a_launcher_that_says_nothing_is_not_waited_for_longer_than_allowed),
        cmocka_unit_test(nonsense_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
