/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/elastic/agreement.h"

#include "base/memory.h"
#include "base/os.h"
#include "boot/boot.h"
#include "boot/hub.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS 50000000ull      /* first pause before a vote is repeated; each further pause is twice as long … */
#define AGAIN_MAX_NS 800000000ull /* … up to this time */
#define PATIENCE_NS 2000000000ull /* the coordinator can name the missing rank, so it gives up this much earlier */

static uint64_t deadline_of(const struct agreement_terms *terms) {
    return os_now_ns() + (uint64_t)terms->timeout_s * 1000000000u;
}

static size_t decision_bytes(int nranks) { return sizeof(struct agreement_decision) + (size_t)nranks; }

/* -------------------------------------------------------------------------------------------------------------- memory */

/* The last decision of a rank of this process under one key. It is kept until the hub ends. */
struct agreement_memory {
    struct agreement_memory *next;
    int rank;
    uint64_t key, number;
    bool gave_up;                        /* the decision is this rank's own "no", to all later questions */
    size_t bytes;                        /* bytes of the decision */
    struct agreement_decision *decision; /* follows this struct; has room for all ranks of the hub */
};

enum collet_result agreement_stock(struct boot *boot) {
    const int nranks = boot->hub->nranks;
    if (boot->spare_memory != NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(&boot->spare_memory, 1, sizeof *boot->spare_memory + decision_bytes(nranks),
                          "no memory to agree with %d ranks", nranks));
    boot->spare_memory->decision = (struct agreement_decision *)(boot->spare_memory + 1);
    return COLLET_SUCCESS;
}

static struct agreement_memory *find_memory(const struct hub *hub, int rank, uint64_t key) {
    struct agreement_memory *memory = hub->agreements;
    while (memory != NULL && (memory->rank != rank || memory->key != key))
        memory = memory->next;
    return memory;
}

/* Finds the memory for this key, or spare memory; NULL: there is neither. The caller holds the hub's lock. */
static struct agreement_memory *memory_of(const struct agreement_terms *terms) {
    struct boot *boot = terms->boot;
    const uint64_t key = terms->key & BOOT_KEY_REST;
    struct agreement_memory *memory = find_memory(boot->hub, boot->rank, key);
    if (memory != NULL || boot->spare_memory == NULL)
        return memory;
    memory = boot->spare_memory;
    boot->spare_memory = NULL;
    memory->rank = boot->rank;
    memory->key = key;
    memory->next = boot->hub->agreements;
    return boot->hub->agreements = memory;
}

static enum collet_result memory_begin(const struct agreement_terms *terms, uint64_t *number) {
    SCOPED_LOCK(&terms->boot->hub->lock);
    COLLET_TRY(agreement_stock(terms->boot));
    struct agreement_memory *memory = memory_of(terms);
    agreement_stock(terms->boot); /* gets spare memory for a "no" under another key, now or later */
    memory->gave_up = false;
    *number = memory->number + 1;
    return COLLET_SUCCESS;
}

/* Wipes a decision and frees it: its payload is a secret. */
static void decision_free(struct agreement_decision *decision, size_t bytes) {
    if (decision != NULL)
        sodium_memzero(decision, bytes);
    free(decision);
}

/* Keeps the decision, so that the watch can send it again. */
static void remember(const struct agreement *agreement) {
    SCOPED_LOCK(&agreement->terms.boot->hub->lock);
    struct agreement_memory *memory = memory_of(&agreement->terms);
    memory->number = agreement->vote.number;
    memory->bytes = decision_bytes(agreement->terms.nranks);
    memcpy(memory->decision, agreement->decision, memory->bytes);
}

void agreement_refuse(const struct agreement_terms *terms, enum collet_result code, const char *text) {
    SCOPED_LOCK(&terms->boot->hub->lock);
    struct agreement_memory *memory = memory_of(terms);
    if (memory == NULL || memory->gave_up)
        return;
    memory->gave_up = true;
    memory->bytes = decision_bytes(terms->nranks);
    memset(memory->decision, 0, sizeof *memory->decision);
    memory->decision->sum = (struct agreement_vote){.number = ++memory->number, .code = code};
    snprintf(memory->decision->sum.text, sizeof memory->decision->sum.text, "%s", text);
    memset(memory->decision->lives, 1, (size_t)terms->nranks);
}

/* Makes a letter with the decision that the receiver of this vote already has. NULL: the receiver has no decision, or there is no memory. */
static struct letter *recall(struct hub *hub, const struct letter *vote) {
    const uint64_t key = vote->key & BOOT_KEY_REST;
    struct agreement_vote asked;
    if (vote->bytes != sizeof asked)
        return NULL;
    memcpy(&asked, vote->data, sizeof asked);
    /* Allocates before it takes the lock: an allocation may wait for memory. */
    struct letter *letter =
        letter_create(vote->from, vote->to, boot_key(BOOT_DECISION, key), NULL, decision_bytes(hub->nranks));
    if (letter == NULL)
        return NULL;
    pthread_mutex_lock(&hub->lock);
    struct agreement_memory *memory = find_memory(hub, vote->to, key);
    const bool recalled = memory != NULL && memory->number != 0 && (memory->number == asked.number || memory->gave_up);
    if (recalled) {
        memory->decision->sum.number = asked.number;
        if (memory->number < asked.number) /* the earlier refusal also answers this question */
            memory->number = asked.number;
        letter->bytes = (uint32_t)memory->bytes;
        memcpy(letter->data, memory->decision, memory->bytes);
    }
    pthread_mutex_unlock(&hub->lock);
    if (!recalled)
        letter_free(letter);
    return recalled ? letter : NULL;
}

bool agreement_hear(struct hub *hub, const struct letter *letter, struct letter **answer) {
    if (letter->key >> 56 != BOOT_VOTE)
        return false;
    *answer = recall(hub, letter);
    return *answer != NULL || letter->from < letter->to;
}

void agreement_forget(struct hub *hub) {
    struct agreement_memory *memory;
    while ((memory = hub->agreements) != NULL) {
        hub->agreements = memory->next;
        sodium_memzero(memory->decision, memory->bytes);
        free(memory);
    }
}

/* --------------------------------------------------------------------------------------------------------------- letters */

static void post_to(const struct agreement *agreement, int index, enum boot_subject subject, const void *data,
                    size_t bytes) {
    const struct agreement_terms *terms = &agreement->terms;
    struct letter *letter =
        letter_create(terms->ranks[index], terms->boot->rank, boot_key(subject, terms->key), data, bytes);
    if (letter != NULL) /* NULL: there is no memory now, and a later turn sends the letter */
        hub_send(terms->boot->hub, letter);
}

static void say_vote(const struct agreement *agreement, int index) {
    post_to(agreement, index, BOOT_VOTE, &agreement->vote, sizeof agreement->vote);
}

/* Is it time to repeat the vote? A rank that already had its decision may have read the last vote. */
static bool says_again(struct agreement *agreement) {
    const uint64_t now_ns = os_now_ns();
    if (now_ns < agreement->say_ns)
        return false;
    agreement->say_ns = now_ns + agreement->pause_ns;
    agreement->pause_ns = agreement->pause_ns < AGAIN_MAX_NS ? 2 * agreement->pause_ns : AGAIN_MAX_NS;
    return true;
}

/* Takes a vote or a decision with this agreement's number. Drops letters of earlier numbers, which have the same key.
 * False: nothing has come. */
static bool take_letter(const struct agreement *agreement, int index, enum boot_subject subject, void *data,
                        size_t bytes) {
    const struct agreement_terms *terms = &agreement->terms;
    struct letter *letter;
    bool taken = false;
    while (!taken && (letter = hub_collect(terms->boot, terms->ranks[index], boot_key(subject, terms->key))) != NULL) {
        taken =
            letter->bytes == bytes && memcmp(letter->data, &agreement->vote.number, sizeof agreement->vote.number) == 0;
        if (taken)
            memcpy(data, letter->data, bytes);
        letter_free(letter);
    }
    return taken;
}

static uint64_t next_number(const struct agreement_terms *terms) {
    SCOPED_LOCK(&terms->boot->hub->lock);
    const struct agreement_memory *memory =
        find_memory(terms->boot->hub, terms->boot->rank, terms->key & BOOT_KEY_REST);
    return memory == NULL ? 1 : memory->number + 1;
}

/* Ranks repeat their votes, so the votes that this call takes will come again. */
bool agreement_hears_no(const struct agreement_terms *terms, struct agreement_vote *no) {
    struct agreement next = {.terms = *terms, .vote.number = next_number(terms)};
    next.terms.key &= BOOT_KEY_REST;
    for (int k = 0; k < terms->nranks; k++)
        while (take_letter(&next, k, BOOT_VOTE, no, sizeof *no))
            if (no->code != COLLET_SUCCESS)
                return true;
    return false;
}

/* -------------------------------------------------------------------------------------------------------------- who lives */

/* Is the rank gone, with all its letters? Letters of a rank that left on purpose may still come for a short time. */
static bool is_gone(const struct agreement *agreement, int index) {
    const struct agreement_terms *terms = &agreement->terms;
    const int rank = terms->ranks[index];
    return peer_is_gone(boot_peer_state(terms->boot, rank, NULL)) ||
           boot_peer_settled(terms->boot, rank, true) != PEER_ALIVE;
}

static bool has_left(const struct agreement *agreement, int index) {
    return boot_peer_state(agreement->terms.boot, agreement->terms.ranks[index], NULL) == PEER_LEFT;
}

/* Chooses the coordinator: the first rank that is not gone. */
static void find_coordinator(struct agreement *agreement) {
    const int before = agreement->coordinator;
    while (agreement->coordinator < agreement->terms.self && is_gone(agreement, agreement->coordinator))
        agreement->coordinator++;
    if (agreement->coordinator == before)
        return;
    agreement->say_ns = 0;
    agreement->pause_ns = AGAIN_NS;
}

/* ----------------------------------------------------------------------------------------------------- the coordinator */

static void objects(struct agreement *agreement, int index, enum collet_result code, const char *text) {
    struct agreement_vote *vote = &agreement->votes[index];
    *vote = (struct agreement_vote){.number = agreement->vote.number, .code = code};
    snprintf(vote->text, sizeof vote->text, "%s", text);
}

/* Counts a rank without an answer as a "no". */
static void pass_over(struct agreement *agreement, int index, bool too_late) {
    char name[HUB_NAME_BYTES], text[ERR_TEXT_BYTES];
    hub_name_rank(agreement->terms.boot->hub, agreement->terms.ranks[index], name);
    if (too_late)
        snprintf(text, sizeof text, "waited %d s (COLLET_INIT_TIMEOUT) for %s to call %s", agreement->terms.timeout_s,
                 name, agreement->terms.call);
    else
        snprintf(text, sizeof text, "%s left the communicator during %s", name, agreement->terms.call);
    objects(agreement, index, too_late ? COLLET_ERR_TIMEOUT : COLLET_ERR_REMOTE, text);
}

/* Reads the answer of rank `index`. False: none yet. */
static bool take_answer(struct agreement *agreement, int index) {
    struct agreement_vote *vote = &agreement->votes[index];
    struct agreement_decision *decision = agreement->decision;
    if (take_letter(agreement, index, BOOT_DECISION, decision, decision_bytes(agreement->terms.nranks)))
        return true;
    while (take_letter(agreement, index, BOOT_VOTE, vote, sizeof *vote)) /* the last vote counts */
        ;
    return vote->number != 0 ||
           (is_gone(agreement, index) && !(has_left(agreement, index) && agreement->terms.leaving_is_no));
}

/* Does the vote count? Yes, if its rank is alive, or if it is the "no" of a rank that has left. */
static bool counts(const struct agreement *agreement, int index) {
    const struct agreement_terms *terms = &agreement->terms;
    enum peer_state state = boot_peer_state(terms->boot, terms->ranks[index], NULL);
    const bool no = terms->leaving_is_no || agreement->votes[index].code != COLLET_SUCCESS;
    return state == PEER_ALIVE || (state == PEER_LEFT && no) || index == terms->self;
}

/* Does this vote replace `before` as the cause of the "no"? A vote that reports a dead rank (REMOTE) is only a
 * consequence, so any other reason is kept. */
static bool is_cause(const struct agreement_vote *vote, const struct agreement_vote *before) {
    const bool known = before->code != COLLET_SUCCESS && before->code != COLLET_ERR_REMOTE;
    return vote->code != COLLET_SUCCESS && !(known && vote->code == COLLET_ERR_REMOTE);
}

static void sum_up(struct agreement *agreement) {
    const struct agreement_terms *terms = &agreement->terms;
    struct agreement_decision *decision = agreement->decision;
    decision->sum = agreement->vote;
    agreement->votes[terms->self] = agreement->vote;
    for (int k = terms->nranks - 1; k >= 0; k--) {
        decision->lives[k] = agreement->votes[k].number != 0 && counts(agreement, k);
        if (decision->lives[k] && is_cause(&agreement->votes[k], &decision->sum))
            decision->sum = agreement->votes[k];
    }
    if (decision->sum.code != COLLET_SUCCESS || terms->give == NULL)
        return;
    enum collet_result result = terms->give(terms->giver, decision->lives, decision->payload);
    decision->sum.code = result;
    if (result != COLLET_SUCCESS)
        snprintf(decision->sum.text, sizeof decision->sum.text, "%s", err_last());
}

static void tell_all(const struct agreement *agreement) {
    for (int k = 0; k < agreement->terms.nranks; k++)
        if (k != agreement->terms.self)
            post_to(agreement, k, BOOT_DECISION, agreement->decision, decision_bytes(agreement->terms.nranks));
}

static enum collet_result finish(const struct agreement *agreement) {
    remember(agreement);
    if (agreement->coordinator == agreement->terms.self)
        tell_all(agreement);
    return COLLET_SUCCESS;
}

static enum collet_result decide(struct agreement *agreement) {
    const struct agreement_terms *terms = &agreement->terms;
    const bool first = agreement->pause_ns == AGAIN_NS, too_late = os_now_ns() > agreement->deadline_ns;
    const bool again = says_again(agreement);
    bool complete = true;
    for (int k = 0; k < terms->nranks; k++) {
        if (k == terms->self)
            continue;
        const bool answered = take_answer(agreement, k);
        if (answered && agreement->decision->sum.number != 0) /* an earlier coordinator has decided */
            return finish(agreement);
        const bool gone = is_gone(agreement, k), silent_for_good = !answered && (too_late || gone);
        if (silent_for_good)
            pass_over(agreement, k, !gone);
        if (!answered && !silent_for_good && again)
            say_vote(agreement, k); /* asks the rank's watch for a decision */
        if (first && again && !gone)
            post_to(agreement, k, BOOT_COORDINATOR, &agreement->vote.number, sizeof agreement->vote.number);
        complete &= answered || silent_for_good;
    }
    if (!complete)
        return COLLET_IN_PROGRESS;
    sum_up(agreement);
    return finish(agreement);
}

/* --------------------------------------------------------------------------------------------------------------- the others */

static enum collet_result await_decision(struct agreement *agreement) {
    const struct agreement_terms *terms = &agreement->terms;
    uint64_t number;
    char name[HUB_NAME_BYTES];
    if (take_letter(agreement, agreement->coordinator, BOOT_DECISION, agreement->decision,
                    decision_bytes(terms->nranks)))
        return finish(agreement);
    if (take_letter(agreement, agreement->coordinator, BOOT_COORDINATOR, &number, sizeof number))
        agreement->deadline_ns = deadline_of(terms); /* this coordinator came later, so it gives up later */
    if (says_again(agreement))
        say_vote(agreement, agreement->coordinator);
    if (os_now_ns() <= agreement->deadline_ns + PATIENCE_NS)
        return COLLET_IN_PROGRESS;
    hub_name_rank(terms->boot->hub, terms->ranks[agreement->coordinator], name);
    return err_set(COLLET_ERR_TIMEOUT, "waited %d s (COLLET_INIT_TIMEOUT) for %s to say who lives: did it call %s?",
                   terms->timeout_s, name, terms->call);
}

/* May this process vote? It may have been stopped for a while. Then others may have gone on without it, and the other ranks seem dead to it.
 * It must not agree with itself alone. So it votes only after its watch has run: the watch finds out whether this process is lost. */
static enum collet_result check_self(const struct agreement *agreement) {
    const struct boot *boot = agreement->terms.boot;
    const uint64_t awake_until_ns = __atomic_load_n(&boot->hub->awake_until_ns, __ATOMIC_RELAXED);
    if (boot_peer_state(boot, boot->rank, NULL) == PEER_LOST)
        return err_set(COLLET_ERR_REMOTE,
                       "the other ranks count this process as lost, and go on without it: its connection broke, or "
                       "it was silent for COLLET_HEARTBEAT_TIMEOUT");
    return awake_until_ns == 0 || os_now_ns() < awake_until_ns ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

enum collet_result agreement_try(struct agreement *agreement) {
    COLLET_TRY(check_self(agreement));
    find_coordinator(agreement);
    return agreement->coordinator == agreement->terms.self ? decide(agreement) : await_decision(agreement);
}

/* ---------------------------------------------------------------------------------------------------------------- life */

enum collet_result agreement_start(struct agreement *agreement, const struct agreement_terms *terms,
                                   enum collet_result code) {
    *agreement = (struct agreement){.terms = *terms, .pause_ns = AGAIN_NS};
    agreement->terms.key &= BOOT_KEY_REST;
    agreement->deadline_ns = deadline_of(terms);
    agreement->say_ns = terms->self == 0 ? os_now_ns() + AGAIN_NS : 0; /* a coordinator need not vote at first */
    agreement->vote.code = code;
    if (code != COLLET_SUCCESS)
        snprintf(agreement->vote.text, sizeof agreement->vote.text, "%s", err_last());
    COLLET_TRY(memory_get(&agreement->votes, (size_t)terms->nranks, sizeof *agreement->votes,
                          "no memory for the votes of %d ranks", terms->nranks));
    COLLET_TRY(memory_get(&agreement->decision, 1, decision_bytes(terms->nranks),
                          "no memory for what %d ranks agree on", terms->nranks));
    return memory_begin(&agreement->terms, &agreement->vote.number);
}

void agreement_give_up(struct agreement *agreement, enum collet_result code, const char *text) {
    struct agreement_decision *no = agreement->decision;
    if (agreement->terms.boot == NULL || (no != NULL && no->sum.number != 0))
        return;
    agreement_refuse(&agreement->terms, code, text);
    if (agreement->vote.number == 0) /* this rank has not voted; others will ask it */
        return;
    objects(agreement, agreement->terms.self, code, text);
    agreement->vote = no->sum = agreement->votes[agreement->terms.self];
    memset(no->lives, 1, (size_t)agreement->terms.nranks);
    if (agreement->coordinator == agreement->terms.self)
        tell_all(agreement);
    else
        say_vote(agreement, agreement->coordinator);
}

void agreement_fini(struct agreement *agreement) {
    free(agreement->votes);
    decision_free(agreement->decision, decision_bytes(agreement->terms.nranks));
    *agreement = (struct agreement){.votes = NULL};
}
