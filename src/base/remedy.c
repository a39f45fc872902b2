/* SPDX-License-Identifier: Apache-2.0 */
#include "base/remedy.h"

#include "base/config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

const char *os_remedy(void) {
    static _Thread_local char text[CONFIG_TEXT_BYTES + 112];
    const int error = errno;
    const char *range = config_process()->port_range;
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    if (error == EMFILE || error == ENOMEM)
        getrlimit(error == EMFILE ? RLIMIT_NOFILE : RLIMIT_AS, &limit);
    snprintf(text, sizeof text, "%s", error == ENOMEM ? "; does its container have enough memory (memory.max)?" : "");
    if (limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, sizeof text, "; this process may have %llu %s: raise the limit (ulimit -%c)",
                 (unsigned long long)limit.rlim_cur, error == EMFILE ? "file descriptors" : "bytes",
                 error == EMFILE ? 'n' : 'v');
    if (error == EADDRINUSE)
        snprintf(text, sizeof text,
                 "; no port of %s%s is free, and each process and each connection takes one: widen it",
                 range[0] ? "COLLET_PORT_RANGE=" : "net.ipv4.ip_local_port_range", range);
    errno = error;
    return text;
}

static bool is_short_of_memory(void) { return errno == ENOMEM || errno == ENOSPC; }

bool os_is_short(void) { return is_short_of_memory() || errno == EMFILE || errno == ENFILE; }

enum collet_result os_memory_code(void) { return is_short_of_memory() ? COLLET_ERR_NO_MEMORY : COLLET_ERR_SYSTEM; }
