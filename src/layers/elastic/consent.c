/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/elastic/consent.h"

#include "base/memory.h"
#include "base/os.h"
#include "boot/boot.h"
#include "boot/hub.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_NS 50000000ull      /* first pause before a vote is repeated; doubles … */
#define AGAIN_MAX_NS 800000000ull /* … up to this one */
#define PATIENCE_NS 2000000000ull /* the judge can name the missing rank, so it gives up this much earlier */

static uint64_t deadline_of(const struct consent_terms *terms) {
    return os_now_ns() + (uint64_t)terms->timeout_s * 1000000000u;
}

static size_t verdict_bytes(int nranks) { return sizeof(struct consent_verdict) + (size_t)nranks; }

/* -------------------------------------------------------------------------------------------------------------- memory */

/* The last verdict of a rank of this process under one key. It is kept as long as the hub. */
struct consent_memory {
    struct consent_memory *next;
    int rank;
    uint64_t key, number;
    bool gave_up;                    /* the verdict is this rank's own: no, to all later questions */
    size_t bytes;                    /* bytes of the verdict */
    struct consent_verdict *verdict; /* follows this struct; has room for all ranks of the hub */
};

enum collet_result consent_stock(struct boot *boot) {
    const int nranks = boot->hub->nranks;
    if (boot->spare_memory != NULL)
        return COLLET_SUCCESS;
    COLLET_TRY(memory_get(&boot->spare_memory, 1, sizeof *boot->spare_memory + verdict_bytes(nranks),
                          "no memory to agree with %d ranks", nranks));
    boot->spare_memory->verdict = (struct consent_verdict *)(boot->spare_memory + 1);
    return COLLET_SUCCESS;
}

static struct consent_memory *find_memory(const struct hub *hub, int rank, uint64_t key) {
    struct consent_memory *memory = hub->consents;
    while (memory != NULL && (memory->rank != rank || memory->key != key))
        memory = memory->next;
    return memory;
}

/* The memory for this key, or a spare one; NULL: neither. The caller holds the hub's lock. */
static struct consent_memory *memory_of(const struct consent_terms *terms) {
    struct boot *boot = terms->boot;
    const uint64_t key = terms->key & BOOT_KEY_REST;
    struct consent_memory *memory = find_memory(boot->hub, boot->rank, key);
    if (memory != NULL || boot->spare_memory == NULL)
        return memory;
    memory = boot->spare_memory;
    boot->spare_memory = NULL;
    memory->rank = boot->rank;
    memory->key = key;
    memory->next = boot->hub->consents;
    return boot->hub->consents = memory;
}

static enum collet_result memory_begin(const struct consent_terms *terms, uint64_t *number) {
    SCOPED_LOCK(&terms->boot->hub->lock);
    COLLET_TRY(consent_stock(terms->boot));
    struct consent_memory *memory = memory_of(terms);
    consent_stock(terms->boot); /* gets a spare one for a "no" under another key; if there is no memory, later */
    memory->gave_up = false;
    *number = memory->number + 1;
    return COLLET_SUCCESS;
}

/* Wipes a verdict and frees it: its gift is a secret. */
static void verdict_free(struct consent_verdict *verdict, size_t bytes) {
    if (verdict != NULL)
        sodium_memzero(verdict, bytes);
    free(verdict);
}

/* Keeps the verdict, for the watch to repeat. */
static void remember(const struct consent *consent) {
    SCOPED_LOCK(&consent->terms.boot->hub->lock);
    struct consent_memory *memory = memory_of(&consent->terms);
    memory->number = consent->vote.number;
    memory->bytes = verdict_bytes(consent->terms.nranks);
    memcpy(memory->verdict, consent->verdict, memory->bytes);
}

void consent_refuse(const struct consent_terms *terms, enum collet_result code, const char *text) {
    SCOPED_LOCK(&terms->boot->hub->lock);
    struct consent_memory *memory = memory_of(terms);
    if (memory == NULL || memory->gave_up)
        return;
    memory->gave_up = true;
    memory->bytes = verdict_bytes(terms->nranks);
    memset(memory->verdict, 0, sizeof *memory->verdict);
    memory->verdict->sum = (struct consent_vote){.number = ++memory->number, .code = code};
    snprintf(memory->verdict->sum.text, sizeof memory->verdict->sum.text, "%s", text);
    memset(memory->verdict->lives, 1, (size_t)terms->nranks);
}

/* Makes a letter with the verdict that the receiver of this vote already has; NULL: it has none, or there is no memory. */
static struct letter *recall(struct hub *hub, const struct letter *vote) {
    const uint64_t key = vote->key & BOOT_KEY_REST;
    struct consent_vote asked;
    if (vote->bytes != sizeof asked)
        return NULL;
    memcpy(&asked, vote->data, sizeof asked);
    /* Allocates before it takes the lock: an allocation may wait for memory. */
    struct letter *letter =
        letter_create(vote->from, vote->to, boot_key(BOOT_VERDICT, key), NULL, verdict_bytes(hub->nranks));
    if (letter == NULL)
        return NULL;
    pthread_mutex_lock(&hub->lock);
    struct consent_memory *memory = find_memory(hub, vote->to, key);
    const bool recalled = memory != NULL && memory->number != 0 && (memory->number == asked.number || memory->gave_up);
    if (recalled) {
        memory->verdict->sum.number = asked.number;
        if (memory->number < asked.number) /* the earlier refusal is also for this one */
            memory->number = asked.number;
        letter->bytes = (uint32_t)memory->bytes;
        memcpy(letter->data, memory->verdict, memory->bytes);
    }
    pthread_mutex_unlock(&hub->lock);
    if (!recalled)
        letter_free(letter);
    return recalled ? letter : NULL;
}

bool consent_hear(struct hub *hub, const struct letter *letter, struct letter **answer) {
    if (letter->key >> 56 != BOOT_VOTE)
        return false;
    *answer = recall(hub, letter);
    return *answer != NULL || letter->from < letter->to;
}

void consent_forget(struct hub *hub) {
    struct consent_memory *memory;
    while ((memory = hub->consents) != NULL) {
        hub->consents = memory->next;
        sodium_memzero(memory->verdict, memory->bytes);
        free(memory);
    }
}

/* --------------------------------------------------------------------------------------------------------------- letters */

static void post_to(const struct consent *consent, int index, enum boot_subject subject, const void *data,
                    size_t bytes) {
    const struct consent_terms *terms = &consent->terms;
    struct letter *letter =
        letter_create(terms->ranks[index], terms->boot->rank, boot_key(subject, terms->key), data, bytes);
    if (letter != NULL) /* without memory, it is sent later */
        hub_send(terms->boot->hub, letter);
}

static void say_vote(const struct consent *consent, int index) {
    post_to(consent, index, BOOT_VOTE, &consent->vote, sizeof consent->vote);
}

/* Is it time to repeat the vote? A rank that already had its verdict may have read the last one. */
static bool says_again(struct consent *consent) {
    const uint64_t now_ns = os_now_ns();
    if (now_ns < consent->say_ns)
        return false;
    consent->say_ns = now_ns + consent->pause_ns;
    consent->pause_ns = consent->pause_ns < AGAIN_MAX_NS ? 2 * consent->pause_ns : AGAIN_MAX_NS;
    return true;
}

/* Takes a vote, or a verdict, of this number; drops those of earlier numbers, which have the same key. False: none of it has come. */
static bool take_letter(const struct consent *consent, int index, enum boot_subject subject, void *data, size_t bytes) {
    const struct consent_terms *terms = &consent->terms;
    struct letter *letter;
    bool taken = false;
    while (!taken && (letter = hub_collect(terms->boot, terms->ranks[index], boot_key(subject, terms->key))) != NULL) {
        taken = letter->bytes == bytes && memcmp(letter->data, &consent->vote.number, sizeof consent->vote.number) == 0;
        if (taken)
            memcpy(data, letter->data, bytes);
        letter_free(letter);
    }
    return taken;
}

static uint64_t next_number(const struct consent_terms *terms) {
    SCOPED_LOCK(&terms->boot->hub->lock);
    const struct consent_memory *memory = find_memory(terms->boot->hub, terms->boot->rank, terms->key & BOOT_KEY_REST);
    return memory == NULL ? 1 : memory->number + 1;
}

/* Ranks repeat their votes, so the votes that this call takes will come again. */
bool consent_hears_no(const struct consent_terms *terms, struct consent_vote *no) {
    struct consent next = {.terms = *terms, .vote.number = next_number(terms)};
    next.terms.key &= BOOT_KEY_REST;
    for (int k = 0; k < terms->nranks; k++)
        while (take_letter(&next, k, BOOT_VOTE, no, sizeof *no))
            if (no->code != COLLET_SUCCESS)
                return true;
    return false;
}

/* -------------------------------------------------------------------------------------------------------------- who lives */

/* Is the rank gone, with all its letters? Letters of a rank that left on purpose may still come for a while. */
static bool is_gone(const struct consent *consent, int index) {
    const struct consent_terms *terms = &consent->terms;
    const int rank = terms->ranks[index];
    return peer_is_gone(boot_peer_state(terms->boot, rank, NULL)) ||
           boot_peer_settled(terms->boot, rank, true) != PEER_ALIVE;
}

static bool has_left(const struct consent *consent, int index) {
    return boot_peer_state(consent->terms.boot, consent->terms.ranks[index], NULL) == PEER_LEFT;
}

/* Chooses the judge: the first rank that is not gone. */
static void find_judge(struct consent *consent) {
    const int before = consent->judge;
    while (consent->judge < consent->terms.self && is_gone(consent, consent->judge))
        consent->judge++;
    if (consent->judge == before)
        return;
    consent->say_ns = 0;
    consent->pause_ns = AGAIN_NS;
}

/* --------------------------------------------------------------------------------------------------------------- the judge */

static void objects(struct consent *consent, int index, enum collet_result code, const char *text) {
    struct consent_vote *vote = &consent->votes[index];
    *vote = (struct consent_vote){.number = consent->vote.number, .code = code};
    snprintf(vote->text, sizeof vote->text, "%s", text);
}

/* Counts a rank without an answer as a "no". */
static void pass_over(struct consent *consent, int index, bool too_late) {
    char name[HUB_NAME_BYTES], text[ERR_TEXT_BYTES];
    hub_name_rank(consent->terms.boot->hub, consent->terms.ranks[index], name);
    if (too_late)
        snprintf(text, sizeof text, "waited %d s (COLLET_INIT_TIMEOUT) for %s to call %s", consent->terms.timeout_s,
                 name, consent->terms.call);
    else
        snprintf(text, sizeof text, "%s left the communicator during %s", name, consent->terms.call);
    objects(consent, index, too_late ? COLLET_ERR_TIMEOUT : COLLET_ERR_REMOTE, text);
}

/* Reads the answer of rank `index`. False: none yet. */
static bool take_answer(struct consent *consent, int index) {
    struct consent_vote *vote = &consent->votes[index];
    struct consent_verdict *verdict = consent->verdict;
    if (take_letter(consent, index, BOOT_VERDICT, verdict, verdict_bytes(consent->terms.nranks)))
        return true;
    while (take_letter(consent, index, BOOT_VOTE, vote, sizeof *vote)) /* the last one counts */
        ;
    return vote->number != 0 ||
           (is_gone(consent, index) && !(has_left(consent, index) && consent->terms.leaving_is_no));
}

/* Does the vote count? Yes, if its rank is alive, or if it is the "no" of a rank that has left. */
static bool counts(const struct consent *consent, int index) {
    const struct consent_terms *terms = &consent->terms;
    enum peer_state state = boot_peer_state(terms->boot, terms->ranks[index], NULL);
    const bool no = terms->leaving_is_no || consent->votes[index].code != COLLET_SUCCESS;
    return state == PEER_ALIVE || (state == PEER_LEFT && no) || index == terms->self;
}

/* Is this vote the cause, rather than that of a higher rank? A vote that says that a rank is gone is a consequence of other causes. */
static bool is_cause(const struct consent_vote *vote, const struct consent_vote *before) {
    const bool known = before->code != COLLET_SUCCESS && before->code != COLLET_ERR_REMOTE;
    return vote->code != COLLET_SUCCESS && !(known && vote->code == COLLET_ERR_REMOTE);
}

static void sum_up(struct consent *consent) {
    const struct consent_terms *terms = &consent->terms;
    struct consent_verdict *verdict = consent->verdict;
    verdict->sum = consent->vote;
    consent->votes[terms->self] = consent->vote;
    for (int k = terms->nranks - 1; k >= 0; k--) {
        verdict->lives[k] = consent->votes[k].number != 0 && counts(consent, k);
        if (verdict->lives[k] && is_cause(&consent->votes[k], &verdict->sum))
            verdict->sum = consent->votes[k];
    }
    if (verdict->sum.code != COLLET_SUCCESS || terms->give == NULL)
        return;
    enum collet_result result = terms->give(terms->giver, verdict->lives, verdict->gift);
    verdict->sum.code = result;
    if (result != COLLET_SUCCESS)
        snprintf(verdict->sum.text, sizeof verdict->sum.text, "%s", err_last());
}

static void tell_all(const struct consent *consent) {
    for (int k = 0; k < consent->terms.nranks; k++)
        if (k != consent->terms.self)
            post_to(consent, k, BOOT_VERDICT, consent->verdict, verdict_bytes(consent->terms.nranks));
}

static enum collet_result finish(const struct consent *consent) {
    remember(consent);
    if (consent->judge == consent->terms.self)
        tell_all(consent);
    return COLLET_SUCCESS;
}

static enum collet_result judge(struct consent *consent) {
    const struct consent_terms *terms = &consent->terms;
    const bool first = consent->pause_ns == AGAIN_NS, too_late = os_now_ns() > consent->deadline_ns;
    const bool again = says_again(consent);
    bool complete = true;
    for (int k = 0; k < terms->nranks; k++) {
        if (k == terms->self)
            continue;
        const bool answered = take_answer(consent, k);
        if (answered && consent->verdict->sum.number != 0) /* an earlier judge's */
            return finish(consent);
        const bool gone = is_gone(consent, k), silent_for_good = !answered && (too_late || gone);
        if (silent_for_good)
            pass_over(consent, k, !gone);
        if (!answered && !silent_for_good && again)
            say_vote(consent, k); /* asks its watch: does it have a verdict? */
        if (first && again && !gone)
            post_to(consent, k, BOOT_JUDGE, &consent->vote.number, sizeof consent->vote.number);
        complete &= answered || silent_for_good;
    }
    if (!complete)
        return COLLET_IN_PROGRESS;
    sum_up(consent);
    return finish(consent);
}

/* --------------------------------------------------------------------------------------------------------------- the others */

static enum collet_result await_verdict(struct consent *consent) {
    const struct consent_terms *terms = &consent->terms;
    uint64_t number;
    char name[HUB_NAME_BYTES];
    if (take_letter(consent, consent->judge, BOOT_VERDICT, consent->verdict, verdict_bytes(terms->nranks)))
        return finish(consent);
    if (take_letter(consent, consent->judge, BOOT_JUDGE, &number, sizeof number))
        consent->deadline_ns = deadline_of(terms); /* this judge came later, so it gives up later */
    if (says_again(consent))
        say_vote(consent, consent->judge);
    if (os_now_ns() <= consent->deadline_ns + PATIENCE_NS)
        return COLLET_IN_PROGRESS;
    hub_name_rank(terms->boot->hub, terms->ranks[consent->judge], name);
    return err_set(COLLET_ERR_TIMEOUT, "waited %d s (COLLET_INIT_TIMEOUT) for %s to say who lives: did it call %s?",
                   terms->timeout_s, name, terms->call);
}

/* May this process vote? If it was stopped, others may have gone on without it, and its connections end as if the others were dead. It
 * must not agree with itself alone. So it votes only after its watch has run, which soon finds out whether it is lost. */
static enum collet_result check_self(const struct consent *consent) {
    const struct boot *boot = consent->terms.boot;
    const uint64_t awake_until_ns = __atomic_load_n(&boot->hub->awake_until_ns, __ATOMIC_RELAXED);
    if (boot_peer_state(boot, boot->rank, NULL) == PEER_LOST)
        return err_set(COLLET_ERR_REMOTE,
                       "the other ranks count this process as lost, and go on without it: its connection broke, or "
                       "it was silent for COLLET_HEARTBEAT_TIMEOUT");
    return awake_until_ns == 0 || os_now_ns() < awake_until_ns ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

enum collet_result consent_try(struct consent *consent) {
    COLLET_TRY(check_self(consent));
    find_judge(consent);
    return consent->judge == consent->terms.self ? judge(consent) : await_verdict(consent);
}

/* ---------------------------------------------------------------------------------------------------------------- life */

enum collet_result consent_start(struct consent *consent, const struct consent_terms *terms, enum collet_result code) {
    *consent = (struct consent){.terms = *terms, .pause_ns = AGAIN_NS};
    consent->terms.key &= BOOT_KEY_REST;
    consent->deadline_ns = deadline_of(terms);
    consent->say_ns = terms->self == 0 ? os_now_ns() + AGAIN_NS : 0; /* a judge need not vote at first */
    consent->vote.code = code;
    if (code != COLLET_SUCCESS)
        snprintf(consent->vote.text, sizeof consent->vote.text, "%s", err_last());
    COLLET_TRY(memory_get(&consent->votes, (size_t)terms->nranks, sizeof *consent->votes,
                          "no memory for the votes of %d ranks", terms->nranks));
    COLLET_TRY(memory_get(&consent->verdict, 1, verdict_bytes(terms->nranks), "no memory for what %d ranks agree on",
                          terms->nranks));
    return memory_begin(&consent->terms, &consent->vote.number);
}

void consent_give_up(struct consent *consent, enum collet_result code, const char *text) {
    struct consent_verdict *no = consent->verdict;
    if (consent->terms.boot == NULL || (no != NULL && no->sum.number != 0))
        return;
    consent_refuse(&consent->terms, code, text);
    if (consent->vote.number == 0) /* it has not voted; others will ask */
        return;
    objects(consent, consent->terms.self, code, text);
    consent->vote = no->sum = consent->votes[consent->terms.self];
    memset(no->lives, 1, (size_t)consent->terms.nranks);
    if (consent->judge == consent->terms.self)
        tell_all(consent);
    else
        say_vote(consent, consent->judge);
}

void consent_fini(struct consent *consent) {
    free(consent->votes);
    verdict_free(consent->verdict, verdict_bytes(consent->terms.nranks));
    *consent = (struct consent){.votes = NULL};
}
