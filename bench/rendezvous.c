/* SPDX-License-Identifier: Apache-2.0
 *
 * What creating a communicator costs the process that has the meeting point and rank 0, in time, memory and descriptors. All
 * other ranks are simulated by one process, over loopback (common/guests.h).
 */
#include "base/err.h"
#include "boot/boot.h"
#include "common/guests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_S 100

static struct shared {
    struct collet_unique_id id;
    int made;
} * shared;

/* Rank 0, in a process of its own: the memory is its own. */
static void host(int nranks) {
    struct guests_host_cost cost;
    const bool made = boot_unique_id(&shared->id) == COLLET_SUCCESS;
    __atomic_store_n(&shared->made, made ? 1 : -1, __ATOMIC_RELEASE);
    if (!made || !guests_host(&shared->id, nranks, &cost)) {
        fprintf(stderr, "rank 0 of %d: %s\n", nranks, err_last());
        exit(1);
    }
    printf("%8d %8.2f s %8.2f s %8.1f MB %8d\n", nranks, cost.seconds, cost.cpu_seconds, (double)cost.peak_bytes / 1e6,
           cost.descriptors);
    fflush(stdout);
    usleep(200000); /* what is queued for guests is sent */
    _exit(0);
}

static int measure(int nranks) {
    int status;
    fflush(NULL);
    shared->made = 0;
    pid_t root = fork();
    if (root == 0)
        host(nranks);
    pid_t crowd = fork();
    if (crowd == 0) {
        while (__atomic_load_n(&shared->made, __ATOMIC_ACQUIRE) == 0)
            usleep(1000);
        struct guests_result result = guests_bring(&shared->id, nranks, 0, LIMIT_S);
        if (result.trouble != NULL)
            fprintf(stderr, "%d of %d guests: %s\n", result.done, nranks - 1, result.trouble);
        _exit(result.trouble != NULL);
    }
    waitpid(crowd, &status, 0);
    const bool guests_fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    waitpid(root, &status, 0);
    return guests_fine && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    static const char *const usual[] = {"100", "1000", "10000"};
    const char *const *counts = argc > 1 ? (const char *const *)argv + 1 : usual;
    const int n = argc > 1 ? argc - 1 : 3;
    int failed = 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    printf("   ranks       time        CPU      memory    files   (of rank 0's process, until init is complete)\n");
    for (int k = 0; k < n; k++)
        failed |= measure(atoi(counts[k]));
    return failed;
}
