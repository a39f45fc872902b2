/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that does not come.
 */
#include "gpu/accept.h"
#include "base/os.h"

#include <stdio.h>

/* A rank that does not come leaves the others spinning on the GPU; an abort ends them, and the GPU works on. */
void part_abort(void) {
    struct team team;
    team_create(&team, RANKS, "");
    struct numbers numbers = ones(&team);
    sum_once(&team, &numbers, team.streams);
    team_wait(&team);
    sum_some(&team, RANKS - 1, &numbers, team.streams);
    judge(!side->stream_wait_for(team.streams[0], 300), "a sum that one rank does not join", "is done");
    uint64_t start = os_now_ns();
    for (int rank = 0; rank < RANKS; rank++)
        must(collet_comm_abort(team.comms[rank]), "collet_comm_abort");
    judge(side->stream_wait_for(team.streams[0], 5000), "after an abort", "the GPU is not free after 5 s");
    printf("  aborted after %.0f ms\n", (double)(os_now_ns() - start) / 1e6);
    for (int rank = 0; rank < RANKS; rank++)
        side->stream_free(team.streams[rank]);
    numbers_free(&team, &numbers);
    part_small(); /* the GPU is usable */
}
