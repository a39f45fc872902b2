/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks processes what their communicators are doing (layers/observe/status_socket.h).
 *
 *      process asked ── over the control plane ──▶ all ranks         1 s at most
 *            │ some did not answer: questions pass through other processes, and one of those may be stopped
 *            ▼
 *      the processes of this host among them, one by one             what each knows of its own ranks
 */
#ifndef COLLET_LAYERS_TOOLS_STATUS_ASK_H
#define COLLET_LAYERS_TOOLS_STATUS_ASK_H

#include "layers/observe/status.h"
#include "layers/observe/status_socket.h"

struct status_rank {
    struct query_rank rank;
    bool has_status;
    struct status status;
    /* Number of ranks that wait for this rank, directly or through others (blame.h). */
    int blocks;
    /* A call in which one of these ranks waits. NULL: no rank waits for this one. */
    const struct status_call *blocked;
};

/* A communicator. */
struct status_job {
    uint64_t tag;
    int nranks;
    char name[32];
    struct status_rank *ranks; /* [nranks] */
};

struct status_jobs {
    int count, room;
    struct status_job *job;
};
void status_jobs_free(struct status_jobs *jobs);

/* Lists the processes of this host that can be asked, by their numbers in this process's namespace. Writes at most `room` of
 * them. Returns how many there are. */
int ask_list(int *pids, int room);

/* Adds the communicators of a process that are not in *jobs yet. False: the process does not answer until deadline_ns,
 * belongs to another user, or has another version of collet. *why says which. */
bool ask_process(int pid, uint64_t deadline_ns, struct status_jobs *jobs, const char **why);

#endif
