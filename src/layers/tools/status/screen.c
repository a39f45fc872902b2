/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/status/screen.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* ---- what fits ---- */

static bool may_go(const char *line, const char *keeps) {
    return *line == ' ' && strncmp(line, keeps, strlen(keeps)) != 0;
}

static int count_lines(const char *text) {
    int lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    return lines;
}

static int count_optional(const char *text, const char *keeps) {
    int lines = 0;
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
        lines += may_go(line, keeps);
    return lines;
}

/* Makes a text fit into `rows` rows, and leaves one of them free. Removes lines that begin with a blank, but not with
 * `keeps`. The last such lines go first. */
static void screen_fit(char *text, int rows, const char *keeps) {
    const int lines = count_lines(text), optional = count_optional(text, keeps);
    if (lines <= rows)
        return;
    const int room = rows - 1 - (lines - optional); /* One line says how many lines are missing. */
    const int kept = room > 0 ? room : 0;
    char *to = text;
    int seen = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const size_t length = (size_t)(end + 1 - line);
        if (may_go(line, keeps) && seen++ >= kept)
            continue;
        memmove(to, line, length);
        to += length;
    }
    *to = '\0';
}

/* ---- the terminal ---- */

static volatile sig_atomic_t interrupted;
static void interrupt(int signal) { interrupted = signal; }

static void draw(char *text, int seconds) {
    struct winsize size;
    char now[16];
    const time_t seconds_now = time(NULL);
    struct tm local;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 3) /* Some terminals do not know their size. */
        size.ws_row = 24;
    strftime(now, sizeof now, "%T", localtime_r(&seconds_now, &local));
    const int before = count_lines(text);
    screen_fit(text, size.ws_row - 2, "  held up");
    const int missing = before - count_lines(text);
    printf("\033[H\033[2Jcollet-status, every %d s, %s; Ctrl-C ends it\n%s", seconds, now, text);
    if (missing > 0)
        printf("  … %d lines more", missing);
}

void screen_watch(int seconds, char *(*text)(void *context), void *context) {
    const struct sigaction action = {.sa_handler = interrupt};
    const bool terminal = isatty(STDOUT_FILENO);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    /* Switches to another screen, hides the cursor, and cuts long lines. */
    printf("%s", terminal ? "\033[?1049h\033[?25l\033[?7l" : "");
    while (!interrupted) {
        char *shown = text(context);
        if (shown != NULL && terminal)
            draw(shown, seconds);
        else if (shown != NULL)
            printf("%s", shown);
        fflush(stdout);
        free(shown);
        if (!interrupted)
            nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
    }
    printf("%s", terminal ? "\033[?7h\033[?25h\033[?1049l" : "");
    fflush(stdout);
}
