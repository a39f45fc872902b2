/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that a process has started. A user who looks at a job often knows another process than its ranks: the launcher, the parent
 * of --procs, or a container's first process. The ranks are among the processes that this one has started.
 *
 *      mpirun 100 ──▶ sh 101 ──▶ rank 0, 103        a family: 100, 101, 102, 103
 *             └─────▶ rank 1, 102
 */
#ifndef COLLET_LAYERS_TOOLS_STATUS_FAMILY_H
#define COLLET_LAYERS_TOOLS_STATUS_FAMILY_H

#include <stdbool.h>

/* Lists a process and all that it has started, directly or through others, if their chain of parents still exists. Writes at
 * most `room` of them. Returns how many were written. 0: there is no such process. */
int family_of(int pid, int *pids, int room);

/* Enters the network namespace of a process, because a container may have its own. Unix sockets are then looked for there.
 * Without the rights of root nothing changes. */
void family_enter_network(int pid);

/* Says why none of these processes tells of a communicator. */
const char *family_why_silent(const int *pids, int count);

#endif
