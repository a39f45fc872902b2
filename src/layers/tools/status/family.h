/* SPDX-License-Identifier: Apache-2.0
 *
 * Whoever looks at a job often knows another process than its ranks: the launcher, the parent of --procs, a container's first
 * process. The ranks are among those that it has started.
 *
 *      mpirun 100 ──▶ sh 101 ──▶ rank 0, 103        a family: 100, 101, 102, 103
 *             └─────▶ rank 1, 102
 */
#ifndef COLLET_LAYERS_TOOLS_STATUS_FAMILY_H
#define COLLET_LAYERS_TOOLS_STATUS_FAMILY_H

#include <stdbool.h>

/* The process and all that it has started, directly or through others, as far as they still have a parent among these. Writes at most
 * `room` of them and returns how many; 0: there is no such process. */
int family_of(int pid, int *pids, int room);

/* From now on Unix sockets are looked for where this process has its network: a container may have one of its own. Takes the rights of
 * root; without them nothing changes. */
void family_enter_network(int pid);

/* Why none of these processes tells of a communicator. */
const char *family_why_silent(const int *pids, int count);

#endif
