/* SPDX-License-Identifier: Apache-2.0
 *
 * All of some ranks tell each other a few bytes; then each has the same table. It can be polled, and several can be under
 * way in one thread.
 *
 *      each rank ── its entry ──▶ the first rank ── the table ──▶ 8 ranks, each ── the table ──▶ 8 more …
 */
#ifndef COLLET_LAYERS_ELASTIC_AGREE_H
#define COLLET_LAYERS_ELASTIC_AGREE_H

#include "base/wait.h"
#include "topo/probe/bundle.h"

/* Who takes part, and in what. */
struct agreement_terms {
    struct boot *boot;
    uint64_t key;       /* of the letters; no other agreement of these ranks has it at the same time */
    const int *ranks;   /* those that take part, in the same order on each */
    int nranks, self;   /* how many, and the caller's index among them */
    size_t entry_bytes; /* ≤ BOOT_MESSAGE_BYTES */
    const char *call;   /* what each rank has to call, for messages */
    int timeout_s;
};

struct agreement {
    struct agreement_terms terms;
    char *table;   /* entries in the order of terms.ranks; complete when agreement_try() succeeds */
    int next;      /* of the first rank: whose entry is waited for */
    uint8_t *have; /* of the first rank: whose entries have come */
    struct bundle bundle;
    uint64_t deadline_ns;
    struct late late;
};

/* Says this rank's entry. terms->ranks and ->call must stay until agreement_fini(). */
enum collet_result agreement_start(struct agreement *agreement, const struct agreement_terms *terms, const void *entry);

/* SUCCESS when the table is complete, IN_PROGRESS, or why that cannot be. */
enum collet_result agreement_try(struct agreement *agreement);

void agreement_fini(struct agreement *agreement); /* harmless on a zeroed one */

#endif
