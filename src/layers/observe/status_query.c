/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/status_query.h"

#include "base/memory.h"
#include "base/os.h"
#include "boot/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUERY_NS 1000000000u

static void status_query_end(struct status_query *query) {
    struct status_query **link = &query->hub->queries;
    while (*link != query)
        link = &(*link)->next;
    *link = query->next;
    watch_timer_stop(&query->deadline);
    for (int rank = 0; rank < query->hub->nranks; rank++) {
        struct query_rank *of = &query->ranks[rank];
        of->stopped = !of->answered && of->asked && os_process_is(of->pid, OS_STOPPED);
    }
    query->done(query);
    hub_release(query->hub);
    free(query->ranks);
    free(query);
}

void status_query_end_all(struct hub *hub) {
    while (hub->queries != NULL)
        status_query_end(hub->queries);
}

static void on_deadline(struct watch_timer *timer) {
    status_query_end(WATCH_OWNER(timer, struct status_query, deadline));
}

void status_query_hear(struct hub *hub, const struct letter *report) {
    struct status_query *query = hub->queries;
    struct status_answer answer;
    if (!status_read_answer(report->data, report->bytes, &answer))
        return;
    while (query != NULL && query->number != answer.question)
        query = query->next;
    struct query_rank *of = query != NULL ? &query->ranks[report->from] : NULL;
    if (of != NULL && of->asked && !of->answered) {
        of->answered = 1;
        of->bytes = answer.bytes;
        of->status = answer.status;
        query->missing--;
    }
    if (of != NULL && query->missing == 0)
        status_query_end(query);
}

/* Returns the lowest rank of this process: it asks the others. −1: all ranks of this process have left. */
static int status_query_fill(struct status_query *query, bool all) {
    struct hub *hub = query->hub;
    int self = -1;
    SCOPED_LOCK(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++) {
        const struct peer_info *peer = &hub->peers[rank];
        struct query_rank *of = &query->ranks[rank];
        *of = (struct query_rank){
            .rank = rank, .pid = peer->pid, .node = peer->node, .state = (int32_t)hub->states[rank]};
        snprintf(of->host, sizeof of->host, "%s", peer->host);
        of->local = hub->local[rank] != NULL;
        if (of->local && of->pid == 0) { /* even before the ranks know each other, a process knows itself */
            of->pid = os_pid();
            snprintf(of->host, sizeof of->host, "%s", os_host_name());
        }
        of->asked = hub->phase == HUB_READY && of->state == PEER_ALIVE && (all || of->local);
        if (self < 0 && of->local)
            self = rank;
    }
    return self;
}

/* A status query ends with its last answer, which may come while questions are being sent. Until all questions are sent,
 * `missing` is one too high. */
static void status_query_ask(struct status_query *query, int self) {
    struct hub *hub = query->hub;
    query->missing = 1;
    for (int rank = 0; rank < hub->nranks && self >= 0; rank++) {
        struct letter *question =
            query->ranks[rank].asked ? status_question(rank, self, STATUS_OUTSIDE, query->number) : NULL;
        if (question == NULL)
            continue;
        query->missing++;
        hub_send(hub, question);
    }
    if (--query->missing == 0)
        status_query_end(query);
}

enum collet_result status_query_begin(struct hub *hub, bool all, void (*done)(struct status_query *query),
                                      void *owner) {
    struct status_query *query;
    COLLET_TRY(memory_get(&query, 1, sizeof *query, "no memory for a status query"));
    query->ranks = calloc((size_t)hub->nranks, sizeof *query->ranks);
    if (query->ranks == NULL) {
        free(query);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a status query of %d ranks", hub->nranks);
    }
    query->hub = hub;
    query->done = done;
    query->owner = owner;
    query->number = ++hub->status_query_count;
    query->deadline.fire = on_deadline;
    pthread_mutex_lock(&hub->lock);
    hub->references++;
    pthread_mutex_unlock(&hub->lock);
    query->next = hub->queries;
    hub->queries = query;
    watch_timer_set(&query->deadline, os_now_ns() + QUERY_NS);
    status_query_ask(query, status_query_fill(query, all));
    return COLLET_SUCCESS;
}
