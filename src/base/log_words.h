/* SPDX-License-Identifier: Apache-2.0
 *
 * The levels and subsystems of the log, and their names in COLLET_DEBUG and COLLET_DEBUG_SUBSYS.
 */
#ifndef COLLET_BASE_LOG_WORDS_H
#define COLLET_BASE_LOG_WORDS_H

#include <stdbool.h>

enum log_level { LOG_NONE = 0, LOG_WARN = 1, LOG_INFO = 2, LOG_TRACE = 3 };

/* X(identifier, name in COLLET_DEBUG_SUBSYS and in lines) */
#define LOG_SUBSYSTEMS(X)                                                                                              \
    X(INIT)  /* Communicators that begin and end */                                                                    \
    X(BOOT)  /* Rendezvous, control plane, dead ranks */                                                               \
    X(ENV)   /* Environment variables that are set, or misspelled */                                                   \
    X(GRAPH) /* Machine, rings, trees */                                                                               \
    X(PLAN)  /* The plan of a call, and the reasons for it */                                                          \
    X(CONN)  /* Connections: their transports, and the reasons */                                                      \
    X(NET)   /* Sockets, RDMA */                                                                                       \
    X(COLL)  /* Every call, at TRACE */                                                                                \
    X(ERR)   /* Failures, with the text of collet_last_error() */

enum log_subsystem {
#define X(name) LOG_##name,
    LOG_SUBSYSTEMS(X)
#undef X
        LOG_SUBSYSTEM_COUNT
};

extern const char *const LOG_SUBSYSTEM_NAMES[LOG_SUBSYSTEM_COUNT];

/* These parse values of COLLET_DEBUG and COLLET_DEBUG_SUBSYS. False: there is no such level or subsystem. */
bool log_parse_level(const char *text, enum log_level *level);
bool log_parse_subsystems(const char *text, unsigned *bits);

#endif
