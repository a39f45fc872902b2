/* SPDX-License-Identifier: Apache-2.0
 *
 * Landings: a consumer says where the payloads of its next slots must go (layers/memory/loan.h), and the producer's NIC
 * writes them there.
 *
 *    consumer                                                                          producer
 *    landing for step s    ── WRITE of the landing, immediate (LANDED, s) ───────────▶ landings[s]; known once the write's
 *                                                                                      completion was taken
 *    program's memory      ◀── WRITE of the payload, immediate (LANDED, s) ──────────  sends step s
 *    slot s                ◀── WRITE of the payload, immediate (s) ──────────────────  sent step s before it knew
 *
 * The producer does not wait for landings, and the immediate says where the payload is. So nothing depends on whether a
 * landing comes in time, or at all. The consumer offers only memory that its program has registered (registration.h), and only until
 * the step has come: then the producer has sent the step, and does not use its landing again. In a call that fails, some
 * steps never come, so its queue pairs are moved to the error state (verbs.c).
 */
#include "base/hash.h"
#include "layers/memory/registration.h"
#include "transport/verbs/verbs_end.h"

#include <string.h>

/* The CRC of all fields before it. */
static uint32_t verbs_landing_check(const struct verbs_landing *landing) {
    uint32_t check = hash_mix(hash_mix(1, landing->step), landing->address);
    check = hash_mix(check, (uint64_t)landing->bytes << 32 | landing->rails);
    for (int r = 0; r < VERBS_RAILS_MAX; r++)
        check = hash_mix(check, landing->keys[r]);
    return check;
}

/* ---- consumer ---- */

static bool fill(const struct conn *conn, const struct loan_landing *from, struct verbs_landing *landing) {
    const struct verbs_end *end = conn->impl;
    *landing = (struct verbs_landing){.step = from->position, .address = (uintptr_t)from->to, .bytes = from->bytes};
    for (int r = 0; r < end->nrails; r++) {
        struct registration_keys keys;
        if (end->rails[r].state == VERBS_RAIL_UP &&
            registration_keys(end->host, end->rails[r].port->device, landing->address, landing->bytes, &keys) &&
            keys.writable) {
            landing->keys[r] = keys.remote;
            landing->rails |= 1u << r;
        }
    }
    landing->check = verbs_landing_check(landing);
    return landing->rails != 0;
}

void verbs_tell_landings(struct conn *conn) {
    struct verbs_end *end = conn->impl;
    const struct loan_end *loans = &conn->end.loans;
    if (loans->way != LOAN_WIRE || !end->theirs.takes_landings || end->nlive == 0)
        return;
    if ((int64_t)(*conn->end.tail - end->told) > 0) /* slots that have come need no landing */
        end->told = *conn->end.tail;
    for (; (int64_t)(loans->landings_end - end->told) > 0; end->told++) {
        const struct loan_landing *from = &loans->landings[end->told % LOAN_LANDINGS];
        struct verbs_landing *landing = &end->landings[end->told & (conn->end.nslots - 1)];
        const int index = end->live[end->told % (uint64_t)end->nlive];
        if (from->position != end->told || from->to == NULL)
            continue;
        if (!verbs_qp_has_room(verbs_qp_at(end, index), 1))
            return;
        if (fill(conn, from, landing))
            verbs_post_landing(conn, index, landing);
    }
}

bool verbs_may_land(const struct conn *conn) {
    const struct verbs_end *end = conn->impl;
    const uint64_t tail = *conn->end.tail;
    return (int64_t)(end->told - tail) > 0 || (int64_t)(conn->end.loans.landings_end - tail) > 0;
}

/* ---- producer ---- */

void verbs_take_landing(struct conn *conn, uint64_t step) {
    struct verbs_end *end = conn->impl;
    uint32_t slot = (uint32_t)step & (conn->end.nslots - 1);
    const struct verbs_landing landing = end->landings[slot];
    /* Otherwise a later landing has overwritten this one. */
    if (landing.step == step && landing.check == verbs_landing_check(&landing))
        end->known[slot] = landing;
}
