/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/elastic/agree.h"

#include "base/memory.h"
#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARITY 8
#define PATIENCE_NS 2000000000ull /* the first rank, which can name the missing one, gives up first */

enum collet_result agreement_start(struct agreement *agreement, const struct agreement_terms *terms,
                                   const void *entry) {
    const bool first = terms->self == 0;
    *agreement = (struct agreement){.terms = *terms};
    agreement->deadline_ns = os_now_ns() + (uint64_t)terms->timeout_s * 1000000000u + (first ? 0 : PATIENCE_NS);
    COLLET_TRY(memory_get(&agreement->table, (size_t)terms->nranks, terms->entry_bytes,
                          "no memory for what %d ranks say", terms->nranks));
    if (!first)
        return boot_send(terms->boot, terms->ranks[0], terms->key, entry, terms->entry_bytes);
    memcpy(agreement->table, entry, terms->entry_bytes);
    agreement->next = 1;
    return COLLET_SUCCESS;
}

static enum collet_result await_rank(const struct agreement *agreement, int index, const char *what) {
    const struct agreement_terms *terms = &agreement->terms;
    return boot_check_wait(terms->boot, terms->ranks[index], agreement->deadline_ns, what);
}

static enum collet_result gather(struct agreement *agreement) {
    const struct agreement_terms *terms = &agreement->terms;
    for (; agreement->next < terms->nranks; agreement->next++) {
        const int from = terms->ranks[agreement->next];
        char *entry = agreement->table + (size_t)agreement->next * terms->entry_bytes, what[64];
        size_t bytes = 0;
        enum collet_result result = boot_try_recv(terms->boot, from, terms->key, entry, terms->entry_bytes, &bytes);
        snprintf(what, sizeof what, "call %s", terms->call);
        if (result == COLLET_IN_PROGRESS)
            return await_rank(agreement, agreement->next, what);
        COLLET_TRY(result);
        if (bytes != terms->entry_bytes)
            return err_set(COLLET_ERR_INTERNAL, "rank %d passed %zu bytes to %s, not %zu", from, bytes, terms->call,
                           terms->entry_bytes);
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
    agreement->table = NULL;
}
