/* SPDX-License-Identifier: Apache-2.0
 *
 * A case that runs in a process of its own, since it spoils what a process has: its standard error, its limits, its rights.
 *
 *      cmocka's case ── child_run(body) ──┬── waits: the child must end by itself, with status 0
 *                                         └─▶ child: body(), which checks by EXPECT()
 */
#ifndef COLLET_TESTS_CHILD_H
#define COLLET_TESTS_CHILD_H

#include "common/fair.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CHILD_LIMIT_S 20 /* a child that waits is killed then */

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            dprintf(STDOUT_FILENO, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);           \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline void child_run(void (*body)(void)) {
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        fair_alarm(CHILD_LIMIT_S);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status))
        fail_msg("ended by signal %d%s", WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ": it waited" : "");
    assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
