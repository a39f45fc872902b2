/* SPDX-License-Identifier: Apache-2.0
 *
 * What a failure of the system means: which limit is behind errno, and what to do about it.
 */
#ifndef COLLET_BASE_REMEDY_H
#define COLLET_BASE_REMEDY_H

#include "collet.h"

#include <stdbool.h>

/* The setting that caused errno, and what to do about it, as text to append to %m; "": nothing to say. */
const char *os_remedy(void);
#define OS_THREAD_REMEDY "; is there a limit of threads (ulimit -u, pids.max of the cgroup) or of memory (ulimit -v)?"
/* Does errno mean that memory or descriptors are short at the moment? Then the question itself has no answer. */
bool os_is_short(void);
enum collet_result os_memory_code(void); /* the code for errno, after an allocation */

#endif
