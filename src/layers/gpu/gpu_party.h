/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of a thread whose ranks share a GPU with ranks of other threads, while it waits on the host for those threads (gpu_company.h).
 * Whoever comes last launches for all, and tells them. Read gpu_party.c next, and then gpu_messages.c.
 */
#ifndef COLLET_LAYERS_GPU_GPU_PARTY_H
#define COLLET_LAYERS_GPU_GPU_PARTY_H

#include "layers/gpu/gpu_company.h"

/* The calls of one thread, on its stack. */
struct party {
    struct party *next; /* the next party that waits, or that is launched together with this one */
    struct gpu_entry *set;
    int n;
    bool is_inside; /* messages: it is already in the list that is being gathered */
    bool is_alone;  /* messages: its own thread launches it, when `done` is set */
    bool taken;     /* by the thread that launches: it cannot be taken back any more */
    bool done;      /* atomic: what is above and below is its thread's again */
    enum collet_result result;
    char text[ERR_TEXT_BYTES];
};

/* Called by the thread that launches. Collects the calls of its own party, which is the first one, and of the parties behind it: at most
 * `most`. Returns their number. */
int gpu_party_merge(const struct party *own, struct gpu_entry *set, int most);

/* How it went; then the parties may be gone. */
void gpu_party_tell(struct party *parties, enum collet_result result);

/* Called by the thread of a party that is done. Returns its result. */
enum collet_result gpu_party_end(const struct party *party);

#endif
