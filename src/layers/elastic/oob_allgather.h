/* SPDX-License-Identifier: Apache-2.0
 *
 * An allgather over the control plane: some ranks send each other a few bytes, and each rank gets the same table. An allgather is polled,
 * so one thread can have several allgathers under way.
 *
 *      each rank ── its entry ──▶ the first rank ── the table ──▶ 8 ranks, each ── the table ──▶ 8 more …
 */
#ifndef COLLET_LAYERS_ELASTIC_OOB_ALLGATHER_H
#define COLLET_LAYERS_ELASTIC_OOB_ALLGATHER_H

#include "base/wait.h"
#include "topo/probe/bundle.h"

/* The ranks that take part, and the call that they make. */
struct oob_allgather_terms {
    struct boot *boot;
    /* Key of the letters. No other allgather of these ranks has this key at the same time. */
    uint64_t key;
    const int *ranks;   /* ranks that take part, in the same order on each rank */
    int nranks, self;   /* number of ranks; index of this rank among them */
    size_t entry_bytes; /* at most BOOT_MESSAGE_BYTES */
    const char *call;   /* name of the call that each rank must make, for error texts */
    int timeout_s;
};

struct oob_allgather {
    struct oob_allgather_terms terms;
    char *table;   /* entries in the order of terms.ranks; complete if oob_allgather_try() succeeds */
    int next;      /* first rank only: index of the entry for which it waits */
    uint8_t *have; /* first rank only: [index] the entry has come */
    struct bundle bundle;
    uint64_t deadline_ns;
    struct late late;
};

/* Sends this rank's entry. terms->ranks and ->call must stay valid until oob_allgather_fini(). */
enum collet_result oob_allgather_start(struct oob_allgather *allgather, const struct oob_allgather_terms *terms,
                                       const void *entry);

/* SUCCESS: the table is complete. IN_PROGRESS: call again. Any other code says why the table cannot become complete. */
enum collet_result oob_allgather_try(struct oob_allgather *allgather);

void oob_allgather_fini(struct oob_allgather *allgather); /* does nothing if zeroed */

#endif
