/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/census.h"

#include "base/memory.h"
#include "base/os.h"
#include "boot/process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CENSUS_NS 1000000000u

void boot_report_by(struct boot *boot, const struct boot_reporter *reporter) {
    process_lock();
    boot->reporter = reporter != NULL ? *reporter : (struct boot_reporter){0};
    process_unlock();
}

/* ---- the asked rank ---- */

struct letter *census_answer(struct hub *hub, const struct letter *question) {
    char report[BOOT_REPORT_BYTES];
    size_t bytes = 0;
    process_lock();
    pthread_mutex_lock(&hub->lock);
    const struct boot *boot = hub->local[question->to];
    if (boot != NULL && boot->reporter.report != NULL)
        bytes = boot->reporter.report(boot->reporter.owner, report);
    pthread_mutex_unlock(&hub->lock);
    process_unlock();
    if (boot == NULL)
        return NULL;
    const uint64_t number = question->key - boot_key(BOOT_CENSUS, 0);
    return letter_create(question->from, question->to, boot_key(BOOT_REPORT, number), report, bytes);
}

/* ---- the asking process ---- */

static void census_end(struct census *census) {
    struct census **link = &census->hub->censuses;
    while (*link != census)
        link = &(*link)->next;
    *link = census->next;
    watch_timer_stop(&census->deadline);
    for (int rank = 0; rank < census->hub->nranks; rank++) {
        struct census_rank *of = &census->ranks[rank];
        of->stopped = !of->answered && of->asked && os_process_stopped(of->pid);
    }
    census->done(census);
    hub_release(census->hub);
    free(census->ranks);
    free(census);
}

void census_end_all(struct hub *hub) {
    while (hub->censuses != NULL)
        census_end(hub->censuses);
}

static void on_deadline(struct watch_timer *timer) { census_end(WATCH_OWNER(timer, struct census, deadline)); }

void census_hear(struct hub *hub, const struct letter *report) {
    struct census *census = hub->censuses;
    const uint64_t number = report->key - boot_key(BOOT_REPORT, 0);
    while (census != NULL && census->number != number)
        census = census->next;
    struct census_rank *of = census != NULL ? &census->ranks[report->from] : NULL;
    if (of != NULL && of->asked && !of->answered && report->bytes <= BOOT_REPORT_BYTES) {
        of->answered = 1;
        of->bytes = report->bytes;
        memcpy(of->report, report->data, report->bytes);
        census->missing--;
    }
    if (of != NULL && census->missing == 0)
        census_end(census);
}

/* Returns the rank in whose name others are asked: the lowest of this process; −1: all have left. */
static int census_fill(struct census *census, bool all) {
    struct hub *hub = census->hub;
    int self = -1;
    SCOPED_LOCK(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++) {
        const struct peer_info *peer = &hub->peers[rank];
        struct census_rank *of = &census->ranks[rank];
        *of = (struct census_rank){
            .rank = rank, .pid = peer->pid, .node = peer->node, .state = (int32_t)hub->states[rank]};
        snprintf(of->host, sizeof of->host, "%s", peer->host);
        of->local = hub->local[rank] != NULL;
        if (of->local && of->pid == 0) { /* it knows itself before it knows others */
            of->pid = os_pid();
            snprintf(of->host, sizeof of->host, "%s", os_host_name());
        }
        of->asked = hub->phase == HUB_READY && of->state == PEER_ALIVE && (all || of->local);
        if (self < 0 && of->local)
            self = rank;
    }
    return self;
}

/* A census ends with its last answer, which may come while the question is asked. Until all are asked, one more is missing. */
static void census_ask(struct census *census, int self) {
    struct hub *hub = census->hub;
    census->missing = 1;
    for (int rank = 0; rank < hub->nranks && self >= 0; rank++) {
        struct letter *question = census->ranks[rank].asked
                                      ? letter_create(rank, self, boot_key(BOOT_CENSUS, census->number), NULL, 0)
                                      : NULL;
        if (question == NULL)
            continue;
        census->missing++;
        hub_send(hub, question);
    }
    if (--census->missing == 0)
        census_end(census);
}

enum collet_result census_begin(struct hub *hub, bool all, void (*done)(struct census *census), void *owner) {
    struct census *census;
    COLLET_TRY(memory_get(&census, 1, sizeof *census, "no memory for a census"));
    census->ranks = calloc((size_t)hub->nranks, sizeof *census->ranks);
    if (census->ranks == NULL) {
        free(census);
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a census of %d ranks", hub->nranks);
    }
    census->hub = hub;
    census->done = done;
    census->owner = owner;
    census->number = ++hub->census_count;
    census->deadline.fire = on_deadline;
    pthread_mutex_lock(&hub->lock);
    hub->references++;
    pthread_mutex_unlock(&hub->lock);
    census->next = hub->censuses;
    hub->censuses = census;
    watch_timer_set(&census->deadline, os_now_ns() + CENSUS_NS);
    census_ask(census, census_fill(census, all));
    return COLLET_SUCCESS;
}
