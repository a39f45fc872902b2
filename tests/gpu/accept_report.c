/* SPDX-License-Identifier: Apache-2.0
 *
 * What the acceptance says while it runs. A machine may be lent for minutes, and a part may be cut off at any moment: so a thread
 * says every two seconds how far the part is, and so does the handler of the signal that ends it.
 */
#include "gpu/accept.h"

#include "base/os.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS 1900 /* a line every two seconds, also on a busy machine */

const char *report_results;

static struct {
    const char *part;
    int cases, wrong, expected;
    uint64_t start_ns, end_ns;
    pid_t process; /* the one that speaks */
    char doing[200];
} now;
static uint64_t random_state;

/* No lock and no buffer of stdio: a signal may come at any time. */
static void say_how_far(const char *how) {
    char line[400];
    if (getpid() != now.process || now.part == NULL)
        return;
    int n = snprintf(line, sizeof(line), "%s %s: %d of %d cases, %d wrong, %.0f s%s%s\n", how, now.part, now.cases,
                     now.expected > now.cases ? now.expected : now.cases, now.wrong,
                     (double)(os_now_ns() - now.start_ns) / 1e9, now.doing[0] ? "; at: " : "", now.doing);
    n = n < (int)sizeof(line) ? n : (int)sizeof(line) - 1;
    if (write(STDOUT_FILENO, line, (size_t)n) < 0)
        return; /* nobody reads any more */
}

static void on_end(int signal) {
    say_how_far("CUT OFF");
    _exit(128 + signal);
}

static void *tick(void *unused) {
    (void)unused;
    for (;;) {
        usleep(TICK_MS * 1000);
        say_how_far("  …");
    }
    return NULL;
}

static void begin_once(void) {
    static bool begun;
    pthread_t ticker;
    if (begun)
        return;
    begun = true;
    now.process = getpid();
    signal(SIGTERM, on_end);
    signal(SIGINT, on_end);
    if (pthread_create(&ticker, NULL, tick, NULL) == 0)
        pthread_detach(ticker);
}

void random_seed(uint64_t seed) { random_state = 88172645463325252ull ^ seed; }
uint64_t random_now(void) { return random_state; }

uint32_t random_below(uint32_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % n;
}

void report_begin(const char *part, uint64_t seed) {
    now.start_ns = os_now_ns();
    now.end_ns = now.start_ns + (uint64_t)part_seconds * 1000000000u;
    now.cases = now.wrong = now.expected = 0;
    now.doing[0] = '\0';
    random_seed(seed > 0 ? seed : now.start_ns);
    printf("%s, seed %llu\n", part, (unsigned long long)random_state);
    now.part = part;
    begin_once();
}

int report_end(void) {
    const double seconds = (double)(os_now_ns() - now.start_ns) / 1e9;
    printf("part %-10s %5d cases %4d wrong %7.1f s", now.part, now.cases, now.wrong, seconds);
    if (now.cases > 0)
        printf(", %.0f us a case, %.0f cases a second", seconds * 1e6 / now.cases, now.cases / seconds);
    printf("\n");
    now.part = NULL;
    return now.wrong;
}

void report_expect(int cases) { now.expected += cases; }
int report_failures(void) { return now.wrong; }
bool report_time_is_up(void) { return os_now_ns() > now.end_ns; }

unsigned report_seconds_left(void) {
    const uint64_t at = os_now_ns();
    return now.end_ns > at ? (unsigned)((now.end_ns - at) / 1000000000u) : 0;
}

void report_doing(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(now.doing, sizeof(now.doing), format, arguments);
    va_end(arguments);
}

void must(enum collet_result result, const char *what) {
    if (result == COLLET_SUCCESS)
        return;
    printf("%s: %s: %s\n", what, collet_error_string(result), collet_last_error(NULL));
    fflush(stdout);
    say_how_far("FAILED");
    exit(1);
}

void judge(bool right, const char *name, const char *why) {
    now.cases++;
    if (right)
        return;
    now.wrong++;
    printf("  wrong: %s: %s\n", name, why);
}

static void print_time(double us, char text[24]) {
    if (us > 0)
        snprintf(text, 24, "%10.2f", us);
    else
        snprintf(text, 24, "%10s", "-");
}

void report_figure(const struct figure *f) {
    char predicted[24], measured[24], limit[24];
    print_time(f->predicted_us, predicted);
    print_time(f->measured_us, measured);
    print_time(f->limit_us, limit);
    printf("  n=%d %-10s %10zu bytes: measured %s us, predicted %s, limit %s  %s\n", f->nranks, f->mode, f->bytes,
           measured, predicted, limit, f->plan);
    FILE *file = report_results != NULL ? fopen(report_results, "a") : NULL;
    if (file == NULL)
        return;
    fprintf(file, "%s\tcollet\t%d\t%s\t%zu\t%.3f\t%.3f\t%.3f\t%s\n", f->part, f->nranks, f->mode, f->bytes,
            f->predicted_us, f->measured_us, f->limit_us, f->plan);
    fclose(file);
}
