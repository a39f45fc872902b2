/* SPDX-License-Identifier: Apache-2.0
 *
 * Each line is formatted on the stack and written by a single write(2). So lines of several threads and processes never mix,
 * and no lock can be held across a fork. No thread waits for a log that is stuck: a waiting thread would notice no dead rank, and end no
 * call. Logging keeps errno, because callers may log before they report it.
 */
#include "base/log.h"

#include "base/config.h"
#include "base/os.h"
#include "base/output.h"
#include "base/plain.h"
#include "seams/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define LINE_BYTES 1024
/* Maximum wait for a full pipe whose reader may be alive. A stuck pipe is waited for once, not per line. */
#define BURST_MS 20

int log_level_now = -1;

static pthread_once_t opened = PTHREAD_ONCE_INIT;
static unsigned wanted_subsystems;
static int log_fd = STDERR_FILENO;
static unsigned lines_lost; /* Number of lost lines. The next line that is written reports it */
static bool is_stuck;       /* True: the log did not accept the last line */

static void open_log(void) {
    const struct config *config = config_process();
    enum log_level level = LOG_NONE;
    log_parse_level(config->debug, &level);
    log_parse_subsystems(config->debug_subsys, &wanted_subsystems);

    const bool has_file = level > LOG_NONE && config->debug_file[0] != '\0';
    const int fd = has_file ? outlet_open(config->debug_file, -1, O_APPEND) : STDERR_FILENO;
    log_fd = fd < 0 ? STDERR_FILENO : fd;
    __atomic_store_n(&log_level_now, (int)level, __ATOMIC_RELEASE);
    if (fd < 0)
        log_write(LOG_WARN, LOG_ENV, "cannot open COLLET_DEBUG_FILE=%s: %s; logging to stderr", config->debug_file,
                  output_why());
}

int log_wanted_slow(enum log_level level, enum log_subsystem subsystem) {
    int saved_errno = errno;
    pthread_once(&opened, open_log);
    errno = saved_errno;
    if ((int)level > log_level_now)
        return 0;
    return level == LOG_WARN || (wanted_subsystems >> subsystem & 1) != 0;
}

void log_write(enum log_level level, enum log_subsystem subsystem, const char *format, ...) {
    static const char *const LEVEL_NAMES[] = {"NONE", "WARN", "INFO", "TRACE"};
    const unsigned lost = __atomic_exchange_n(&lines_lost, 0, __ATOMIC_RELAXED);
    int saved_errno = errno, used = 0;
    char line[2 * LINE_BYTES];
    if (lost > 0)
        used = snprintf(line, LINE_BYTES, "%s:%d:%d collet WARN ENV %u lines were lost, since the log took no more\n",
                        os_host_name(), os_pid(), os_tid(), lost);
    const size_t most = (size_t)used + LINE_BYTES - 1;
    used += snprintf(line + used, LINE_BYTES, "%s:%d:%d collet %s %s ", os_host_name(), os_pid(), os_tid(),
                     LEVEL_NAMES[level], LOG_SUBSYSTEM_NAMES[subsystem]);
    va_list args;
    va_start(args, format);
    errno = saved_errno; /* The format may use %m */
    int wanted = plain_text(line + used, most + 1 - (size_t)used, format, args);
    va_end(args);

    size_t length = (size_t)used + (size_t)(wanted < 0 ? 0 : wanted);
    if (length > most)
        length = most; /* A long text is cut, but keeps its newline */
    line[length++] = '\n';
    const int wait_ms = __atomic_load_n(&is_stuck, __ATOMIC_RELAXED) ? 0 : BURST_MS;
    const bool lost_it = !outlet_add(log_fd, line, length, wait_ms);
    __atomic_store_n(&is_stuck, lost_it, __ATOMIC_RELAXED);
    if (lost_it && /* Perhaps the disk of the log is full */
        (level > LOG_WARN || log_fd == STDERR_FILENO || !outlet_add(STDERR_FILENO, line, length, 0)))
        __atomic_fetch_add(&lines_lost, lost + 1, __ATOMIC_RELAXED);
    errno = saved_errno;
}
