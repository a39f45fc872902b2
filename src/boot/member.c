/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process does for all its ranks of a communicator together:
 *
 *    GATHERS   dial the meeting point, prove the secret, announce each rank as it comes    until it says that all have come
 *    LINKS     connect to the neighbours in the tree; try whose memory can be shared       until all have
 *    READY     letters, news and heartbeats, without the meeting point                     until all ranks have left
 *
 * All that other threads want (a new rank, a letter, a failure, a goodbye) they put into the hub, and post the work task,
 * which looks at everything there is to do.
 *
 * Read next: join.c for the first two phases, tree.c for the third.
 */
#include "boot/member.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "boot/join.h"
#include "seams/layer.h"

#include <stdio.h>
#include <stdlib.h>

#define ASK_NS 500000000ull /* time before a warning or deadline at which it asks the meeting point who is missing */
#define ANSWER_NS 3000000000ull /* maximum wait for the answer: a process may be busy, or was stopped */
#define LOOK_NS 20000000ull     /* time until it looks for the answer again */

struct member {
    struct hub *hub;
    struct watch_task work;
    struct join join;
    struct tree tree;
    struct watch_timer timer; /* for the warning and the deadlines of init */
    struct late late;         /* init's own wait */
    char believed[128];
    uint64_t asked_for_ns; /* time of the warning or deadline for which it has asked */
    uint64_t asked_ns;     /* time of the question */
    bool started, failure_told;
};

/* ------------------------------------------------------------------------------------------------- warning and deadline */

/* The earliest deadline of this process's ranks; 0: none. */
static uint64_t first_deadline(struct hub *hub, int *timeout_s) {
    uint64_t first_ns = 0;
    SCOPED_LOCK(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++) {
        const struct boot *boot = hub->local[rank];
        if (boot != NULL && boot->rejected == COLLET_SUCCESS && (first_ns == 0 || boot->deadline_ns < first_ns)) {
            first_ns = boot->deadline_ns;
            *timeout_s = (int)boot->own_config.init_timeout;
        }
    }
    return first_ns;
}

/* Has the deadline passed, and is everything known about the missing ranks that can be known? */
static bool time_is_up(const struct member *member, uint64_t deadline_ns, uint64_t now_ns) {
    if (now_ns < deadline_ns)
        return false;
    if (!join_expects_news(&member->join))
        return true;
    return member->asked_for_ns == deadline_ns && now_ns >= member->asked_ns + ANSWER_NS;
}

/* Checks whether init takes too long. Sets the time of the next check. */
static void check_time(struct member *member) {
    const uint64_t now_ns = os_now_ns();
    char waiting[320], text[ERR_TEXT_BYTES];
    int timeout_s = 0;
    uint64_t deadline_ns = first_deadline(member->hub, &timeout_s);
    if (deadline_ns == 0 || member->hub->phase == HUB_READY || hub_failed(member->hub) != COLLET_SUCCESS) {
        watch_timer_stop(&member->timer);
        return;
    }
    join_waiting_text(&member->join, waiting, sizeof waiting);
    if (time_is_up(member, deadline_ns, now_ns)) {
        snprintf(text, sizeof text, "init took longer than %d s (COLLET_INIT_TIMEOUT): %s (%s)", timeout_s, waiting,
                 member->believed);
        log_warn(BOOT, "%s", text);
        hub_fail(member->hub, COLLET_ERR_TIMEOUT, -1, text);
        watch_post(&member->work);
        return;
    }
    if (late_look(&member->late))
        log_always(BOOT, "init %s: %s (%s)", late_text(&member->late), waiting, member->believed);
    const uint64_t due_ns = member->late.due_ns < deadline_ns ? member->late.due_ns : deadline_ns;
    const bool asks = member->asked_for_ns != due_ns && now_ns + ASK_NS >= due_ns;
    if (asks) {
        join_ask(&member->join);
        member->asked_for_ns = due_ns;
        member->asked_ns = now_ns;
    }
    const uint64_t next_ns = member->asked_for_ns == due_ns ? due_ns : due_ns - ASK_NS;
    watch_timer_set(&member->timer, next_ns > now_ns ? next_ns : now_ns + LOOK_NS);
}

static void on_init_timer(struct watch_timer *timer) { check_time(WATCH_OWNER(timer, struct member, timer)); }

/* ----------------------------------------------------------------------------------------------------------- the work */

static void start_once(struct member *member) {
    if (member->started)
        return;
    member->started = true;
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->hub_begin != NULL)
            layers[k]->hub_begin(member->hub);
    join_start(&member->join);
}

static void tell_failure(struct member *member) {
    struct failure failure = {.code = hub_failed(member->hub)};
    if (failure.code == COLLET_SUCCESS || member->failure_told)
        return;
    failure.rank = member->hub->failed_rank;
    member->failure_told = true;
    snprintf(failure.text, sizeof failure.text, "%s", member->hub->failed_text);
    join_fail(&member->join, &failure);
    tree_spread_failure(&member->tree);
}

static void send_letters(struct member *member) {
    struct hub *hub = member->hub;
    for (;;) {
        pthread_mutex_lock(&hub->lock);
        struct letter *letter = letter_take(&hub->outbox);
        pthread_mutex_unlock(&hub->lock);
        if (letter == NULL)
            return;
        if (hub->phase == HUB_READY)
            tree_post(&member->tree, letter);
        else
            letter_free(letter);
    }
}

/* May this side end? Only if no rank of this process is left, and no other process needs it to route. After a failure, others may still
 * have to agree on who lives. While no parent is connected, a goodbye may have been lost. */
static bool is_over(const struct member *member) {
    struct hub *hub = member->hub;
    const bool heard = tree_is_heard(&member->tree);
    SCOPED_LOCK(&hub->lock);
    return hub->nlocal == 0 && (hub->phase != HUB_READY || (hub->missing_count == hub->nranks && heard));
}

static void member_destroy(struct member *member) {
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->hub_end != NULL)
            layers[k]->hub_end(member->hub);
    join_stop(&member->join);
    tree_close(&member->tree);
    watch_timer_stop(&member->timer);
    hub_release(member->hub);
    free(member);
}

static void work(struct watch_task *task) {
    struct member *member = WATCH_OWNER(task, struct member, work);
    struct hub *hub = member->hub;
    pthread_mutex_lock(&hub->lock);
    uint64_t flushes_wanted = hub->flushes_wanted;
    pthread_mutex_unlock(&hub->lock);

    start_once(member);
    join_continue(&member->join);
    tell_failure(member);
    send_letters(member);
    check_time(member);

    pthread_mutex_lock(&hub->lock);
    hub->flushes_done = flushes_wanted;
    pthread_cond_broadcast(&hub->flushed);
    pthread_mutex_unlock(&hub->lock);

    if (!is_over(member))
        return;
    hub_unlist(hub); /* before it decides to end: now no rank can come any more */
    if (is_over(member) && !watch_task_queued(task))
        member_destroy(member);
}

/* --------------------------------------------------------------------------------------------------------------- life */

/* The configuration of the rank for which the hub was made. */
static const struct config *config_of_first(const struct hub *hub) {
    int rank = 0;
    while (hub->local[rank] == NULL)
        rank++;
    return &hub->local[rank]->own_config;
}

enum collet_result member_create(struct hub *hub) {
    const struct config *config = config_of_first(hub);
    int family;
    COLLET_TRY(address_family(config->socket_family, &family));
    struct member *member;
    COLLET_TRY(memory_get(&member, 1, sizeof *member, "no memory for a communicator"));
    struct address_set *listener = &member->join.listener;
    enum collet_result result = tree_open(&member->tree, hub, family, config->socket_ifname);
    if (result == COLLET_SUCCESS)
        result = address_local(config->socket_ifname, member->tree.door.v6 ? family : AF_INET, "", listener);
    if (result != COLLET_SUCCESS) {
        door_close(&member->tree.door);
        free(member);
        return result;
    }
    address_log_down(config->socket_ifname);
    late_begin(&member->late, os_now_ns(), config->warn_after);
    snprintf(member->believed, sizeof member->believed, "%.80s%s%.24s", config->believed,
             hub->id.listed && config->comm_id[0] ? ", COLLET_COMM_ID=" : "", hub->id.listed ? config->comm_id : "");
    listener->port = (uint16_t)member->tree.door.port;
    member->hub = member->join.hub = hub;
    member->join.tree = &member->tree;
    member->timer.fire = on_init_timer;
    watch_task_init(&member->work, hub->watch, work);
    hub->work = &member->work;
    hub->references++;
    return COLLET_SUCCESS;
}
