/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests whose cases are processes, since a failure of a GPU stays: a case is a function that returns.
 */
#ifndef COLLET_GPUSIM_EACH_H
#define COLLET_GPUSIM_EACH_H

#include "common/fair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define EACH_SECONDS 100

static inline void each_equal(long long got, long long wanted, const char *what, const char *why, int line) {
    if (got == wanted)
        return;
    printf("line %d: %s is %lld, not %lld %s\n", line, what, got, wanted, why);
    fflush(stdout);
    _exit(1);
}
#define EQUAL(got, wanted) each_equal((long long)(got), (long long)(wanted), #got, "", __LINE__)
#define DIFFER(a, b) each_equal((a) != (b), 1, #a " != " #b, "", __LINE__)

struct each_case {
    const char *name;
    void (*run)(void);
};
#define EACH_ROW(name) {#name, name},

static inline int each_main(const struct each_case *cases, int n, int argc, char **argv) {
    int failed = 0, ran = 0, status;
    for (int k = 0; argc > 1 && strcmp(argv[1], "--list") == 0; k++)
        if (k == n || puts(cases[k].name) < 0)
            return k < n;
    for (int k = 0; k < n; k++) {
        if (argc > 1 && strcmp(argv[1], cases[k].name) != 0)
            continue;
        if (fork() == 0) {
            fair_alarm(EACH_SECONDS);
            cases[k].run();
            _exit(0);
        }
        wait(&status);
        ran++;
        failed += status != 0;
        printf("%s %s\n", status == 0 ? "ok   " : "FAIL ", cases[k].name);
        fflush(stdout);
    }
    if (failed > 0)
        printf("GPUSIM_SEED=%s\n", getenv("GPUSIM_SEED") != NULL ? getenv("GPUSIM_SEED") : "1");
    printf("%d passed, %d failed\n", ran - failed, failed);
    return failed > 0 || ran == 0; /* a case that is none */
}

#endif
