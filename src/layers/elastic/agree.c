/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/elastic/agree.h"

#include "base/memory.h"
#include "base/os.h"
#include "boot/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARITY 8
#define PATIENCE_NS 2000000000ull /* the first rank can name the missing rank, so it gives up this much earlier */

enum collet_result agreement_start(struct agreement *agreement, const struct agreement_terms *terms,
                                   const void *entry) {
    const bool first = terms->self == 0;
    *agreement = (struct agreement){.terms = *terms};
    agreement->deadline_ns = os_now_ns() + (uint64_t)terms->timeout_s * 1000000000u + (first ? 0 : PATIENCE_NS);
    COLLET_TRY(memory_get(&agreement->table, (size_t)terms->nranks, terms->entry_bytes,
                          "no memory for what %d ranks say", terms->nranks));
    if (!first)
        return boot_send(terms->boot, terms->ranks[0], terms->key, entry, terms->entry_bytes);
    COLLET_TRY(
        memory_get(&agreement->have, (size_t)terms->nranks, 1, "no memory to agree with %d ranks", terms->nranks));
    memcpy(agreement->table, entry, terms->entry_bytes);
    agreement->have[0] = 1;
    agreement->next = 1;
    return COLLET_SUCCESS;
}

static enum collet_result await_rank(struct agreement *agreement, int index, const char *what) {
    const struct agreement_terms *terms = &agreement->terms;
    return boot_check_wait(terms->boot, &agreement->late, terms->ranks[index], agreement->deadline_ns, what);
}

static enum collet_result take_entry(struct agreement *agreement, int index) {
    const struct agreement_terms *terms = &agreement->terms;
    char *entry = agreement->table + (size_t)index * terms->entry_bytes;
    const int from = terms->ranks[index];
    size_t bytes = 0;
    if (agreement->have[index])
        return COLLET_SUCCESS;
    COLLET_TRY(boot_try_recv(terms->boot, from, terms->key, entry, terms->entry_bytes, &bytes));
    if (bytes != terms->entry_bytes)
        return err_set(COLLET_ERR_INTERNAL, "rank %d passed %zu bytes to %s, not %zu", from, bytes, terms->call,
                       terms->entry_bytes);
    agreement->have[index] = 1;
    return COLLET_SUCCESS;
}

/* Are entries missing for so long that it must be logged? Then logs the ranks that have not called yet. */
static enum collet_result await_entries(struct agreement *agreement) {
    const struct agreement_terms *terms = &agreement->terms;
    const uint64_t now_ns = os_now_ns();
    char missing[80], what[160];
    if (agreement->late.since_ns != 0 && (now_ns >= agreement->late.due_ns || now_ns > agreement->deadline_ns))
        for (int index = agreement->next + 1; index < terms->nranks; index++)
            if (take_entry(agreement, index) < 0)
                return COLLET_ERR_INTERNAL;
    ranks_text(agreement->have, terms->nranks, missing, sizeof missing);
    snprintf(what, sizeof what, "call %s; these have not: %s", terms->call, missing);
    return await_rank(agreement, agreement->next, what);
}

static enum collet_result gather(struct agreement *agreement) {
    for (; agreement->next < agreement->terms.nranks; agreement->next++) {
        enum collet_result result = take_entry(agreement, agreement->next);
        if (result == COLLET_IN_PROGRESS)
            return await_entries(agreement);
        COLLET_TRY(result);
    }
    return COLLET_SUCCESS;
}

static enum collet_result fetch_table(struct agreement *agreement) {
    const struct agreement_terms *terms = &agreement->terms;
    const int parent = (terms->self - 1) / ARITY;
    const size_t size = (size_t)terms->nranks * terms->entry_bytes;
    char what[160];
    enum collet_result result = bundle_try_recv(&agreement->bundle, terms->boot, terms->ranks[parent], terms->key);
    snprintf(what, sizeof what, "hand on what each rank passed to %s: did all ranks call it?", terms->call);
    if (result == COLLET_IN_PROGRESS)
        return await_rank(agreement, parent, what);
    COLLET_TRY(result);
    if (agreement->bundle.size != size)
        return err_set(COLLET_ERR_INTERNAL, "rank %d handed on %zu bytes of a table of %zu", terms->ranks[parent],
                       agreement->bundle.size, size);
    memcpy(agreement->table, agreement->bundle.bytes, size);
    return COLLET_SUCCESS;
}

enum collet_result agreement_try(struct agreement *agreement) {
    const struct agreement_terms *terms = &agreement->terms;
    COLLET_TRY(terms->self == 0 ? gather(agreement) : fetch_table(agreement));
    const int child = ARITY * terms->self + 1;
    for (int index = child; index < child + ARITY && index < terms->nranks; index++)
        COLLET_TRY(bundle_send(terms->boot, terms->ranks[index], terms->key, agreement->table,
                               (size_t)terms->nranks * terms->entry_bytes));
    return COLLET_SUCCESS;
}

void agreement_fini(struct agreement *agreement) {
    bundle_fini(&agreement->bundle);
    free(agreement->table);
    free(agreement->have);
    agreement->table = NULL;
    agreement->have = NULL;
}
