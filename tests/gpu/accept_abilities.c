/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine can do: each is tried, apart, as it may hang or crash.
 */
#include "gpu/accept.h"
#include "api/comm.h"
#include "layers/gpu/windows.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool refused; /* in the child */

static void try_one_gpu(void) {
    for (int gpu = 0, all = ngpus; gpu < all; gpu++) {
        struct collet_comm *comm;
        const float one = 1;
        float got = 0;
        side->use(gpu);
        must(collet_comm_init_all(&comm, 1, (const int[]){COLLET_DEVICE_CUDA(gpu)}), "collet_comm_init_all");
        float *number = side->memory(sizeof(one), MEMORY_PLAIN);
        void *stream = side->stream();
        side->copy(number, &one, sizeof(one));
        must(collet_allreduce(number, number, 1, COLLET_FLOAT32, COLLET_SUM, comm, stream), "collet_allreduce");
        side->stream_wait(stream);
        side->copy(&got, number, sizeof(got));
        judge(got == 1, "a sum of one rank", "is another number");
        must(collet_comm_destroy(comm), "collet_comm_destroy");
    }
}

static void try_all_gpus(void) {
    struct team team;
    team_create(&team, RANKS, "");
    struct numbers numbers = ones(&team);
    sum_once(&team, &numbers, team.streams);
    team_wait(&team);
    expect(&team, "a sum", &numbers, RANKS);
    team_destroy(&team);
}

static void try_kind(enum gpu_side_memory kind) {
    struct team team;
    team_create(&team, 1, "");
    struct trial_call call = call_of(PROG_ALLREDUCE, COLLET_FLOAT32, COLLET_SUM, false, 1);
    run_mirrored(&team, &call, kind);
    team_destroy(&team);
}
static void try_pool(void) { try_kind(MEMORY_POOL); }
static void try_managed(void) { try_kind(MEMORY_MANAGED); }

static void try_lines(void) {
    if (ngpus < 2)
        printf("there is one GPU\n");
    refused = ngpus < 2 || !lines_go_between_gpus();
}

static void try_switches(void) {
    struct collet_comm *comms[2];
    struct collet_window *windows[2];
    struct gpu_window_place place;
    void *memory[2];
    if (ngpus < 2) {
        printf("there is one GPU\n");
        refused = true;
        return;
    }
    must(collet_comm_init_all(comms, 2, (const int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1)}),
         "collet_comm_init_all");
    must(collet_group_start(), "collet_group_start");
    for (int gpu = 0; gpu < 2; gpu++) {
        must(collet_mem_alloc(&memory[gpu], WINDOW_BYTES, COLLET_DEVICE_CUDA(gpu)), "collet_mem_alloc");
        must(collet_win_register(comms[gpu], memory[gpu], WINDOW_BYTES, &windows[gpu]), "collet_win_register");
    }
    must(collet_group_end(), "collet_group_end");
    const bool found = gpu_window_find(comms[0]->chan, memory[0], 1, &place);
    if (found && gpu_window_has_team(place.window))
        return;
    printf("no switch knows a window of both (COLLET_DEBUG=INFO says why)\n");
    refused = true;
}

static const struct ability {
    const char *name;
    void (*run)(void);
} abilities[] = {
    {"a rank on each GPU, alone", try_one_gpu},
    {"4 ranks on the GPUs there are", try_all_gpus},
    {"LL128 between GPUs 0 and 1", try_lines},
    {"sums by switches, of GPUs 0 and 1", try_switches},
    {"graphs", part_graphs},
    {"memory of pools", try_pool},
    {"managed memory", try_managed},
};
#define ABILITY_SECONDS 8

/* Of the part's seconds, if it has any: so some that hang do not take the time of all others. */
static unsigned ability_seconds(void) {
    unsigned alone = ABILITY_SECONDS * (slow ? 20 : 1);
    unsigned left = report_seconds_left();
    return part_seconds > 0 && left < alone ? left : alone;
}

static void run_ability(const struct ability *ability, int to) {
    char gpu[160];
    dup2(to, STDOUT_FILENO);
    alarm(ability_seconds());
    ngpus = side->count(gpu, sizeof(gpu));
    ability->run();
    fflush(stdout);
    _exit(refused || report_failures() > 0);
}

/* The last line of what comes through the pipe. */
static void last_line(FILE *from, char *line, size_t room) {
    char next[512];
    snprintf(line, room, "nothing was said");
    while (fgets(next, sizeof(next), from) != NULL)
        snprintf(line, room, "%s", next + strspn(next, " "));
    line[strcspn(line, "\n")] = '\0';
}

/* That a machine cannot do something is no failure. */
static void print_ability(const char *name, int status, const char *why) {
    if (status == 0)
        printf("  can     %s\n", name);
    else
        printf("  cannot  %s: %s\n", name, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : why);
}

static void try_ability(const struct ability *ability) {
    char why[512];
    int pipes[2], status;
    fflush(stdout);
    if (pipe(pipes) != 0)
        return;
    pid_t child = fork();
    if (child == 0)
        run_ability(ability, pipes[1]);
    close(pipes[1]);
    FILE *said = fdopen(pipes[0], "r");
    last_line(said, why, sizeof(why));
    fclose(said);
    waitpid(child, &status, 0);
    print_ability(ability->name, status, why);
    judge(true, ability->name, "");
}

void part_abilities(void) {
    enum { ABILITIES = sizeof(abilities) / sizeof(*abilities) };
    report_expect(ABILITIES);
    for (int k = 0; k < ABILITIES; k++) {
        report_doing("%s", abilities[k].name);
        if (ability_seconds() > 0)
            try_ability(&abilities[k]);
        else
            printf("  cannot  %s: not tried, the time is up\n", abilities[k].name);
    }
}
