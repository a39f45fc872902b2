/* SPDX-License-Identifier: Apache-2.0
 *
 * Explains failures of system calls: which limit has caused errno, and what to do about it.
 */
#ifndef COLLET_BASE_REMEDY_H
#define COLLET_BASE_REMEDY_H

#include "collet.h"

#include <stdbool.h>

/* A text to append to %m: the limit that caused errno, and what to do about it; "": there is nothing to say. */
const char *os_remedy(void);
#define OS_THREAD_REMEDY "; is there a limit of threads (ulimit -u, pids.max of the cgroup) or of memory (ulimit -v)?"
/* Does errno mean that memory or descriptors are short at the moment? Then the failed call says nothing about what it asked for. */
bool os_is_short(void);
enum collet_result os_memory_code(void); /* The result code for errno, after a failed allocation */

#endif
