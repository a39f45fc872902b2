/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks in two processes, whose memory is shared by handles or by descriptors.
 */
#include "gpu/accept.h"
#include "common/ranks.h"

#include <stdlib.h>

static void run_process(struct ranks *ranks, int rank) {
    struct collet_config config = {.size = sizeof(config)};
    char gpu[128];
    struct team team = {.nranks = 1};
    ngpus = side->count(gpu, sizeof(gpu));
    config.device = COLLET_DEVICE_CUDA(rank % ngpus);
    side->use(rank % ngpus);
    ranks_new_id(ranks, rank);
    must(collet_comm_init_rank_config(&team.comms[0], ranks->nranks, ranks->id, rank, &config),
         "collet_comm_init_rank_config");
    team.streams[0] = side->stream();
    for (int k = 0; k < 12; k++) {
        char why[TRIAL_WHY_BYTES], name[TRIAL_NAME_BYTES];
        random_seed(77777 + 999983ull * (uint64_t)k);
        struct trial_call call =
            call_of((enum prog_collective)(k % PROG_ALLGATHERV), COLLET_FLOAT32, COLLET_SUM, false, ranks->nranks);
        struct mirror m;
        trial_name(&call, name);
        ranks_doing(ranks, "%s", name);
        mirror_create(&m, &call, rank, rank % ngpus, MEMORY_PLAIN, NULL);
        ranks_try(ranks, rank, trial_run_in(&m.gpu, team.comms[0], team.streams[0]));
        side->stream_wait(team.streams[0]);
        if (!mirror_check(&m, why))
            ranks_fail(ranks, "%s: %s", name, why);
        mirror_destroy(&m);
    }
    team_destroy(&team);
}

void part_processes(void) {
    static const char *const ways[] = {"0", "1"}, *const names[] = {"2 processes, handles", "2 processes, descriptors"};
    report_expect(2);
    for (int k = 0; k < 2; k++) {
        struct ranks_job job = {.processes = 2, .limit_s = slow ? 250 : 25, .run = run_process};
        char why[RANKS_TEXT_BYTES] = "";
        setenv("COLLET_CUMEM_ENABLE", ways[k], 1);
        report_doing("%s", names[k]);
        judge(ranks_run(&job, why), names[k], why);
    }
    unsetenv("COLLET_CUMEM_ENABLE");
}
