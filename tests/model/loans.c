/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of Direct (src/fifo/proto_direct.h) and its loans (src/layers/memory/loan.c), between two threads, of a process or of two. The
 * producer lends payloads of two parts, and the consumer takes them, through a connection of two slots:
 *
 *      producer (thread 0)                                   consumer (thread 1)
 *      fills a buffer, lends it, publishes its slot  ─────▶  copies parts to where it wants them, or reads them in place
 *      copies parts too                                      compares them, consumes the slot
 *      once the loans are over: fills the buffer anew        overwrites what it got
 *
 * Or the consumer has offered the place before, and the producer puts the payload there.
 *
 * In a fan there are two consumers (threads 1 and 2), and each takes all payloads by itself.
 *
 * Each part must be copied once, and be there when the consumer looks. Nobody may touch the other one's memory after a loan is
 * over, or after loan_stop() of a call that has failed: that would race with what its owner does next.
 *
 * Between processes, a buffer lies in the shared heap of its process, or only the kernel reaches it: then whoever touches it by its
 * address is found. The kernel may forbid a copy at any time, in the middle of it, too. Parts have 8 bytes here (model.sh).
 */
#include "base/log.h"
#include "base/os.h"
#include "base/mapping.h"
#include "layers/memory/heap.h"
#include "layers/memory/loan.h"
#include "model.h"

#define os_cpu_relax model_wait /* loan_stop() waits for a store of the other end */
#undef log_at
#define log_at(level, subsystem, ...) ((void)0)
#include "layers/memory/loan.c"

#include <stdio.h>
#include <stdlib.h>

#define SLOTS 2
#define MESSAGES_MAX 4
#define PAYLOAD_BYTES 16 /* two parts */
#define ALL (-1)         /* every bit */
#define ALL_BUT_FIRST (-2)

enum taking { FETCHES, FETCHES_TO_SLOT, HOLDS };
/* How the other end reaches a buffer. */
enum by { BY_ADDRESS, BY_HEAP, BY_KERNEL };
enum { PRODUCER, CONSUMER };
#define CONSUMERS 2 /* of a fan */

struct scenario {
    const char *name;
    enum taking taking;
    int messages;
    bool helps; /* the producer copies, too */
    enum by lent, got;
    int forbidden[2]; /* bits: the kernel forbids each end this copy, the lowest is the first; ALL */
    bool apart;       /* the kernel copies nothing between the two */
    bool unmapped;    /* the consumer cannot map the producer's shared heap */
    bool fails;       /* both ends' calls do, before the first slot is consumed */
    bool alone;       /* only the producer's does: the consumer may consume all slots */
    bool offers;      /* the consumer does */
    bool fan;         /* two consumers, which read the payload in place, or copy it */
    bool leaves;      /* its call fails at any time */
    int lends;        /* the producer lends so many payloads; those behind them go through slots. 0: all are lent */
    bool busy;        /* the producer says that it will not help */
    bool
        shares; /* in some execution the producer copies to where the consumer wants a payload: else nothing is gained */
};

static const struct scenario scenarios[] = {
    {"2 payloads, copied by the consumer", .messages = 2},
    {"1 payload, copied by both", .messages = 1, .helps = true, .shares = true},
    {"2 payloads, copied by both", .messages = 2, .helps = true, .shares = true},
    {"2 payloads, copied into slots", FETCHES_TO_SLOT, 2, .helps = true},
    {"3 payloads, read in place", HOLDS, 3, .helps = true},
    {"2 payloads, copied by the consumer, and then one in the slot of the first", .messages = 3, .lends = 2},
    {"2 payloads, read in place, and then one in the slot of the first", HOLDS, 3, .helps = true, .lends = 2},
    {"a payload, and both calls fail", .messages = 1, .helps = true, .fails = true},
    {"a payload that is read in place, and both calls fail", HOLDS, 1, .helps = true, .fails = true},
    {"a payload that is read in place, and the producer's call fails", HOLDS, 1, .fails = true, .alone = true},
#define BY_KERNELS .helps = true, .lent = BY_KERNEL, .got = BY_KERNEL
    {"2 payloads, by the kernel for the consumer", .messages = 2, .lent = BY_KERNEL, .got = BY_KERNEL},
    {"2 payloads, by the kernel for both", .messages = 2, BY_KERNELS, .shares = true},
    {"2 payloads, by the kernel for the consumer, whose producer is busy", .messages = 2, BY_KERNELS, .busy = true},
    {"its producer is busy, and it may never read", .messages = 2, BY_KERNELS, .busy = true, .forbidden = {0, ALL}},
    {"its producer is busy, and both calls fail", .messages = 1, BY_KERNELS, .busy = true, .fails = true},
    {"2 payloads, by the kernel into slots", FETCHES_TO_SLOT, 2, BY_KERNELS},
    {"the consumer may never read", .messages = 1, BY_KERNELS, .forbidden = {0, ALL}},
    {"the consumer may read once", .messages = 1, BY_KERNELS, .forbidden = {0, ALL_BUT_FIRST}},
    {"the consumer may not read once", .messages = 2, BY_KERNELS, .forbidden = {0, 1}},
    {"the consumer may read once, into a slot", FETCHES_TO_SLOT, 2, BY_KERNELS, .forbidden = {ALL, ALL_BUT_FIRST}},
    {"the consumer may not read once, into a slot", FETCHES_TO_SLOT, 2, BY_KERNELS, .forbidden = {ALL, 1}},
    {"the producer may never write", .messages = 2, BY_KERNELS, .forbidden = {ALL, 0}},
    {"the producer may not write once", .messages = 1, BY_KERNELS, .forbidden = {1, 0}},
    {"each may copy once", .messages = 1, BY_KERNELS, .forbidden = {ALL_BUT_FIRST, ALL_BUT_FIRST}},
    {"neither may copy once", .messages = 2, BY_KERNELS, .forbidden = {1, 1}},
    {"to the shared heap, by the kernel", .messages = 2, .helps = true, .lent = BY_KERNEL, .got = BY_HEAP},
    {"from the shared heap, the producer by the kernel", .messages = 1, .helps = true, .lent = BY_HEAP,
     .got = BY_KERNEL},
    {"from the shared heap to the shared heap", .messages = 1, .helps = true, .lent = BY_HEAP, .got = BY_HEAP,
     .apart = true},
    {"2 payloads, read in the shared heap", HOLDS, 2, .helps = true, .lent = BY_HEAP, .got = BY_KERNEL, .apart = true},
    {"the shared heap cannot be mapped", .messages = 2, .helps = true, .lent = BY_HEAP, .got = BY_KERNEL, .apart = true,
     .unmapped = true},
    {"the kernel copies, and both calls fail", .messages = 1, BY_KERNELS, .fails = true},
    {"it forbids it, and both calls fail", .messages = 1, BY_KERNELS, .forbidden = {ALL, ALL_BUT_FIRST}, .fails = true},
    {"2 payloads to where the consumer offers", .messages = 2, .offers = true, .shares = true},
    {"3 payloads to offered places in the shared heap", .messages = 3, .lent = BY_HEAP, .got = BY_HEAP, .offers = true,
     .shares = true},
    {"2 payloads that the kernel carries to where the consumer offers", .messages = 2, .lent = BY_KERNEL,
     .got = BY_KERNEL, .offers = true, .shares = true},
    {"1 payload out of the shared heap, carried by the kernel", .messages = 1, .lent = BY_HEAP, .got = BY_KERNEL,
     .offers = true},
    {"the kernel does not carry once", .messages = 1, BY_KERNELS, .forbidden = {1, 0}, .offers = true},
    {"an offered place that nobody reaches", .messages = 1, .lent = BY_HEAP, .got = BY_KERNEL, .apart = true,
     .offers = true},
    {"the kernel carries, and the consumer's call fails at any time", .messages = 1, .lent = BY_KERNEL,
     .got = BY_KERNEL, .fails = true, .offers = true, .leaves = true},
    {"an offer, and both calls fail", .messages = 1, .helps = true, .fails = true, .offers = true},
    {"an offer, and the consumer's call fails at any time", .messages = 1, .fails = true, .offers = true,
     .leaves = true},
    {"an offer in the shared heap, and both calls fail", .messages = 1, .lent = BY_HEAP, .got = BY_HEAP, .fails = true,
     .offers = true},
    {"in the shared heap, and both calls fail", .messages = 1, .helps = true, .lent = BY_HEAP, .got = BY_HEAP,
     .fails = true},
    {"a fan: 3 payloads, copied", .messages = 3, .fan = true},
    {"a fan: 3 payloads, read in place", HOLDS, 3, .fan = true},
    {"a fan: 2 payloads, read in the shared heap", HOLDS, 2, .lent = BY_HEAP, .apart = true, .fan = true},
    {"a fan: 2 payloads, read in place, and then one in the slot of the first", HOLDS, 3, .fan = true, .lends = 2},
    {"a fan: a payload that is copied, and all calls fail", .messages = 1, .fails = true, .fan = true},
    {"a fan: a payload that is read in place, and all calls fail", HOLDS, 1, .fails = true, .fan = true},
    {"a fan: a payload that is read in place, and the producer's call fails", HOLDS, 1, .fails = true, .alone = true,
     .fan = true},
};

struct heap_view {
    char *base; /* NULL: it cannot be mapped */
};

struct arena {
    uint64_t tail, head;
    struct fifo_slot_header headers[SLOTS];
    struct loan_offer offers[SLOTS];
    struct fan_line lines[CONSUMERS];
    char slots[SLOTS * PAYLOAD_BYTES];
    uint64_t before_lent; /* no payload is at offset 0 of a shared heap */
    uint64_t lent[MESSAGES_MAX][PAYLOAD_BYTES / 8];
    uint64_t before_got;
    uint64_t got[CONSUMERS][MESSAGES_MAX][PAYLOAD_BYTES / 8];
    struct fifo_end ends[1 + CONSUMERS];
    struct heap heap[2];
    struct heap_view views[2];                /* of the other end's */
    int forbidden[2];                         /* as in the scenario, of the copies to come */
    int filled, offered, consumed[CONSUMERS]; /* by the producer; by the consumer */
};
_Static_assert(sizeof(struct arena) <= MODEL_ARENA_BYTES, "all fits");

static const struct work_args args = {.protocol = PROTOCOL_SIMPLE, .signature = 7, .sequence = 1};
static struct arena *arena(void) { return (struct arena *)(void *)model_arena; }
/* Both halves are the same number: half a copy shows. */
static uint64_t word_of(int message, int k) { return ((uint64_t)(1 + message) * 100 + (uint64_t)k) * 0x100000001u; }

/* ---- rooms that are stood in for ---- */

uint64_t os_now_ns(void) { return 0; } /* no wait comes to its deadline */

char *heap_view_at(struct heap_view *view, uint64_t offset, size_t bytes) {
    return view->base != NULL && bytes > 0 ? view->base + offset : NULL;
}

/* What it forbids, it may have begun. */
static bool copy_by_kernel(int end, void *to, const void *from, size_t bytes) {
    const bool allowed = (arena()->forbidden[end] & 1) == 0;
    arena()->forbidden[end] >>= 1;
    model_copy_between(to, from, allowed ? bytes : bytes / 2);
    return allowed;
}
bool os_process_read(int pid, void *to, uint64_t from, size_t bytes) {
    return copy_by_kernel(pid - 1, to, (const void *)(uintptr_t)from, bytes);
}
bool os_process_write(int pid, uint64_t to, const void *from, size_t bytes) {
    return copy_by_kernel(pid - 1, (void *)(uintptr_t)to, from, bytes);
}

/* ---- an execution begins ---- */

static void name_places(void) {
    struct arena *a = arena();
    model_writer(&a->tail, sizeof a->tail, PRODUCER);
    model_writer(&a->head, sizeof a->head, CONSUMER);
    model_name(&a->tail, 8, "tail");
    model_name(&a->head, 8, "head");
    for (int slot = 0; slot < SLOTS; slot++) {
        model_writer(&a->headers[slot].loan.to, sizeof a->headers[slot].loan.to, CONSUMER);
        model_name(&a->headers[slot].loan.to, 8, "to of slot %d", slot);
        model_name(&a->headers[slot].loan.claimed, 4, "claimed of slot %d", slot);
        model_name(&a->headers[slot].loan.done, 4, "done of slot %d", slot);
        model_name(&a->offers[slot].open, 8, "offer of slot %d", slot);
    }
}

/* A buffer of this end: what is in the shared heap lies behind a word that is not lent. */
static void place_buffer(int owner, enum by by, uint64_t *before, size_t bytes, bool unmapped) {
    struct arena *a = arena();
    if (by == BY_KERNEL)
        model_private(before + 1, bytes, owner);
    if (by != BY_HEAP)
        return;
    a->heap[owner] = (struct heap){.base = (char *)before, .bytes = bytes + sizeof *before};
    a->ends[owner].loans.heap = &a->heap[owner];
    a->views[1 - owner].base = unmapped ? NULL : (char *)before;
}

/* A fan: the consumers have lines of their own. */
static void prepare_fan(void) {
    struct arena *a = arena();
    for (int k = 0; k < CONSUMERS; k++) {
        struct fifo_end *end = &a->ends[1 + k];
        *end = a->ends[CONSUMER];
        a->lines[k].head = UINT64_MAX;
        end->head = &a->lines[k].head;
        end->loans.reading = &a->lines[k].reading;
        end->loans.view = &a->views[CONSUMER];
        model_writer(&a->lines[k].head, sizeof a->lines[k].head, 1 + k);
        model_name(&a->lines[k].head, 8, "head of consumer %d", k);
        model_name(&a->lines[k].reading, 8, "what consumer %d reads", k);
    }
    a->ends[PRODUCER].head = &a->lines[0].head;
    a->ends[PRODUCER].nheads = CONSUMERS;
}

static void prepare(const struct model *model) {
    const struct scenario *s = model->facts;
    struct arena *a = arena();
    a->tail = a->head = UINT64_MAX;
    name_places();
    for (int k = 0; k < 2; k++) {
        struct fifo_end *end = &a->ends[k];
        *end = (struct fifo_end){.tail = &a->tail, .head = &a->head, .headers = a->headers, .nslots = SLOTS};
        end->slots[PROTOCOL_SIMPLE] = a->slots;
        end->strides[PROTOCOL_SIMPLE] = PAYLOAD_BYTES;
        end->position = end->seen = end->loans.until = end->loans.landings_end = UINT64_MAX;
        end->loans.offers = a->offers;
        end->loans.way = s->lent == BY_ADDRESS ? LOAN_PROCESS : LOAN_HOST;
        end->loans.least_bytes = end->loans.least_common_bytes = 1;
        end->loans.view = &a->views[k];
        end->loans.pid = s->apart ? 0 : k + 1;
        end->loans.busy = s->busy;
        a->forbidden[k] = s->forbidden[k];
    }
    place_buffer(PRODUCER, s->lent, &a->before_lent, sizeof a->lent, s->unmapped);
    place_buffer(CONSUMER, s->got, &a->before_got, sizeof a->got, false);
    if (s->fan)
        prepare_fan();
}

/* ---- the producer ---- */

/* It has copied to where the consumer wants a payload, in some execution. No thread reads it. */
static bool has_shared;

/* What is not lent goes through its slot. Sealed last: then the loan may have landed. */
static void send(const struct scenario *s, struct fifo_end *end, int message) {
    uint64_t *payload = arena()->lent[message];
    for (int k = 0; k < PAYLOAD_BYTES / 8; k++)
        payload[k] = word_of(message, k);
    const bool may_lend = s->lends == 0 || message < s->lends;
    if (may_lend && direct_is_worth(&end->loans, (uintptr_t)payload, PAYLOAD_BYTES))
        end->loans.lending = (uintptr_t)payload;
    char *place = direct_place(&args, end, PAYLOAD_BYTES);
    if (place != NULL)
        memcpy(place, payload, PAYLOAD_BYTES);
    const bool lends = s->offers && end->loans.lending != 0;
    char *offered = lends ? loan_land_there(end, PAYLOAD_BYTES) : NULL;
    if (offered != NULL) {
        memcpy(offered, payload, PAYLOAD_BYTES);
        end->loans.lending = LOAN_LANDED;
    } else if (lends && loan_will_carry(end, PAYLOAD_BYTES))
        end->loans.lending = loan_carry(end, payload, PAYLOAD_BYTES);
    has_shared |= end->loans.lending == LOAN_LANDED;
    direct_seal(&args, end, PAYLOAD_BYTES);
    direct_publish(&args, end, PAYLOAD_BYTES);
}

static void produce(const struct scenario *s) {
    struct fifo_end *end = &arena()->ends[0];
    while (arena()->filled < s->messages || (!s->fails && !direct_is_over(end))) {
        bool moved = false;
        if (arena()->filled < s->messages && fifo_has_credit(end)) {
            send(s, end, arena()->filled++);
            moved = true;
        } else if (s->helps && loan_help(end, memcpy))
            has_shared = moved = true;
        if (!moved)
            model_wait();
        model_turn();
    }
    if (s->fails && s->helps)
        loan_help(end, memcpy);
    if (s->fails)
        loan_stop(end, 1);
    for (int message = 0; message < s->messages; message++) /* it is the program's again */
        arena()->lent[message][0] = arena()->lent[message][1] = 7;
}

/* ---- the consumer ---- */

/* Where the payload is; NULL: not yet. */
static const uint64_t *take(struct fifo_end *end, const struct scenario *s, int message,
                            uint64_t (*got)[PAYLOAD_BYTES / 8]) {
    const enum interp_result ready = direct_ready(&args, end, PAYLOAD_BYTES, NULL);
    if (ready == INTERP_MISMATCH)
        model_fail("message %d is of another call", message);
    if (ready == INTERP_BUSY)
        return NULL;
    char *to = s->taking == FETCHES ? (char *)got[message] : NULL;
    bool holds = s->taking == HOLDS && loan_is_open(end) && loan_is_near(end, PAYLOAD_BYTES);
    if (holds ? !loan_hold(end, PAYLOAD_BYTES) : loan_is_open(end) && !loan_fetch(end, PAYLOAD_BYTES, to))
        return NULL;
    return (const void *)direct_operand(&args, end, PAYLOAD_BYTES, NULL);
}

/* For as many slots as there are. What was at the place before, the consumer has used. */
static void offer_next(struct fifo_end *end, const struct scenario *s) {
    int *offered = &arena()->offered;
    for (; *offered < s->messages && *offered < arena()->consumed[0] + SLOTS; ++*offered) {
        uint64_t *to = arena()->got[0][*offered], position = end->loans.landings_end;
        struct loan_landing landing = {(char *)to, position, PAYLOAD_BYTES};
        to[0] = to[1] = 5;
        if (!loan_can_land(&end->loans, (uintptr_t)to, PAYLOAD_BYTES))
            landing.to = NULL;
        loan_land(&end->loans, landing);
        if (landing.to != NULL)
            loan_offer(end, landing);
    }
}

static void look(const uint64_t *payload, int message) {
    for (int k = 0; k < PAYLOAD_BYTES / 8; k++)
        if (payload[k] != word_of(message, k))
            model_fail("word %d of message %d is %d", k, message, (int)payload[k]);
}

static void consume(const struct scenario *s, int consumer) {
    struct fifo_end *end = &arena()->ends[1 + consumer];
    uint64_t(*got)[PAYLOAD_BYTES / 8] = arena()->got[consumer];
    int *consumed = &arena()->consumed[consumer];
    while (*consumed < s->messages) {
        if (s->offers)
            offer_next(end, s);
        const uint64_t *payload = take(end, s, *consumed, got);
        if (payload != NULL) {
            look(payload, *consumed);
            if (s->fails && !s->alone) /* the call fails before it consumes the slot */
                break;
            ++*consumed;
            direct_consume(end);
        } else if (s->leaves || (s->fails && fifo_has_data(end)))
            break; /* it fails while the producer still copies, or after the producer has stopped */
        else
            model_wait();
        model_turn();
    }
    if (s->fails && s->taking == HOLDS && end->loans.taken != NULL)
        loan_drop(end, PAYLOAD_BYTES);
    if (s->fails)
        loan_stop(end, 0);
    for (int message = 0; message < s->messages; message++)
        got[message][0] = got[message][1] = 9;
}

static void thread_main(const struct model *model, int thread) {
    if (thread == 0)
        produce(model->facts);
    else
        consume(model->facts, thread - 1);
}

static void check(const struct model *model) { (void)model; }

/* It is no mistake if a consumer does not say where its payload is to go, or does not offer the place: then it copies all parts
 * itself. But that must not be so in all executions. */
static void expect_shared(const struct scenario *s, struct model_result *result, bool quiet) {
    if (!s->shares || has_shared || result->failed)
        return;
    result->failed = true;
    if (!quiet)
        printf("%s: in no execution does the producer copy to where the consumer wants it\n", s->name);
}

/* loans [quick | large]: quick: no output but the scenario that fails, for mutants. */
int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    uint64_t states = 0;
    int passed = 0, failed = 0;
    for (uint64_t most = quick ? MODEL_FEW : MODEL_MOST; most != 0 && failed == 0; most = model_more(most)) {
        for (size_t k = 0; k < sizeof(scenarios) / sizeof(*scenarios) && !(quick && failed); k++) {
            struct model model = {scenarios[k].name,
                                  scenarios[k].fan ? 1 + CONSUMERS : 2,
                                  prepare,
                                  thread_main,
                                  check,
                                  &scenarios[k],
                                  false};
            has_shared = false;
            struct model_result result = model_explore(&model, most, quick);
            if (most == MODEL_MOST)
                expect_shared(&scenarios[k], &result, quick);
            states += result.states;
            model_print(&model, &result, quick);
            passed += !result.failed;
            failed += result.failed;
        }
    }
    if (!quick)
        printf("loans: %llu states\n%d passed, %d failed\n", (unsigned long long)states, passed, failed);
    return failed != 0;
}
