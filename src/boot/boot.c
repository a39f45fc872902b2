/* SPDX-License-Identifier: Apache-2.0
 *
 * The control plane as a rank sees it. Everything here looks at the hub or changes it, and wakes the watch where others
 * have to hear of it.
 *
 *    init          boot_join ─▶ hub ─▶ watch: member.c ─▶ meeting point (rendezvous.c), tree.c
 *    messages      boot_send ─▶ mailbox of a rank here, or outbox ─▶ watch ─▶ link.c ─▶ mailbox ─▶ boot_try_recv
 *
 * Read next: hub.h, then member.c.
 */
#include "boot/boot.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "boot/edge.h"
#include "boot/hub.h"
#include "boot/member.h"
#include "boot/process.h"
#include "boot/rendezvous.h"
#include "boot/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXCUSE_NS 1000000000ull

/* --------------------------------------------------------------------------------------------------------------- init */

enum collet_result boot_unique_id_fresh(bool one_process, struct collet_unique_id *unique_id) {
    SCOPED_ID struct id id = {.listed = false};
    if (one_process)
        os_random(id.secret, SECRET_BYTES);
    else
        COLLET_TRY(rendezvous_open(&id));
    id_pack(&id, unique_id);
    return COLLET_SUCCESS;
}

enum collet_result boot_unique_id(struct collet_unique_id *unique_id) {
    const struct config *config = config_process();
    char host[ADDRESS_HOST_BYTES];
    int port;
    if (config->comm_id[0] == '\0')
        return boot_unique_id_fresh(false, unique_id);
    COLLET_TRY(address_parse("COLLET_COMM_ID", config->comm_id, host, &port));
    return boot_unique_id_at(host, port, config->secret, unique_id);
}

enum collet_result boot_check_id(const struct collet_unique_id *unique_id) {
    SCOPED_ID struct id id;
    return id_unpack(unique_id, &id);
}

static void give_notice(const struct collet_unique_id *unique_id, int rank, enum collet_result code, const char *text,
                        uint64_t patience_ns) {
    SCOPED_ID struct id id;
    struct failure failure = {.code = code, .rank = rank};
    snprintf(failure.text, sizeof failure.text, "%s", text);
    if (id_unpack(unique_id, &id) == COLLET_SUCCESS)
        abort_notice_send(&id, &failure, patience_ns);
}

void boot_cancel_id(const struct collet_unique_id *unique_id, enum collet_result code, const char *text) {
    SCOPED_ID struct id id;
    if (id_unpack(unique_id, &id) == COLLET_SUCCESS && !id.listed) /* rank 0 opens that of a listed id, when it joins */
        give_notice(unique_id, -1, code, text, 0);
}

void boot_excuse(const struct collet_unique_id *unique_id, int rank, enum collet_result code) {
    char text[ERR_TEXT_BYTES];
    if (code == COLLET_ERR_INVALID_ARGUMENT) /* the rank may still come, with other arguments */
        return;
    snprintf(text, sizeof text, "%s", err_last());
    give_notice(unique_id, rank, code, text, EXCUSE_NS);
    err_adopt(code, text);
}

enum collet_result boot_check_ranks(int nranks, int rank) {
    if (nranks < 1 || nranks > BOOT_RANKS_MAX)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "nranks is %d: 1 … %d; pass how many ranks the communicator is to have", nranks, BOOT_RANKS_MAX);
    if (rank < 0 || rank >= nranks)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "rank is %d: 0 … %d for nranks = %d", rank, nranks - 1, nranks);
    return COLLET_SUCCESS;
}

/* Have all ranks come, if there is no meeting point? They share memory, unless COLLET_HOSTID says otherwise. */
static bool complete_here(struct hub *hub) {
    for (int rank = 0; rank < hub->nranks; rank++)
        if (hub->local[rank] == NULL || hub->peers[rank].pid == 0)
            return false;
    for (int rank = 0; rank < hub->nranks; rank++) {
        const char *hostid = hub->local[rank]->own_config.hostid;
        int lowest = 0;
        while (strcmp(hub->local[lowest]->own_config.hostid, hostid) != 0)
            lowest++;
        hub->peers[rank].node = lowest;
    }
    hub->agreed = hub->local[0]->own_config;
    hub->phase = HUB_READY;
    return true;
}

static enum collet_result join_here(const struct id *id, int nranks, int rank, const struct boot_self *self,
                                    struct config *config, struct boot **boot_p) {
    struct card card;
    card_fill(&card, nranks, rank, self, config);
    COLLET_TRY(hub_join(id, nranks, rank, self, config, NULL, NULL, boot_p));
    struct hub *hub = (*boot_p)->hub;
    pthread_mutex_lock(&hub->lock);
    hub_set_peer(hub, &card);
    bool complete = complete_here(hub);
    pthread_mutex_unlock(&hub->lock);
    if (complete)
        hub_unlist(hub);
    return COLLET_SUCCESS;
}

enum collet_result boot_join(const struct collet_unique_id *unique_id, int nranks, int rank,
                             const struct boot_self *self, struct config *config, struct boot **boot_p) {
    SCOPED_ID struct id id;
    struct watch *watch;
    struct boot *boot;
    COLLET_TRY(boot_check_ranks(nranks, rank));
    COLLET_TRY(id_unpack(unique_id, &id));
    if (id.set.count == 0)
        return join_here(&id, nranks, rank, self, config, boot_p);
    COLLET_TRY(watch_start(&watch));
    COLLET_TRY(hub_join(&id, nranks, rank, self, config, watch, member_create, &boot));
    if (id.listed && rank == 0) {
        enum collet_result result = rendezvous_open(&id);
        if (result != COLLET_SUCCESS) {
            hub_remove(boot);
            return result;
        }
    }
    watch_post(boot->hub->work);
    *boot_p = boot;
    return COLLET_SUCCESS;
}

/* Checks the deadline here. If a watch serves the hub, the watch checks it. */
static enum collet_result check_time_here(struct boot *boot) {
    struct hub *hub = boot->hub;
    char missing[160], text[ERR_TEXT_BYTES];
    SCOPED_FREE uint8_t *have = NULL;
    if (hub->watch != NULL || os_now_ns() < boot->deadline_ns)
        return COLLET_IN_PROGRESS;
    COLLET_TRY(memory_get(&have, (size_t)hub->nranks, 1, "no memory to name missing ranks"));
    pthread_mutex_lock(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++)
        have[rank] = hub->local[rank] != NULL;
    pthread_mutex_unlock(&hub->lock);
    ranks_text(have, hub->nranks, missing, sizeof missing);
    snprintf(text, sizeof text,
             "init took longer than %d s (COLLET_INIT_TIMEOUT): of %d ranks of this process these have not come: %s",
             (int)boot->own_config.init_timeout, hub->nranks, missing);
    boot_fail(boot, COLLET_ERR_TIMEOUT, text);
    return boot_check(boot);
}

enum collet_result boot_try_init(struct boot *boot) {
    struct hub *hub = boot->hub;
    pthread_mutex_lock(&hub->lock);
    enum collet_result rejected = boot->rejected;
    enum hub_phase phase = hub->phase;
    pthread_mutex_unlock(&hub->lock);
    if (rejected != COLLET_SUCCESS)
        return err_adopt(rejected, boot->rejected_text);
    COLLET_TRY(boot_check(boot));
    if (phase != HUB_READY)
        return check_time_here(boot);
    if (!boot->adopted)
        config_adopt(boot->config, &hub->agreed);
    boot->adopted = true;
    return COLLET_SUCCESS;
}

const struct peer_info *boot_peers(const struct boot *boot) { return boot->hub->peers; }

/* ----------------------------------------------------------------------------------------------------------- messages */

enum collet_result boot_send(struct boot *boot, int to, uint64_t key, const void *data, size_t bytes) {
    struct hub *hub = boot->hub;
    if (to < 0 || to >= hub->nranks || bytes > BOOT_MESSAGE_BYTES)
        return err_set(COLLET_ERR_INTERNAL, "a control message of %zu bytes to rank %d of %d", bytes, to, hub->nranks);
    COLLET_TRY(boot_check(boot));
    struct letter *letter = letter_create(to, boot->rank, key, data, bytes);
    if (letter == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a control message to rank %d", to);
    hub_send(hub, letter);
    return COLLET_SUCCESS;
}

enum collet_result boot_try_recv(struct boot *boot, int from, uint64_t key, void *data, size_t room, size_t *bytes) {
    SCOPED_LETTER struct letter *letter = hub_collect(boot, from, key);
    if (letter == NULL)
        return COLLET_IN_PROGRESS;
    if (letter->bytes > room)
        return err_set(COLLET_ERR_INTERNAL, "a control message of rank %d has %u bytes, expected at most %zu", from,
                       letter->bytes, room);
    memcpy(data, letter->data, letter->bytes);
    *bytes = letter->bytes;
    return COLLET_SUCCESS;
}

/* ------------------------------------------------------------------------------------------------------------ failures */

enum collet_result boot_failed(const struct boot *boot) { return hub_failed(boot->hub); }

const char *boot_failed_text(const struct boot *boot) {
    return hub_failed(boot->hub) != COLLET_SUCCESS ? boot->hub->failed_text : "";
}

enum collet_result boot_check(const struct boot *boot) {
    const struct hub *hub = boot->hub;
    enum collet_result failed = hub_failed(hub);
    char text[ERR_TEXT_BYTES];
    if (failed == COLLET_SUCCESS)
        return COLLET_SUCCESS;
    if (hub->failed_rank < 0 || hub->failed_rank == boot->rank)
        return err_adopt(failed, hub->failed_text);
    snprintf(text, sizeof text, "learnt from rank %d: %.480s", hub->failed_rank, hub->failed_text);
    return err_adopt(failed, text);
}

/* Waits until the watch has given the news to the kernel, usually for microseconds. The process may be about to exit. Without
 * the news, others would take it for dead, and would not hear why. */
static void await_flush(struct hub *hub, uint64_t limit_ns) {
    struct timespec until;
    if (hub->work == NULL)
        return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)limit_ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    SCOPED_LOCK(&hub->lock);
    uint64_t flush = ++hub->flushes_wanted;
    watch_post(hub->work);
    while (hub->flushes_done < flush && pthread_cond_timedwait(&hub->flushed, &hub->lock, &until) != ETIMEDOUT)
        ;
}

void boot_fail(struct boot *boot, enum collet_result code, const char *text) {
    struct hub *hub = boot->hub;
    pthread_mutex_lock(&hub->lock);
    bool outsider = boot->rejected != COLLET_SUCCESS; /* a rejected rank may not make the others fail */
    pthread_mutex_unlock(&hub->lock);
    if (!outsider && hub_fail(hub, code, boot->rank, text))
        await_flush(hub, BOOT_TELL_NS);
}

void boot_derive_key(const struct boot *boot, const char *what, const void *whom, size_t whom_bytes,
                     uint8_t key[BOOT_KEY_BYTES]) {
    _Static_assert(BOOT_KEY_BYTES == SECRET_BYTES, "what id_key() makes");
    id_key(boot->hub->secret, what, whom, whom_bytes, key);
}

uint64_t boot_tag(const struct boot *boot) { return hub_tag(boot->hub); }

enum peer_state boot_peer_state(const struct boot *boot, int rank, uint64_t *since_ns) {
    return hub_state(boot->hub, rank, since_ns);
}

const char *boot_fate(const struct boot *boot, int rank) {
    static const char *const fates[] = {"is alive", "left the communicator (it was destroyed there)",
                                        "died (its process was killed, or ended without exit())",
                                        "ended (its process called exit() without collet_comm_destroy())",
                                        "is out of reach (it, its host, or the network to it does not answer)"};
    static _Thread_local char text[128];
    SCOPED_LOCK(&boot->hub->lock);
    const uint64_t calls = boot->hub->last_calls[rank];
    const int used = snprintf(text, sizeof text, "%s", fates[boot->hub->states[rank]]);
    if (calls > 0)
        snprintf(text + used, sizeof text - (size_t)used, " after its call %llu", (unsigned long long)calls);
    return text;
}

uint64_t boot_grace_ns(bool far) { return far ? 1000000000u : 100000000u; }

enum peer_state boot_peer_settled(const struct boot *boot, int rank, bool far) {
    uint64_t since_ns;
    enum peer_state state = boot_missing_count(boot) > 0 ? hub_state(boot->hub, rank, &since_ns) : PEER_ALIVE;
    bool early = state != PEER_ALIVE && os_now_ns() - since_ns < boot_grace_ns(far);
    return early ? PEER_ALIVE : state;
}

bool boot_has_ended_here(const struct boot *boot, int rank) {
    const struct peer_info *peers = boot_peers(boot);
    return peers[rank].node == peers[boot->rank].node && edge_process_ended(peers[rank].pid);
}

/* The text of a timeout. A rank that died is the cause, whichever rank is waited for: that rank may wait for the dead one. But a
 * stopped rank waits for nobody, and others end when their time is up, too. */
static enum collet_result err_time_is_up(const struct boot *boot, int rank, const char *what) {
    char name[HUB_NAME_BYTES];
    const struct peer_info *peers = boot_peers(boot);
    const bool stopped = peers[rank].node == peers[boot->rank].node && os_process_is(peers[rank].pid, OS_STOPPED);
    int dead = stopped ? -1 : boot->hub->nranks - 1;
    while (dead >= 0 && (boot_peer_state(boot, dead, NULL) == PEER_LEFT || !boot_has_ended_here(boot, dead)))
        dead--;
    hub_name_rank(boot->hub, dead >= 0 ? dead : rank, name);
    if (dead >= 0)
        return err_set(COLLET_ERR_REMOTE, "%s died, and rank %d had yet to %s", name, rank, what);
    return err_set(COLLET_ERR_TIMEOUT, "waited %d s (COLLET_INIT_TIMEOUT) for %s%s to %s",
                   (int)boot->own_config.init_timeout, name, stopped ? ", which is stopped," : "", what);
}

enum collet_result boot_check_wait(struct boot *boot, struct late *late, int rank, uint64_t deadline_ns,
                                   const char *what) {
    char name[HUB_NAME_BYTES];
    late = late != NULL ? late : &boot->late;
    if (late->since_ns == 0)
        late_begin(late, os_now_ns(), boot->own_config.warn_after);
    COLLET_TRY(boot_check(boot));
    int gone = boot_missing_count(boot) > 0 ? boot_first_gone(boot) : -1;
    gone = boot_peer_state(boot, rank, NULL) != PEER_ALIVE ? rank : gone;
    hub_name_rank(boot->hub, gone >= 0 ? gone : rank, name);
    if (gone >= 0 && boot_peer_settled(boot, gone, true) != PEER_ALIVE)
        return err_set(COLLET_ERR_REMOTE,
                       gone == rank ? "%s %s. It was to %s" : "%s %s. A rank that lives has yet to %s", name,
                       boot_fate(boot, gone), what);
    if (gone < 0 && os_now_ns() > deadline_ns) /* a death is a better answer than a timeout */
        return err_time_is_up(boot, rank, what);
    if (late_look(late))
        log_always(BOOT, "rank %d %s: for %s to %s", boot->rank, late_text(late), name, what);
    return COLLET_IN_PROGRESS;
}

enum collet_result boot_explain(enum collet_result result, enum collet_result (*look)(const void *whom),
                                const void *whom) {
    char text[ERR_TEXT_BYTES];
    const uint64_t deadline_ns = os_now_ns() + BOOT_NEWS_WAIT_NS;
    if (result != COLLET_ERR_REMOTE && result != COLLET_ERR_SYSTEM)
        return result;
    snprintf(text, sizeof(text), "%s", err_last());
    while (os_now_ns() < deadline_ns) {
        enum collet_result news = look(whom);
        if (news < 0)
            return news;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return err_adopt(result, text);
}

int boot_first_gone(const struct boot *boot) {
    const struct hub *hub = boot->hub;
    int first = -1;
    SCOPED_LOCK(&boot->hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++)
        if (peer_is_gone(hub->states[rank]) && (first < 0 || hub->since_ns[rank] < hub->since_ns[first]))
            first = rank;
    return first;
}

int boot_missing_count(const struct boot *boot) { return __atomic_load_n(&boot->hub->missing_count, __ATOMIC_ACQUIRE); }

/* ------------------------------------------------------------------------------------------------------------- goodbye */

void boot_say_end(struct boot *boot, enum peer_state state) {
    struct hub *hub = boot->hub;
    hub_set_state(hub, boot->rank, state,
                  boot->calls != NULL ? __atomic_load_n(boot->calls, __ATOMIC_RELAXED) : hub->last_calls[boot->rank]);
    if (hub->work == NULL)
        return;
    struct letter *letter = letter_create(LETTER_TO_ALL, boot->rank, state, NULL, 0);
    pthread_mutex_lock(&hub->lock);
    bool last = hub->nlocal == 1;
    if (letter != NULL) {
        letter->number = os_now_ns() + BOOT_LETTERS_NS;
        letter_append(&hub->outbox, letter);
    }
    watch_post(hub->work);
    pthread_mutex_unlock(&hub->lock);
    if (last)
        await_flush(hub, BOOT_TELL_NS + (hub_failed(hub) == COLLET_SUCCESS ? BOOT_LETTERS_NS : 0));
}

void boot_destroy(struct boot *boot) {
    if (boot == NULL || boot->generation != process_forks) /* after fork(), a child has only a copy of it */
        return;
    struct hub *hub = boot->hub;
    char text[ERR_TEXT_BYTES];
    pthread_mutex_lock(&hub->lock);
    bool member = boot->rejected == COLLET_SUCCESS, ready = hub->phase == HUB_READY;
    pthread_mutex_unlock(&hub->lock);
    if (member && !ready) {
        snprintf(text, sizeof text, "rank %d left while the communicator was created", boot->rank);
        hub_fail(hub, COLLET_ERR_REMOTE, boot->rank, text);
        await_flush(hub, BOOT_TELL_NS); /* also of a failure that the watch has found, and has not passed on yet */
    } else if (member) {
        boot_say_end(boot, PEER_LEFT);
    }
    hub_remove(boot);
}
