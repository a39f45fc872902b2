/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/hub.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "boot/patience.h"
#include "boot/process.h"
#include "boot/table.h"
#include "seams/layer.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------ letters */

void letter_queue_init(struct letter_queue *queue) { *queue = (struct letter_queue){.end = &queue->first}; }

void letter_append(struct letter_queue *queue, struct letter *letter) {
    letter->next = NULL;
    *queue->end = letter;
    queue->end = &letter->next;
}

struct letter *letter_take(struct letter_queue *queue) {
    struct letter *letter = queue->first;
    if (letter != NULL && (queue->first = letter->next) == NULL)
        queue->end = &queue->first;
    return letter;
}

void letter_free(struct letter *letter) {
    if (letter != NULL)
        sodium_memzero(letter->data, letter->bytes);
    free(letter);
}

void letter_free_at(struct letter **letter) { letter_free(*letter); }

void letter_queue_clear(struct letter_queue *queue) {
    struct letter *letter;
    while ((letter = letter_take(queue)) != NULL)
        letter_free(letter);
}

struct letter *letter_create(int to, int from, uint64_t key, const void *data, size_t bytes) {
    struct letter *letter = patient_malloc(sizeof *letter + bytes);
    if (letter == NULL)
        return NULL;
    *letter = (struct letter){.to = to, .from = from, .key = key, .bytes = (uint32_t)bytes};
    if (data != NULL)
        memcpy(letter->data, data, bytes);
    return letter;
}

/* --------------------------------------------------------------------------------------------------------------- life */

static enum collet_result hub_create(int nranks, struct watch *watch, struct hub **hub_p) {
    const size_t n = (size_t)nranks;
    struct hub *hub;
    COLLET_TRY(memory_get(&hub, 1, sizeof *hub, "no memory for a communicator"));
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&hub->flushed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&hub->lock, NULL);
    letter_queue_init(&hub->outbox);
    hub->references = 1;
    hub->nranks = nranks;
    hub->watch = watch;
    hub->local = arena_get(&hub->arena, n, sizeof *hub->local);
    hub->peers = arena_get(&hub->arena, n, sizeof *hub->peers);
    hub->states = arena_get(&hub->arena, n, sizeof *hub->states);
    hub->last_calls = arena_get(&hub->arena, n, sizeof *hub->last_calls);
    hub->since_ns = arena_get(&hub->arena, n, sizeof *hub->since_ns);
    enum collet_result result = arena_check(&hub->arena, "no memory for a communicator of %d ranks", nranks);
    if (result == COLLET_SUCCESS)
        *hub_p = hub;
    else
        hub_release(hub);
    return result;
}

void hub_release(struct hub *hub) {
    pthread_mutex_lock(&hub->lock);
    int left = --hub->references;
    pthread_mutex_unlock(&hub->lock);
    if (left > 0)
        return;
    letter_queue_clear(&hub->outbox);
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->hub_free != NULL)
            layers[k]->hub_free(hub);
    pthread_mutex_destroy(&hub->lock);
    pthread_cond_destroy(&hub->flushed);
    arena_free(&hub->arena);
    sodium_memzero(&hub->id, sizeof hub->id);
    sodium_memzero(hub->secret, sizeof hub->secret);
    free(hub);
}

static enum collet_result layers_begin(struct boot *boot) {
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->rank_begin != NULL)
            COLLET_TRY(layers[k]->rank_begin(boot));
    return COLLET_SUCCESS;
}

/* Makes the boot of a rank, with a reference to the hub and an entry in hub->local. */
static enum collet_result hub_add(struct hub *hub, int rank, const struct boot_self *self, struct config *config,
                                  struct boot **boot_p) {
    struct boot *boot;
    COLLET_TRY(memory_get(&boot, 1, sizeof *boot, "no memory for rank %d", rank));
    boot->hub = hub;
    boot->rank = rank;
    boot->self = *self;
    boot->generation = process_forks;
    boot->config = config;
    boot->own_config = *config;
    boot->deadline_ns = os_now_ns() + (uint64_t)config->init_timeout * 1000000000u;
    for (int i = 0; i < MAILBOX_COUNT; i++)
        letter_queue_init(&boot->mailboxes[i]);
    enum collet_result result = layers_begin(boot);
    if (result != COLLET_SUCCESS) {
        free(boot);
        return result;
    }
    SCOPED_LOCK(&hub->lock);
    hub->references++;
    hub->local[rank] = boot;
    hub->nlocal++;
    *boot_p = boot;
    return COLLET_SUCCESS;
}

static void unlist(struct process *process, const struct hub *hub) {
    struct hub **link = &process->gathering;
    while (*link != NULL && *link != hub)
        link = &(*link)->next;
    if (*link != NULL)
        *link = hub->next;
}

void hub_unlist(struct hub *hub) {
    unlist(process_lock(), hub);
    process_unlock();
}

/* Removes a rank. The process's lock is held: when the last rank goes, nobody may find a hub that only ranks hold. */
static void take_out(struct process *process, struct boot *boot) {
    struct hub *hub = boot->hub;
    pthread_mutex_lock(&hub->lock);
    hub->local[boot->rank] = NULL;
    hub->nlocal--;
    if (hub->work != NULL) /* with the lock: the task may be freed as soon as no rank is left */
        watch_post(hub->work);
    else if (hub->nlocal == 0)
        unlist(process, hub);
    pthread_mutex_unlock(&hub->lock);
}

static void free_boot(struct boot *boot) {
    struct hub *hub = boot->hub;
    for (int i = 0; i < MAILBOX_COUNT; i++)
        letter_queue_clear(&boot->mailboxes[i]);
    free(boot->spare_memory);
    free(boot);
    hub_release(hub);
}

void hub_remove(struct boot *boot) {
    boot_count_at(boot, NULL);
    take_out(process_lock(), boot);
    process_unlock();
    free_boot(boot);
}

/* --------------------------------------------------------------------------------------------------- finding each other */

static struct hub *find_gathering(const struct process *process, const uint8_t secret[SECRET_BYTES]) {
    struct hub *hub = process->gathering;
    while (hub != NULL && memcmp(hub->id.secret, secret, SECRET_BYTES) != 0)
        hub = hub->next;
    return hub;
}

/* May this rank join the hub that was found? */
static enum collet_result check_place(struct hub *hub, int nranks, int rank) {
    if (hub->nranks != nranks)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "nranks differs: %d on rank %d, but %d on another rank of this process", nranks, rank,
                       hub->nranks);
    SCOPED_LOCK(&hub->lock);
    if (hub->local[rank] != NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "rank %d is taken: this process has created it with the same id before", rank);
    return COLLET_SUCCESS;
}

enum collet_result hub_join(const struct id *id, int nranks, int rank, const struct boot_self *self,
                            struct config *config, struct watch *watch, enum collet_result (*equip)(struct hub *hub),
                            struct boot **boot_p) {
    struct process *process = process_lock();
    struct hub *hub = find_gathering(process, id->secret), *made = NULL;
    enum collet_result result = hub != NULL ? check_place(hub, nranks, rank) : hub_create(nranks, watch, &made);
    if (hub != NULL && result != COLLET_SUCCESS && hub_fail(hub, result, -1, err_last()) && hub->work != NULL)
        watch_post(hub->work);
    if (made != NULL) {
        hub = made;
        hub->id = *id;
        memcpy(hub->secret, id->secret, SECRET_BYTES);
    }
    struct boot *boot;
    if (result == COLLET_SUCCESS)
        result = hub_add(hub, rank, self, config, &boot);
    if (result == COLLET_SUCCESS && made != NULL && equip != NULL && (result = equip(hub)) != COLLET_SUCCESS) {
        take_out(process, boot);
        free_boot(boot);
    }
    if (result == COLLET_SUCCESS && made != NULL) {
        hub->next = process->gathering;
        process->gathering = hub;
    }
    process_unlock();
    if (made != NULL)
        hub_release(made); /* the creator's reference; the boot and the watch have their own */
    if (result == COLLET_SUCCESS)
        *boot_p = boot;
    return result;
}

/* -------------------------------------------------------------------------------------------------------- what is known */

bool hub_fail(struct hub *hub, enum collet_result code, int rank, const char *text) {
    SCOPED_LOCK(&hub->lock);
    bool first = hub->failed_word == 0;
    if (first) {
        snprintf(hub->failed_text, sizeof hub->failed_text, "%s", text);
        hub->failed_rank = rank;
        /* Pairs with the acquire in hub_failed(), which boot_failed() calls in wait loops. */
        __atomic_store_n(&hub->failed_word, code < 0 ? code : COLLET_ERR_INTERNAL, __ATOMIC_RELEASE);
        for (int k = 0; k < hub->nranks; k++)
            if (hub->local[k] != NULL && hub->local[k]->end_word != NULL)
                __atomic_store_n(hub->local[k]->end_word, 1, __ATOMIC_RELEASE);
    }
    return first;
}

/* The rank that is named if this process lacks a resource: its lowest one. −1: for other failures the text says enough. */
static int rank_to_blame(struct hub *hub, enum collet_result code) {
    const bool lacks = code == COLLET_ERR_NO_MEMORY || code == COLLET_ERR_SYSTEM;
    SCOPED_LOCK(&hub->lock);
    for (int rank = 0; lacks && rank < hub->nranks; rank++)
        if (hub->local[rank] != NULL)
            return rank;
    return -1;
}

void hub_give_up(struct hub *hub, enum collet_result code, const char *text) {
    if (!hub_fail(hub, code, rank_to_blame(hub, code), text))
        return;
    log_warn(BOOT, "%s", text);
    watch_post(hub->work);
}

enum collet_result hub_failed(const struct hub *hub) {
    return (enum collet_result)__atomic_load_n(&hub->failed_word, __ATOMIC_ACQUIRE);
}

struct failure hub_failure(const struct hub *hub) {
    struct failure failure = {.code = hub_failed(hub), .rank = hub->failed_rank};
    snprintf(failure.text, sizeof failure.text, "%s", hub->failed_text);
    return failure;
}

void hub_fail_gathering(const uint8_t secret[SECRET_BYTES], enum collet_result code, const char *text) {
    struct hub *hub = find_gathering(process_lock(), secret);
    if (hub != NULL && hub_fail(hub, code, -1, text))
        watch_post(hub->work);
    process_unlock();
}

bool hub_set_state(struct hub *hub, int rank, enum peer_state state, uint64_t calls) {
    SCOPED_LOCK(&hub->lock);
    bool news = hub->states[rank] == PEER_ALIVE && state != PEER_ALIVE;
    if (news) {
        hub->states[rank] = state;
        hub->last_calls[rank] = calls;
        hub->since_ns[rank] = os_now_ns();
        __atomic_store_n(&hub->missing_count, hub->missing_count + 1, __ATOMIC_RELEASE);
    }
    return news;
}

enum peer_state hub_state(struct hub *hub, int rank, uint64_t *since_ns) {
    SCOPED_LOCK(&hub->lock);
    if (since_ns != NULL)
        *since_ns = hub->since_ns[rank];
    return hub->states[rank];
}

void boot_count_at(struct boot *boot, const uint64_t *calls) {
    process_lock();
    if (boot->calls != NULL)
        boot->hub->last_calls[boot->rank] = *boot->calls;
    boot->calls = calls;
    process_unlock();
}

/* ---------------------------------------------------------------------------------------------------------- mailboxes */

static struct letter_queue *mailbox_of(struct boot *boot, int from, uint64_t key) {
    uint64_t hash = (key ^ ((uint64_t)from << 32)) * 0x9e3779b97f4a7c15u;
    return &boot->mailboxes[hash >> 32 & (MAILBOX_COUNT - 1)];
}

void hub_send(struct hub *hub, struct letter *letter) {
    if (process_is_here(hub->peers[letter->to].process)) {
        hub_deliver(hub, letter);
        return;
    }
    SCOPED_LOCK(&hub->lock);
    letter_append(&hub->outbox, letter);
    watch_post(hub->work);
}

/* Is this letter for the process, not for a rank? Then *answer is the reply; NULL: none. */
static bool is_for_process(struct hub *hub, const struct letter *letter, struct letter **answer) {
    *answer = NULL;
    for (int k = 0; k < nlayers; k++)
        if (layers[k]->hub_hear != NULL && layers[k]->hub_hear(hub, letter, answer))
            return true;
    return false;
}

/* The caller holds the hub's lock. NULL: there is none. */
static struct letter *take(struct letter_queue *mailbox, int from, uint64_t key) {
    struct letter **link = &mailbox->first;
    while (*link != NULL && ((*link)->from != from || (*link)->key != key))
        link = &(*link)->next;
    struct letter *letter = *link;
    if (letter != NULL) {
        *link = letter->next;
        if (mailbox->end == &letter->next)
            mailbox->end = link;
    }
    return letter;
}

static void put(struct letter_queue *mailbox, struct letter *letter) {
    if (letter->key >> 56 == BOOT_CALL)
        letter_free(take(mailbox, letter->from, letter->key));
    letter_append(mailbox, letter);
}

void hub_deliver(struct hub *hub, struct letter *letter) {
    struct letter *answer;
    if (is_for_process(hub, letter, &answer)) {
        letter_free(letter);
        if (answer != NULL)
            hub_send(hub, answer);
        return;
    }
    SCOPED_LOCK(&hub->lock);
    struct boot *boot = hub->local[letter->to];
    if (boot != NULL)
        put(mailbox_of(boot, letter->from, letter->key), letter);
    else
        letter_free(letter);
}

struct letter *hub_collect(struct boot *boot, int from, uint64_t key) {
    SCOPED_LOCK(&boot->hub->lock);
    return take(mailbox_of(boot, from, key), from, key);
}

bool hub_knows_itself(struct hub *hub, const struct card *cards) {
    const uint64_t *here =
        process_identity(); /* first of all: a rank that joins takes the process's lock, and then this hub's */
    bool right = true;
    SCOPED_LOCK(&hub->lock);
    for (int rank = 0; rank < hub->nranks && right; rank++) {
        const struct boot *boot = hub->local[rank];
        const bool ours = boot != NULL && boot->rejected == COLLET_SUCCESS;
        right = (memcmp(cards[rank].process, here, sizeof cards[rank].process) == 0) == ours &&
                (!ours || memcmp(&cards[rank].self, &boot->self, sizeof boot->self) == 0);
    }
    return right;
}

void hub_set_peer(struct hub *hub, const struct card *card) {
    struct peer_info *peer = &hub->peers[card->rank];
    *peer = (struct peer_info){.rank = card->rank, .node = card->rank, .pid = card->pid, .device = card->self.device};
    memcpy(peer->cards, card->self.cards, sizeof peer->cards);
    memcpy(peer->process, card->process, sizeof peer->process);
    peer->cpus = card->cpus;
    snprintf(peer->host, sizeof peer->host, "%.*s", (int)sizeof card->host - 1, card->host);
}

enum collet_result hub_set_peers(struct hub *hub, const struct card *cards) {
    pthread_mutex_lock(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++)
        hub_set_peer(hub, &cards[rank]);
    pthread_mutex_unlock(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++)
        if (process_is_here(cards[rank].process))
            COLLET_TRY(card_find_node(cards, rank, &hub->peers[rank].node));
    return COLLET_SUCCESS;
}

void hub_complete(struct hub *hub, const int32_t *nodes) {
    SCOPED_LOCK(&hub->lock);
    for (int rank = 0; rank < hub->nranks; rank++)
        hub->peers[rank].node = nodes[rank];
    hub->phase = HUB_READY;
}

uint64_t hub_tag(const struct hub *hub) {
    uint8_t key[SECRET_BYTES];
    uint64_t tag;
    id_key(hub->secret, "tag", NULL, 0, key);
    memcpy(&tag, key, sizeof tag);
    return tag;
}

void hub_name_rank(const struct hub *hub, int rank, char text[HUB_NAME_BYTES]) {
    const struct peer_info *peer = &hub->peers[rank];
    if (peer->pid != 0)
        snprintf(text, HUB_NAME_BYTES, "rank %d (host %s, pid %d)", rank, peer->host, peer->pid);
    else
        snprintf(text, HUB_NAME_BYTES, "rank %d", rank);
}
