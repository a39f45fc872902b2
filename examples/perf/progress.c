/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a long sweep, on one line of the terminal. The line is cleared before other output. Nothing is shown
 * if standard error is not a terminal, or in the first second.
 */
#include "perf.h"

#include <unistd.h>

static double total_work, start_s;
static bool visible;

void progress_start(double total) {
    total_work = total;
    start_s = probe_now_s();
}

void progress_show(double done, size_t bytes, bool in_place) {
    if (probe_now_s() < start_s + 1 || !isatty(STDERR_FILENO))
        return;
    fflush(stdout);
    fprintf(stderr, "\r%12zu B %s  %3.0f %%\033[K", bytes, in_place ? "in place" : "out of place",
            total_work > 0 ? 100 * done / total_work : 0);
    visible = true;
}

void progress_hide(void) {
    if (visible) {
        fprintf(stderr, "\r\033[K");
        visible = false;
    }
}
