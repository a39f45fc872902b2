/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a library with NCCL's interface: NVIDIA's or collet's, by turns, by the same code.
 *
 *    beside --library PATH [--name NAME] [--ranks N] [--results FILE] [--slow] latency|memset|messages
 *
 *    latency   an allreduce of N ranks on one GPU, in a graph and in streams: beside_latency.c
 *    memset    do two threads hang that wait for the whole GPU between collectives? beside_memset.c
 *    messages  the same between messages
 */
#include "gpu/beside_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *option(const char *name, int argc, char **argv, const char *otherwise) {
    for (int k = 1; k + 1 < argc; k++)
        if (strcmp(argv[k], name) == 0)
            return argv[k + 1];
    return otherwise;
}

static bool has(const char *word, int argc, char **argv) {
    for (int k = 1; k < argc; k++)
        if (strcmp(argv[k], word) == 0)
            return true;
    return false;
}

/* In a child: a process that forks later must not have looked. */
static bool finds_gpu(void) {
    int n = 0, status;
    pid_t child = fork();
    if (child == 0)
        _exit(cudaGetDeviceCount(&n) != cudaSuccess || n == 0);
    return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv) {
    const struct beside_options options = {
        .path = option("--library", argc, argv, NULL),
        .name = option("--name", argc, argv, "nccl"),
        .results = option("--results", argc, argv, NULL),
        .nranks = atoi(option("--ranks", argc, argv, "2")),
        .messages = has("messages", argc, argv),
        .slow = has("--slow", argc, argv),
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (options.path == NULL || options.nranks < 1 || options.nranks > 8) {
        printf(
            "usage: beside --library PATH [--name NAME] [--ranks 1 … 8] [--results FILE] [--slow] latency|memset|messages\n");
        return 2;
    }
    if (!finds_gpu()) {
        printf("skipped: no CUDA device\n");
        return 77;
    }
    return has("memset", argc, argv) || options.messages ? beside_memset(&options) : beside_latency(&options);
}
