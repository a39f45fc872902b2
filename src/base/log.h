/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines: "host:pid:tid collet LEVEL SUBSYS text". COLLET_DEBUG sets the level, COLLET_DEBUG_SUBSYS the subsystems, and
 * COLLET_DEBUG_FILE the file. Without COLLET_DEBUG nothing is logged. Warnings are logged for every subsystem. A line that is not
 * wanted costs one load and one compare.
 */
#ifndef COLLET_BASE_LOG_H
#define COLLET_BASE_LOG_H

#include "base/log_words.h"

extern int log_level_now; /* -1 until the first line is logged */
int log_wanted_slow(enum log_level level, enum log_subsystem subsystem);
void log_write(enum log_level level, enum log_subsystem subsystem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline int log_wanted(enum log_level level, enum log_subsystem subsystem) {
    int now = __atomic_load_n(&log_level_now, __ATOMIC_RELAXED);
    return (now < 0 || (int)level <= now) && log_wanted_slow(level, subsystem);
}

#define log_at(level, subsystem, ...)                                                                                  \
    do {                                                                                                               \
        if (log_wanted(level, LOG_##subsystem))                                                                        \
            log_write(level, LOG_##subsystem, __VA_ARGS__);                                                            \
    } while (0)

/* Writes a line whatever the level is: for facts that users must know even if they did not ask for a log. */
#define log_always(subsystem, ...)                                                                                     \
    do {                                                                                                               \
        (void)log_wanted_slow(LOG_WARN, LOG_##subsystem); /* Opens the log */                                          \
        log_write(LOG_WARN, LOG_##subsystem, __VA_ARGS__);                                                             \
    } while (0)

#define log_warn(subsystem, ...) log_at(LOG_WARN, subsystem, __VA_ARGS__)
#define log_info(subsystem, ...) log_at(LOG_INFO, subsystem, __VA_ARGS__)
#define log_trace(subsystem, ...) log_at(LOG_TRACE, subsystem, __VA_ARGS__)

#endif
