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

#include "layers/observe/report.h"
#include "layers/observe/status_socket.h"

struct status_rank {
    struct query_rank rank;
    bool has_report;
    struct report report;
    int blocks;                        /* so many ranks wait for it, if only through others (blame.h) … */
    const struct report_call *blocked; /* … in this call, of one of them; NULL: it blocks none */
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

/* The processes of this host that can be asked, as they are numbered here: writes at most `room` of them, and returns how many there are. */
int ask_list(int *pids, int room);

/* Adds the communicators of a process that are not in *jobs yet. False: it does not answer until deadline_ns, or it is of
 * another user, or of another version of collet; *why says which. */
bool ask_process(int pid, uint64_t deadline_ns, struct status_jobs *jobs, const char **why);

#endif
