/* SPDX-License-Identifier: Apache-2.0
 *
 * A thousand processes create a communicator: what the process of rank 0, which has the meeting point, sends, in bytes and in
 * messages. The others are simulated (common/guests.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "boot/boot.h"
#include "boot/tree.h"
#include "boot/table.h"
#include "common/guests.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 1000
#define LIMIT_S 100
#define ASKS 3 /* of one guest; the others must not hear the answers */

static struct shared {
    struct collet_unique_id id;
    int id_made, over;
    size_t bytes, calls; /* of send() in the process of rank 0 */
    int descriptors;
} * shared;

static bool counts; /* in this process */

ssize_t send(int fd, const void *data, size_t bytes, int flags) {
    const ssize_t sent = syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
    if (counts && sent > 0) {
        __atomic_fetch_add(&shared->bytes, (size_t)sent, __ATOMIC_RELAXED);
        __atomic_fetch_add(&shared->calls, 1, __ATOMIC_RELAXED);
    }
    return sent;
}

static void await(const int *word, int value) {
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value)
        usleep(1000);
}

/* Rank 0, in whose process the meeting point is. */
static void host(void) {
    struct guests_host_cost cost;
    counts = true;
    if (boot_unique_id(&shared->id) != COLLET_SUCCESS)
        _exit(1);
    __atomic_store_n(&shared->id_made, 1, __ATOMIC_RELEASE);
    if (!guests_host(&shared->id, RANKS, &cost)) {
        fprintf(stderr, "rank 0: %s\n", err_last());
        _exit(1);
    }
    shared->descriptors = cost.descriptors;
    await(&shared->over, 1);
    _exit(0);
}

static void bring(void) {
    await(&shared->id_made, 1);
    struct guests_result result = guests_bring(&shared->id, RANKS, ASKS, LIMIT_S);
    if (result.trouble == NULL && result.news != ASKS)
        result.trouble = "questions and answers differ in number";
    if (result.trouble != NULL)
        fprintf(stderr, "%d guests of %d, %d tables, %d answers: %s\n", result.done, RANKS - 1, result.tables,
                result.news, result.trouble);
    __atomic_store_n(&shared->over, 1, __ATOMIC_RELEASE);
    _exit(result.trouble != NULL);
}

static void meet(void) {
    struct rlimit limit;
    pid_t pids[2];
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < RANKS + 64)
        skip();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (int k = 0; k < 2; k++) {
        fflush(NULL);
        pids[k] = fork();
        assert_true(pids[k] >= 0);
        if (pids[k] == 0 && k == 0)
            host();
        if (pids[k] == 0)
            bring();
    }
    for (int k = 1; k >= 0; k--) {
        int status;
        assert_int_equal(waitpid(pids[k], &status, 0), pids[k]);
        assert_true(WIFEXITED(status));
        __atomic_store_n(&shared->over, 1, __ATOMIC_RELEASE);
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* The table goes to the process of rank 0 itself and to its children, and to nobody else. */
static const size_t tables_bytes = (1 + TREE_ARITY) * RANKS * (sizeof(struct card) + sizeof(int32_t));

static void the_root_sends_the_table_to_its_children_alone(void **state) {
    (void)state;
    meet();
    const size_t each = sizeof(struct seat) + 400; /* handshake, DONE, heads and MACs */
    assert_in_range(shared->bytes, tables_bytes, tables_bytes + RANKS * each + (64 << 10));
    assert_in_range(shared->calls, 4 * RANKS, 8 * RANKS);
    assert_in_range(shared->descriptors, RANKS, RANKS + 64);
    munmap(shared, sizeof *shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_sends_the_table_to_its_children_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
