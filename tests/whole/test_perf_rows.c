/* SPDX-License-Identifier: Apache-2.0
 *
 * Whoever ends a perf program early, or has to, keeps the rows that it has measured.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../examples/perf/perf.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Hangs from 64 bytes on. */
static enum collet_result hang_when_large(const struct perf_call *call) {
    while (call->shape.count >= 64)
        pause();
    return COLLET_SUCCESS;
}

static struct perf_origin untouched(const struct perf_call *call, size_t element) {
    (void)call;
    return (struct perf_origin){PERF_UNTOUCHED, element, SIZE_MAX};
}

static const struct perf_collective collective = {
    .program = "hang_perf",
    .function = "hang",
    .input = PERF_COUNT,
    .output = PERF_COUNT,
    .run = hang_when_large,
    .origin = untouched,
    .bus_factor = perf_bus_factor_one,
};

/* The program's standard output is `to`. */
static pid_t start(int to) {
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to, STDOUT_FILENO);
        char *argv[] = {"hang_perf", "--host", "1", "-d", "int8", "-b", "8", "-e", "64", "-f", "8", "-n", "2", NULL};
        exit(perf_main(&collective, sizeof(argv) / sizeof(argv[0]) - 1, argv));
    }
    return pid;
}

/* Reads until some line is a row of so many bytes. False when nothing more comes for two minutes. */
static bool finds_row(int from, size_t bytes) {
    char text[65536], row[32];
    size_t length = 0;
    snprintf(row, sizeof(row), "\n%12zu ", bytes);
    while (length + 1 < sizeof(text)) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        if (poll(&ready, 1, 120 * 1000) <= 0)
            return false;
        ssize_t got = read(from, text + length, sizeof(text) - 1 - length);
        if (got <= 0)
            return false;
        length += (size_t)got;
        text[length] = '\0';
        if (strstr(text, row) != NULL)
            return true;
    }
    return false;
}

static void a_row_is_printed_before_a_later_one_hangs(void **state) {
    (void)state;
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = start(ends[1]);
    assert_true(pid > 0);
    close(ends[1]);
    bool found = finds_row(ends[0], 8);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it hangs, as it is meant to */
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    close(ends[0]);
    assert_true(found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_printed_before_a_later_one_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
