/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/status/blame.h"

#include <stdio.h>

#define WAITING_NS 500000000u

/* A call in which a rank has not moved for half a second. NULL: there is none. */
static const struct status_call *waits_in(const struct status_rank *rank) {
    for (int k = 0; rank->has_status && k < rank->status.ncalls && k < STATUS_CALLS; k++)
        if (rank->status.call[k].idle_ns > WAITING_NS && rank->status.call[k].waits_for >= 0)
            return &rank->status.call[k];
    return NULL;
}

/* The rank at the end of the chain that begins at a rank. *call is the last call of the chain that waits. −1: the chain
 * comes back to a rank that it has passed. */
static int end_of_chain(const struct status_job *job, int rank, const struct status_call **call) {
    const struct status_call *next;
    for (int links = 0; (next = waits_in(&job->ranks[rank])) != NULL; links++) {
        if (links > job->nranks || next->waits_for >= job->nranks)
            return -1;
        *call = next;
        rank = next->waits_for;
    }
    return rank;
}

static void describe_end(const struct status_rank *r, char *text, size_t room) {
    const struct status_call *call = r->blocked;
    const char *what = prog_collective_name((enum prog_collective)call->facts.collective);
    const bool message = prog_is_p2p((enum prog_collective)call->facts.collective);
    if (r->rank.state != PEER_ALIVE)
        snprintf(text, room, "%s",
                 r->rank.state == PEER_LEFT    ? "has left the communicator"
                 : r->rank.state == PEER_ENDED ? "has ended without collet_comm_destroy()"
                                               : "has died or is out of reach");
    else if (r->rank.stopped)
        snprintf(text, room, "is stopped, by a signal or a debugger");
    else if (!r->has_status)
        snprintf(text, room, "does not answer");
    else if (!message && r->status.calls < call->facts.sequence)
        snprintf(text, room, "has not made call %llu, %s (its last is call %llu)",
                 (unsigned long long)call->facts.sequence, what, (unsigned long long)r->status.calls);
    else if (r->status.ncalls == 0)
        snprintf(text, room, "waits in no call");
    else
        snprintf(text, room, "is at work");
}

int blame_find(struct status_job *job) {
    int found = 0;
    for (int rank = 0; rank < job->nranks; rank++) {
        job->ranks[rank].blocks = 0;
        job->ranks[rank].blocked = NULL;
    }
    for (int rank = 0; rank < job->nranks; rank++) {
        const struct status_call *call = NULL;
        const int end = end_of_chain(job, rank, &call);
        if (end < 0 || call == NULL)
            continue;
        job->ranks[end].blocked = call;
        found += job->ranks[end].blocks++ == 0;
    }
    return found;
}

void blame_describe(const struct status_rank *rank, char *text, size_t room) {
    char end[160];
    describe_end(rank, end, sizeof(end));
    snprintf(text, room, "rank %d (host %s, process %d), which %s; ranks that wait for it: %d", rank->rank.rank,
             rank->rank.host, rank->rank.pid, end, rank->blocks);
}
