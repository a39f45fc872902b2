/* SPDX-License-Identifier: Apache-2.0
 *
 * A party: the calls of one thread whose ranks share a GPU with ranks of other threads. The thread waits on the host for those threads
 * (gpu_company.h). The thread that comes last launches for all, and tells them. Read gpu_party.c next, and then gpu_messages.c.
 */
#ifndef COLLET_LAYERS_GPU_GPU_PARTY_H
#define COLLET_LAYERS_GPU_GPU_PARTY_H

#include "layers/gpu/gpu_company.h"

/* The calls of one thread, on its stack. */
struct party {
    struct party *next; /* the next party that waits, or that is launched together with this one */
    struct gpu_entry *set;
    int n;
    bool is_inside; /* messages: the party is already in the list that is being gathered */
    bool is_alone;  /* messages: the party's own thread launches them, when `done` is set */
    bool taken;     /* the launching thread has taken the party: its own thread cannot take it back any more */
    bool done;      /* atomic: all other fields belong to the party's thread again */
    enum collet_result result;
    char text[ERR_TEXT_BYTES];
};

/* Called by the thread that launches. Collects the calls of its own party, which is the first one, and of the parties behind it: at most
 * `most`. Returns their number. */
int gpu_party_merge(const struct party *own, struct gpu_entry *set, int most);

/* Tells the result to the parties. When it returns, the parties may be gone. */
void gpu_party_tell(struct party *parties, enum collet_result result);

/* Called by the thread of a party that is done. Returns its result. */
enum collet_result gpu_party_end(const struct party *party);

#endif
