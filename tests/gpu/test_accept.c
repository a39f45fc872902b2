/* SPDX-License-Identifier: Apache-2.0
 *
 * The acceptance of GPU communicators, on one GPU or more. Without a GPU it is skipped; with --emulated it runs on the
 * emulation of one, and shows that it would work.
 *
 *    test_accept [--emulated | --slow] [--seconds N] [--seed N] [--results FILE] [part …]
 *
 * parts: see the table; "none" only looks for GPUs. --slow: what it runs on is slow, so small sizes and few rounds. --results:
 * a line for each figure is added to this file, its columns separated by tabs.
 *
 * Every case has inputs of its own, drawn from a seed that is printed, and buffers at odd places full of a pattern. Most are
 * filled and checked by kernels (accept_case.c), one in twenty by the host against a reference in double precision
 * (accept_mirror.c); both look at every byte beside the results.
 */
#include "common/emulated_gpu.h"
#include "gpu/accept.h"
#include "gpu/accept_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct gpu_side *side;
const struct accept_kernels *kernels;
bool slow;
int ngpus, part_seconds;
static uint64_t seed; /* 0: the time */

static const struct part {
    const char *name;
    void (*run)(void);
    bool in_all; /* run when none is named */
    bool forks;  /* so it comes before this process has touched a GPU */
} parts[] = {
    {"abilities", part_abilities, false, true},
    {"modes", part_modes, true, true},
    {"sweep", part_sweep, true, false},
    {"processes", part_processes, true, true},
    {"windows", part_windows, true, true},
    {"small", part_small, false, false},
    {"small128", part_small128, false, false},
    {"chosen", part_chosen, true, false},
    {"simple", part_simple, true, false},
    {"ll128", part_ll128, true, false},
    {"ll", part_ll, true, false},
    {"memory", part_memory, true, false},
    {"streams", part_streams, true, false},
    {"graphs", part_graphs, true, false},
    {"rankgraphs", part_rankgraphs, true, false},
    {"replays", part_replays, true, false},
    {"device", part_device, true, false},
    {"abort", part_abort, true, false},
};
enum { PARTS = sizeof(parts) / sizeof(*parts) };

static bool named(const char *name, int argc, char **argv) {
    for (int k = 1; k < argc; k++)
        if (strcmp(argv[k], name) == 0)
            return true;
    return false;
}

static const char *option(const char *name, int argc, char **argv) {
    for (int k = 1; k + 1 < argc; k++)
        if (strcmp(argv[k], name) == 0)
            return argv[k + 1];
    return NULL;
}

static void read_options(int argc, char **argv) {
    const char *seconds = option("--seconds", argc, argv), *first = option("--seed", argc, argv);
    const bool emulated = named("--emulated", argc, argv);
    part_seconds = seconds != NULL ? atoi(seconds) : 0;
    seed = first != NULL ? strtoull(first, NULL, 10) : 0;
    report_results = option("--results", argc, argv);
    slow = emulated || named("--slow", argc, argv);
#if defined(COLLET_CUDA)
    side = &gpu_side_cuda;
    kernels = &accept_kernels_cuda;
#endif
    if (emulated) {
        side = &gpu_side_emulated;
        kernels = &accept_kernels_host;
        gpu_driver_use(&emulated_gpu_driver);
    }
}

/* How many GPUs there are, and their name; −1 and why they cannot be used. */
static int count_gpus(char *text, size_t room) { return side == NULL ? 0 : side->count(text, room); }

/* The same, asked in a child: a process that forks later must not have looked. */
static int count_gpus_apart(char *text, size_t room) {
    struct {
        int n;
        char text[160];
    } answer = {0, ""};
    int pipes[2];
    if (pipe(pipes) != 0)
        return 0;
    if (fork() == 0) {
        answer.n = count_gpus(answer.text, sizeof(answer.text));
        _exit(write(pipes[1], &answer, sizeof(answer)) < 0);
    }
    close(pipes[1]);
    ssize_t got = read(pipes[0], &answer, sizeof(answer));
    close(pipes[0]);
    snprintf(text, room, "%s", got < 0 ? "" : answer.text);
    return answer.n;
}

static bool is_wanted(const struct part *part, int argc, char **argv) {
    bool any = named("none", argc, argv);
    for (int k = 0; k < PARTS; k++)
        any |= named(parts[k].name, argc, argv);
    return any ? named(part->name, argc, argv) : part->in_all;
}

static int run_parts(int argc, char **argv) {
    char gpu[160];
    int wrong = 0;
    for (int k = 0; k < PARTS; k++) {
        if (!is_wanted(&parts[k], argc, argv))
            continue;
        if (!parts[k].forks)
            ngpus = side->count(gpu, sizeof(gpu));
        report_begin(parts[k].name, seed);
        parts[k].run();
        wrong += report_end();
    }
    return wrong;
}

int main(int argc, char **argv) {
    char gpu[160] = "";
    bool forks = false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    read_options(argc, argv);
    for (int k = 0; k < PARTS; k++)
        forks |= parts[k].forks && is_wanted(&parts[k], argc, argv);
    int found = forks ? count_gpus_apart(gpu, sizeof(gpu)) : count_gpus(gpu, sizeof(gpu));
    if (found == 0) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    if (found < 0) {
        printf("there may be a GPU, but it cannot be used: %s\n", gpu);
        return 1;
    }
    printf("%d GPU(s): %s\n", found, gpu);
    return run_parts(argc, argv) > 0;
}
