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
    struct party *next; /* that waits as well, or that is launched with it */
    struct gpu_entry *set;
    int n;
    bool is_inside; /* of messages: it is launched with those that are looked at, if all have come */
    bool is_alone;  /* of messages: with `done`, its thread launches it */
    bool taken;     /* by the thread that launches: it cannot be taken back any more */
    bool done;      /* atomic: what is above and below is its thread's again */
    enum collet_result result;
    char text[ERR_TEXT_BYTES];
};

/* By the thread that launches. The calls of its own party, which is the first one, and of those behind it: as many as there is room for.
 * How many there are. */
int gpu_party_merge(const struct party *own, struct gpu_entry *set, int most);

/* How it went; then the parties may be gone. */
void gpu_party_tell(struct party *parties, enum collet_result result);

/* By the thread of a party that is done. */
enum collet_result gpu_party_end(const struct party *party);

#endif
