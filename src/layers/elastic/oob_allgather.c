/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/elastic/oob_allgather.h"

#include "base/memory.h"
#include "base/os.h"
#include "boot/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARITY 8
#define PATIENCE_NS 2000000000ull /* the first rank can name the missing rank, so it gives up this much earlier */

enum collet_result oob_allgather_start(struct oob_allgather *allgather, const struct oob_allgather_terms *terms,
                                       const void *entry) {
    const bool first = terms->self == 0;
    *allgather = (struct oob_allgather){.terms = *terms};
    allgather->deadline_ns = os_now_ns() + (uint64_t)terms->timeout_s * 1000000000u + (first ? 0 : PATIENCE_NS);
    COLLET_TRY(memory_get(&allgather->table, (size_t)terms->nranks, terms->entry_bytes,
                          "no memory for what %d ranks say", terms->nranks));
    if (!first)
        return boot_send(terms->boot, terms->ranks[0], terms->key, entry, terms->entry_bytes);
    COLLET_TRY(
        memory_get(&allgather->have, (size_t)terms->nranks, 1, "no memory to agree with %d ranks", terms->nranks));
    memcpy(allgather->table, entry, terms->entry_bytes);
    allgather->have[0] = 1;
    allgather->next = 1;
    return COLLET_SUCCESS;
}

static enum collet_result await_rank(struct oob_allgather *allgather, int index, const char *what) {
    const struct oob_allgather_terms *terms = &allgather->terms;
    return boot_check_wait(terms->boot, &allgather->late, terms->ranks[index], allgather->deadline_ns, what);
}

static enum collet_result take_entry(struct oob_allgather *allgather, int index) {
    const struct oob_allgather_terms *terms = &allgather->terms;
    char *entry = allgather->table + (size_t)index * terms->entry_bytes;
    const int from = terms->ranks[index];
    size_t bytes = 0;
    if (allgather->have[index])
        return COLLET_SUCCESS;
    COLLET_TRY(boot_try_recv(terms->boot, from, terms->key, entry, terms->entry_bytes, &bytes));
    if (bytes != terms->entry_bytes)
        return err_set(COLLET_ERR_INTERNAL, "rank %d passed %zu bytes to %s, not %zu", from, bytes, terms->call,
                       terms->entry_bytes);
    allgather->have[index] = 1;
    return COLLET_SUCCESS;
}

/* Have entries been missing for so long that it must be logged? Then logs which ranks have not called yet. */
static enum collet_result await_entries(struct oob_allgather *allgather) {
    const struct oob_allgather_terms *terms = &allgather->terms;
    const uint64_t now_ns = os_now_ns();
    char missing[80], what[160];
    if (allgather->late.since_ns != 0 && (now_ns >= allgather->late.due_ns || now_ns > allgather->deadline_ns))
        for (int index = allgather->next + 1; index < terms->nranks; index++)
            if (take_entry(allgather, index) < 0)
                return COLLET_ERR_INTERNAL;
    ranks_text(allgather->have, terms->nranks, missing, sizeof missing);
    snprintf(what, sizeof what, "call %s; these have not: %s", terms->call, missing);
    return await_rank(allgather, allgather->next, what);
}

static enum collet_result gather(struct oob_allgather *allgather) {
    for (; allgather->next < allgather->terms.nranks; allgather->next++) {
        enum collet_result result = take_entry(allgather, allgather->next);
        if (result == COLLET_IN_PROGRESS)
            return await_entries(allgather);
        COLLET_TRY(result);
    }
    return COLLET_SUCCESS;
}

static enum collet_result fetch_table(struct oob_allgather *allgather) {
    const struct oob_allgather_terms *terms = &allgather->terms;
    const int parent = (terms->self - 1) / ARITY;
    const size_t size = (size_t)terms->nranks * terms->entry_bytes;
    char what[160];
    enum collet_result result = bundle_try_recv(&allgather->bundle, terms->boot, terms->ranks[parent], terms->key);
    snprintf(what, sizeof what, "hand on what each rank passed to %s: did all ranks call it?", terms->call);
    if (result == COLLET_IN_PROGRESS)
        return await_rank(allgather, parent, what);
    COLLET_TRY(result);
    if (allgather->bundle.size != size)
        return err_set(COLLET_ERR_INTERNAL, "rank %d handed on %zu bytes of a table of %zu", terms->ranks[parent],
                       allgather->bundle.size, size);
    memcpy(allgather->table, allgather->bundle.bytes, size);
    return COLLET_SUCCESS;
}

enum collet_result oob_allgather_try(struct oob_allgather *allgather) {
    const struct oob_allgather_terms *terms = &allgather->terms;
    COLLET_TRY(terms->self == 0 ? gather(allgather) : fetch_table(allgather));
    const int child = ARITY * terms->self + 1;
    for (int index = child; index < child + ARITY && index < terms->nranks; index++)
        COLLET_TRY(bundle_send(terms->boot, terms->ranks[index], terms->key, allgather->table,
                               (size_t)terms->nranks * terms->entry_bytes));
    return COLLET_SUCCESS;
}

void oob_allgather_fini(struct oob_allgather *allgather) {
    bundle_fini(&allgather->bundle);
    free(allgather->table);
    free(allgather->have);
    allgather->table = NULL;
    allgather->have = NULL;
}
