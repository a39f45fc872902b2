/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of loans (src/fifo/loan.c) between two threads of a process. The producer lends payloads of two parts, and the
 * consumer takes them, through a connection of two slots:
 *
 *      producer (thread 0)                                   consumer (thread 1)
 *      fills a buffer, lends it, publishes its slot  ─────▶  copies parts to where it wants them, or reads them in place
 *      copies parts too                                      compares them, consumes the slot
 *      once the loans are over: fills the buffer anew        overwrites what it got
 *
 * Each part must be copied once, and be there when the consumer looks. Nobody may touch the other one's memory after a loan is
 * over, or after loan_stop() of a call that has failed: that would race with what its owner does next.
 *
 * Parts have 8 bytes here (model.sh). Left out are loans between processes, which differ in how memory is reached.
 */
#include "base/os.h"
#include "model.h"

#define os_cpu_relax model_wait /* loan_stop() waits for a store of the other end */
#include "fifo/loan.c"

#include <stdio.h>
#include <stdlib.h>

#define SLOTS 2
#define MESSAGES_MAX 4
#define PAYLOAD_BYTES 16 /* two parts */

enum taking { FETCHES, FETCHES_TO_SLOT, HOLDS };

struct scenario {
    const char *name;
    enum taking taking;
    int messages;
    bool helps; /* the producer copies, too */
    int stops;  /* both ends' calls fail when the consumer has seen so many messages; −1: they do not */
};

static const struct scenario scenarios[] = {
    {"2 payloads, copied by the consumer", FETCHES, 2, false, -1},
    {"1 payload, copied by both", FETCHES, 1, true, -1},
    {"2 payloads, copied by both", FETCHES, 2, true, -1},
    {"2 payloads, copied into slots", FETCHES_TO_SLOT, 2, true, -1},
    {"3 payloads, read in place", HOLDS, 3, true, -1},
    {"a payload, and both calls fail", FETCHES, 1, true, 0},
    {"a payload that is read in place, and both calls fail", HOLDS, 1, true, 0},
};

struct arena {
    uint64_t tail, head;
    struct fifo_slot_header headers[SLOTS];
    char slots[SLOTS * PAYLOAD_BYTES];
    uint64_t lent[MESSAGES_MAX][PAYLOAD_BYTES / 8], got[MESSAGES_MAX][PAYLOAD_BYTES / 8];
    struct fifo_end ends[2];
    int filled, consumed; /* by the producer; by the consumer */
};
_Static_assert(sizeof(struct arena) <= MODEL_ARENA_BYTES, "all fits");

static struct arena *arena(void) { return (struct arena *)(void *)model_arena; }
static uint64_t word_of(int message, int k) { return (uint64_t)(1 + message) * 100 + (uint64_t)k; }

/* ---- rooms that are stood in for ---- */

uint64_t os_now_ns(void) { return 0; } /* no wait comes to its deadline */

/* ---- an execution begins ---- */

static void prepare(const struct model *model) {
    (void)model;
    struct arena *a = arena();
    a->tail = a->head = UINT64_MAX;
    model_name(&a->tail, 8, "tail");
    model_name(&a->head, 8, "head");
    for (int slot = 0; slot < SLOTS; slot++) {
        model_name(&a->headers[slot].loan.to, 8, "to of slot %d", slot);
        model_name(&a->headers[slot].loan.claimed, 4, "claimed of slot %d", slot);
        model_name(&a->headers[slot].loan.done, 4, "done of slot %d", slot);
    }
    for (int k = 0; k < 2; k++) {
        struct fifo_end *end = &a->ends[k];
        *end = (struct fifo_end){.tail = &a->tail, .head = &a->head, .headers = a->headers, .nslots = SLOTS};
        end->slots[PROTOCOL_SIMPLE] = a->slots;
        end->strides[PROTOCOL_SIMPLE] = PAYLOAD_BYTES;
        end->position = end->seen = end->loans.until = UINT64_MAX;
        end->loans.way = LOAN_PROCESS;
    }
}

/* ---- the producer ---- */

static void lend(struct fifo_end *end, int message) {
    struct fifo_slot_header *header = fifo_header(end);
    for (int k = 0; k < PAYLOAD_BYTES / 8; k++)
        arena()->lent[message][k] = word_of(message, k);
    header->word = fifo_word(PROTOCOL_SIMPLE, PAYLOAD_BYTES);
    end->loans.lending = (uintptr_t)arena()->lent[message];
    loan_note(&end->loans, &header->loan, end->position + 1);
    fifo_publish(end);
}

static void produce(const struct scenario *s) {
    struct fifo_end *end = &arena()->ends[0];
    while (arena()->filled < s->messages || (s->stops < 0 && !loan_all_over(end))) {
        bool moved = false;
        if (arena()->filled < s->messages && fifo_has_credit(end)) {
            lend(end, arena()->filled++);
            moved = true;
        } else if (s->helps)
            moved = loan_help(end, memcpy);
        if (!moved)
            model_wait();
        model_turn();
    }
    if (s->stops >= 0 && s->helps)
        loan_help(end, memcpy);
    if (s->stops >= 0)
        loan_stop(end, 1);
    for (int message = 0; message < s->messages; message++) /* it is the program's again */
        arena()->lent[message][0] = arena()->lent[message][1] = 7;
}

/* ---- the consumer ---- */

/* Where the payload is; NULL: not yet. */
static const uint64_t *take(struct fifo_end *end, const struct scenario *s, int message) {
    if (!fifo_has_data(end))
        return NULL;
    if (s->taking == HOLDS)
        return loan_hold(end, PAYLOAD_BYTES) ? (const void *)end->loans.taken : NULL;
    char *to = s->taking == FETCHES ? (char *)arena()->got[message] : NULL;
    return loan_fetch(end, PAYLOAD_BYTES, to) ? (const void *)end->loans.taken : NULL;
}

static void look(const uint64_t *payload, int message) {
    for (int k = 0; k < PAYLOAD_BYTES / 8; k++)
        if (payload[k] != word_of(message, k))
            model_fail("word %d of message %d is %d", k, message, (int)payload[k]);
}

static void consume(const struct scenario *s) {
    struct fifo_end *end = &arena()->ends[1];
    while (arena()->consumed < s->messages) {
        const uint64_t *payload = take(end, s, arena()->consumed);
        if (payload != NULL) {
            look(payload, arena()->consumed);
            if (arena()->consumed == s->stops) /* the call fails before it consumes the slot */
                break;
            arena()->consumed++;
            end->loans.taken = NULL;
            fifo_consumed(end);
        } else if (s->stops >= 0 && fifo_has_data(end))
            break; /* it fails while the producer still copies, or after the producer has stopped */
        else
            model_wait();
        model_turn();
    }
    if (s->stops >= 0 && s->taking == HOLDS && end->loans.taken != NULL)
        loan_drop(end, PAYLOAD_BYTES);
    if (s->stops >= 0)
        loan_stop(end, 0);
    for (int message = 0; message < s->messages; message++)
        arena()->got[message][0] = arena()->got[message][1] = 9;
}

static void thread_main(const struct model *model, int thread) {
    if (thread == 0)
        produce(model->facts);
    else
        consume(model->facts);
}

static void check(const struct model *model) { (void)model; }

/* loans [quick | large]: quick: no output but the scenario that fails, for mutants. */
int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    uint64_t states = 0;
    int passed = 0, failed = 0;
    for (size_t k = 0; k < sizeof(scenarios) / sizeof(*scenarios) && !(quick && failed); k++) {
        struct model model = {scenarios[k].name, 2, prepare, thread_main, check, &scenarios[k], false};
        struct model_result result = model_explore(&model, 1000000, quick);
        states += result.states;
        model_print(&model, &result, quick);
        passed += !result.failed;
        failed += result.failed;
    }
    if (!quick)
        printf("loans: %llu states\n%d passed, %d failed\n", (unsigned long long)states, passed, failed);
    return failed != 0;
}
