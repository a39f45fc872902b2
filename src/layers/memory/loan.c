/* SPDX-License-Identifier: Apache-2.0
 *
 * See loan.h. If the producer does not help, the consumer copies all parts of a payload, one after another.
 */
#include "fifo/fan.h"

#include "base/log.h"
#include "base/mapping.h"
#include "base/os.h"
#include "layers/memory/heap.h"
#include "layers/memory/loan.h"

#include <string.h>

/* Sizes of the part that an end copies at once. NEAR: by address; small, so that both ends have work. FAR: by a system call, which should
 * move many bytes. */
#define NEAR_PART_BYTES 8192u
#define FAR_PART_BYTES 65536u
#define LEAST_FAR_PART_BYTES 16384u
#define PAGE_BYTES 4096u

static struct fifo_slot_header *header_at(const struct fifo_end *end, uint64_t position) {
    return &end->headers[position & (end->nslots - 1)];
}

static char *slot_at(const struct fifo_end *end, uint64_t position) {
    return fifo_slot_at(end, PROTOCOL_SIMPLE, position);
}

/* Does the slot name memory of its producer? */
static bool is_open(const struct fifo_slot_header *header) {
    return direct_is_lent(header) && header->loan.address != LOAN_LANDED;
}

/* ---- parts ---- */

/* Is this bit of `done` set? The load needs no order: LOAN_ALONE is set before the consumer sees the loan, and only the producer asks for
 * LOAN_IN_SLOT here, which it sets itself. */
static bool has_mark(const struct fifo_loan *loan, uint32_t mark) {
    return (__atomic_load_n(&loan->done, __ATOMIC_RELAXED) & mark) != 0;
}

/* Half of the payload, in whole pages: one part for each end. */
static uint32_t half_of(uint32_t bytes) {
    uint32_t half = (bytes / 2 + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    half = half > LEAST_FAR_PART_BYTES ? half : LEAST_FAR_PART_BYTES;
    return half < FAR_PART_BYTES ? half : FAR_PART_BYTES;
}

/* The size of a part. Both ends compute the same size, because either both can access the payload by address, or neither can. */
static uint32_t part_room(const struct loan_end *end, const struct fifo_loan *loan, uint32_t bytes) {
    if (end->way == LOAN_PROCESS || loan->offset != 0)
        return NEAR_PART_BYTES;
    return has_mark(loan, LOAN_ALONE) ? bytes : half_of(bytes);
}

static uint32_t parts_of(uint32_t bytes, uint32_t room) { return (bytes + room - 1) / room; }

/* Claims a part, for either end, and returns its number. nparts or more: no part is left, or the loan is stopped. (stop_one() waits for
 * parts that are claimed.) */
static uint32_t claim_part(struct fifo_loan *loan, uint32_t nparts) {
    uint32_t part = __atomic_load_n(&loan->claimed, __ATOMIC_RELAXED);
    while (part < nparts &&
           !__atomic_compare_exchange_n(&loan->claimed, &part, part + 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return part;
}

/* Claims all parts at once. False: a part is claimed already, or the loan is stopped. */
static bool claim_all(struct fifo_loan *loan, uint32_t nparts) {
    uint32_t none = 0;
    return __atomic_compare_exchange_n(&loan->claimed, &none, nparts, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Counts copied parts. Pairs with parts_done(). */
static void count_parts(struct fifo_loan *loan, uint32_t nparts) {
    __atomic_fetch_add(&loan->done, nparts, __ATOMIC_RELEASE);
}

/* The number of copied parts. Pairs with count_parts() and put_in_slot(). */
static uint32_t parts_done(const struct fifo_loan *loan, bool *in_slot) {
    uint32_t done = __atomic_load_n(&loan->done, __ATOMIC_ACQUIRE);
    *in_slot = (done & LOAN_IN_SLOT) != 0;
    return done & ~(LOAN_IN_SLOT | LOAN_ALONE);
}

static size_t part_bytes(uint32_t part, uint32_t bytes, uint32_t room) {
    uint32_t rest = bytes - part * room;
    return rest < room ? rest : room;
}

/* The address at which this end can access these bytes of the other end's memory; NULL: it cannot. */
static char *reach(const struct loan_end *end, uint64_t address, uint64_t offset, uint32_t bytes) {
    if (end->way == LOAN_PROCESS)
        return (char *)(uintptr_t)address;
    return offset != 0 ? heap_view_at(end->view, offset, bytes) : NULL;
}

static const char *lent_payload(const struct loan_end *end, const struct fifo_loan *loan, uint32_t bytes) {
    return reach(end, loan->address, loan->offset, bytes);
}

/* ---- landings ---- */

int loan_can_land(const struct loan_end *end, uint64_t to, uint32_t bytes) {
    /* A fan's producer writes one payload for all consumers, so it can use no consumer's landing. */
    if (end->reading != NULL)
        return 0;
    bool reached = end->way != LOAN_HOST || end->pid != 0 || loan_offset(end, to) != 0;
    return reached && direct_is_worth(end, to, bytes);
}

/* The number that names a position in loan_offer.open and fan_line.reading. It is odd, and so never 0. */
static uint64_t open_at(uint64_t position) { return 2 * position + 1; }

static struct loan_offer *offer_at(const struct fifo_end *end, uint64_t position) {
    return &end->loans.offers[position & (end->nslots - 1)];
}

void loan_offer(struct fifo_end *end, struct loan_landing landing) {
    struct loan_offer *offer = offer_at(end, landing.position);
    offer->to = (uintptr_t)landing.to;
    offer->to_offset = loan_offset(&end->loans, offer->to);
    offer->bytes = landing.bytes;
    port_store_release(&offer->open, open_at(landing.position)); /* Pairs with is_offered() */
}

/* Takes an offer, or takes it back. Only one of the two ends succeeds. */
static bool take_offer(struct loan_offer *offer, uint64_t position) {
    uint64_t open = open_at(position);
    return __atomic_compare_exchange_n(&offer->open, &open, open - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Is there an offer for a payload of this size? */
static bool is_offered(const struct loan_offer *offer, uint64_t position, uint32_t bytes) {
    return port_load_acquire(&offer->open) == open_at(position) && offer->bytes == bytes; /* pairs with loan_offer() */
}

char *loan_land_there(struct fifo_end *end, uint32_t bytes) {
    struct loan_offer *offer = offer_at(end, end->position);
    if (!is_offered(offer, end->position, bytes))
        return NULL;
    char *to = reach(&end->loans, offer->to, offer->to_offset, bytes);
    return to != NULL && take_offer(offer, end->position) ? to : NULL;
}

int loan_will_carry(struct fifo_end *end, uint32_t bytes) {
    struct loan_offer *offer = offer_at(end, end->position);
    return end->loans.way == LOAN_HOST && end->loans.pid != 0 && is_offered(offer, end->position, bytes) &&
           take_offer(offer, end->position);
}

uint64_t loan_carry(const struct fifo_end *end, const void *payload, uint32_t bytes) {
    const struct loan_offer *offer = offer_at(end, end->position);
    return os_process_write(end->loans.pid, offer->to, payload, bytes) ? LOAN_LANDED : (uint64_t)(uintptr_t)payload;
}

/* ---- consumer ---- */

int loan_is_open(const struct fifo_end *end) { return end->loans.taken == NULL && direct_is_lent(fifo_header(end)); }

static bool read_far(const struct loan_end *end, char *to, uint64_t from, size_t bytes) {
    if (end->pid == 0)
        return false;
    if (os_process_read(end->pid, to, from, bytes))
        return true;
    log_info(CONN, "cannot read memory of process %d: %m; it is asked to copy", end->pid);
    return false;
}

/* What the consumer itself has stored in `to`: 0, an address, or LOAN_REFUSED. */
static uint64_t has_said(const struct fifo_loan *loan) { return __atomic_load_n(&loan->to, __ATOMIC_RELAXED); }

static void fetch_parts(struct fifo_end *end, struct fifo_loan *loan, uint32_t bytes, uint32_t room, char *to) {
    const char *from = lent_payload(&end->loans, loan, bytes);
    uint32_t nparts = parts_of(bytes, room), part;
    while ((part = claim_part(loan, nparts)) < nparts) {
        size_t at = (size_t)part * room;
        if (from != NULL)
            memcpy(to + at, from + at, part_bytes(part, bytes, room));
        else if (has_said(loan) != LOAN_REFUSED &&
                 !read_far(&end->loans, to + at, loan->address + at, part_bytes(part, bytes, room)))
            port_store_release(&loan->to, LOAN_REFUSED); /* pairs with loan_help() */
        count_parts(loan, 1);
    }
}

/* A consumer of a fan copies the whole payload by itself. */
static int fan_fetch(struct fifo_end *end, uint32_t bytes, char *to) {
    if (!loan_hold(end, bytes))
        return 0;
    const char *lent = end->loans.taken;
    memcpy(to, lent, bytes);
    loan_drop(end, bytes);
    end->loans.taken = to;
    return 1;
}

int loan_fetch(struct fifo_end *end, uint32_t bytes, char *to) {
    if (end->loans.reading != NULL)
        return fan_fetch(end, bytes, to);
    struct fifo_loan *loan = &fifo_header(end)->loan;
    if (loan->address == LOAN_LANDED || end->loans.way == LOAN_WIRE) { /* The payload has come already */
        end->loans.taken = loan->address == LOAN_LANDED ? to : (const char *)(uintptr_t)loan->address;
        return 1;
    }
    char *slot = slot_at(end, end->position), *place = to != NULL ? to : slot;
    const uint32_t room = part_room(&end->loans, loan, bytes);
    if (to != NULL && has_said(loan) == 0) {
        loan->to_offset = loan_offset(&end->loans, (uintptr_t)to);
        port_store_release(&loan->to, (uintptr_t)to); /* pairs with loan_help() */
    }
    fetch_parts(end, loan, bytes, room, place);
    bool in_slot;
    uint32_t done = parts_done(loan, &in_slot);
    if (!in_slot && (done < parts_of(bytes, room) || has_said(loan) == LOAN_REFUSED))
        return 0;
    end->loans.taken = in_slot ? slot : place;
    return 1;
}

int loan_is_near(const struct fifo_end *end, uint32_t bytes) {
    return lent_payload(&end->loans, &fifo_header(end)->loan, bytes) != NULL;
}

/* A consumer of a fan first stores in its line that it reads, and then checks whether the loan is stopped. The producer first stores that
 * the loan is stopped, and then checks which consumers read (stop_fan()). All four accesses have one total order. So either the consumer
 * sees that the loan is stopped, or the producer sees that the consumer reads. */
static bool fan_hold(struct fifo_end *end, const struct fifo_loan *loan) {
    __atomic_store_n(end->loans.reading, open_at(end->position), __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&loan->claimed, __ATOMIC_SEQ_CST) != LOAN_STOPPED)
        return true;
    __atomic_store_n(end->loans.reading, 0, __ATOMIC_RELAXED); /* nothing was read */
    return false;
}

int loan_hold(struct fifo_end *end, uint32_t bytes) {
    struct fifo_loan *loan = &fifo_header(end)->loan;
    if (end->loans.reading != NULL ? !fan_hold(end, loan)
                                   : !claim_all(loan, parts_of(bytes, part_room(&end->loans, loan, bytes))))
        return 0;
    end->loans.taken = lent_payload(&end->loans, loan, bytes);
    return 1;
}

void loan_drop(struct fifo_end *end, uint32_t bytes) {
    struct fifo_loan *loan = &fifo_header(end)->loan;
    end->loans.taken = NULL;
    if (end->loans.reading != NULL)
        __atomic_store_n(end->loans.reading, 0, __ATOMIC_RELEASE); /* pairs with stop_fan() */
    else
        count_parts(loan, parts_of(bytes, part_room(&end->loans, loan, bytes)));
}

/* ---- producer ---- */

/* Copies a payload that the consumer cannot read into its slot. From now on this end lends no payload. */
static void put_in_slot(struct fifo_end *end, struct fifo_slot_header *header, uint64_t position) {
    memcpy(slot_at(end, position), (const void *)(uintptr_t)header->loan.address, fifo_word_bytes(header->word));
    end->loans.least_bytes = end->loans.least_common_bytes = UINT32_MAX;
    __atomic_fetch_or(&header->loan.done, LOAN_IN_SLOT, __ATOMIC_RELEASE); /* pairs with parts_done() */
}

int loan_help(struct fifo_end *end, loan_copy *copy) {
    if (direct_is_over(end))
        return 0;
    uint64_t position = end->seen;
    struct fifo_slot_header *header = header_at(end, position);
    struct fifo_loan *loan = &header->loan;
    if (!is_open(header) || has_mark(loan, LOAN_IN_SLOT)) /* The consumer may be done with this slot */
        return 0;
    uint64_t to = port_load_acquire(&loan->to); /* pairs with loan_fetch() and fetch_parts() */
    if (to == LOAN_REFUSED) {
        put_in_slot(end, header, position);
        return 1;
    }
    uint32_t bytes = fifo_word_bytes(header->word), room = part_room(&end->loans, loan, bytes),
             nparts = parts_of(bytes, room);
    if (to == 0 || has_mark(loan, LOAN_ALONE))
        return 0;
    char *place = reach(&end->loans, to, loan->to_offset, bytes);
    uint32_t part = place == NULL && end->loans.pid == 0 ? nparts : claim_part(loan, nparts);
    if (part >= nparts)
        return 0;
    size_t at = (size_t)part * room, length = part_bytes(part, bytes, room);
    const char *from = (const char *)(uintptr_t)loan->address + at;
    if (place != NULL)
        copy(place + at, from, length);
    else if (!os_process_write(end->loans.pid, to + at, from, length))
        put_in_slot(end, header, position);
    count_parts(loan, 1);
    return 1;
}

/* ---- failure ---- */

/* May a wait that began at since_ns go on? False: it has taken too long. */
static bool may_wait_on(uint64_t since_ns) {
    if (os_now_ns() - since_ns > LOAN_STOP_NS) {
        log_warn(CONN, "a peer has stopped in the middle of a copy from or to this rank's memory");
        return false;
    }
    os_cpu_relax();
    return true;
}

static void stop_one(const struct fifo_end *end, uint64_t position) {
    struct fifo_slot_header *header = header_at(end, position);
    if (!is_open(header))
        return;
    uint32_t begun = __atomic_fetch_or(&header->loan.claimed, LOAN_STOPPED, __ATOMIC_RELAXED) & ~LOAN_STOPPED;
    uint64_t since_ns = os_now_ns();
    bool in_slot;
    while (parts_done(&header->loan, &in_slot) < begun &&
           (int64_t)(port_load_acquire(end->head) - position) <= 0 && /* pairs with fifo_consumed() */
           may_wait_on(since_ns))
        ;
}

static bool is_read(const struct fan_line *line, uint64_t position) {
    return __atomic_load_n(&line->reading, __ATOMIC_SEQ_CST) == open_at(position) && /* pairs with fan_hold() */
           (int64_t)(port_load_acquire(&line->head) - position) <= 0;                /* pairs with fifo_consumed() */
}

/* Producer of a fan: when this returns, no consumer reads the payload of the slot. */
static void stop_fan(const struct fifo_end *end, uint64_t position) {
    struct fifo_loan *loan = &header_at(end, position)->loan;
    uint64_t since_ns = os_now_ns();
    __atomic_store_n(&loan->claimed, LOAN_STOPPED, __ATOMIC_SEQ_CST); /* pairs with fan_hold() */
    for (uint32_t k = 0; k < end->nheads; k++)
        while (is_read(fan_line_at(end, k), position) && may_wait_on(since_ns))
            ;
}

/* Takes an offer back. If the producer has already taken the offer, the function waits until the producer publishes the slot. */
static void take_offer_back(const struct fifo_end *end, uint64_t position) {
    const struct loan_landing *landing = &end->loans.landings[position % LOAN_LANDINGS];
    uint64_t since_ns = os_now_ns();
    if (landing->to == NULL || take_offer(offer_at(end, position), position))
        return;
    while ((int64_t)(port_load_acquire(end->tail) - position) <= 0 &&
           may_wait_on(since_ns)) /* pairs with fifo_publish() */
        ;
}

void loan_stop(struct fifo_end *end, int producing) {
    uint64_t first = fifo_load_head(end), behind = producing ? end->loans.until : port_load_acquire(end->tail);
    if (end->loans.way == LOAN_NONE ||
        end->loans.reading != NULL) /* A consumer of a fan reads nothing now, and must not stop the other consumers */
        return;
    for (uint64_t position = first; (int64_t)(behind - position) > 0; position++)
        if (end->nheads > 0)
            stop_fan(end, position);
        else
            stop_one(end, position);
    for (uint64_t position = end->position; !producing && (int64_t)(end->loans.landings_end - position) > 0; position++)
        if (end->loans.way != LOAN_WIRE)
            take_offer_back(end, position);
}
