/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that copy out of each other's buffers (layers/memory/loan.h): whatever some of them may not do, results are right. Each rank is a
 * process, because permission is a process's.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cpus.h"
#include "common/fair.h"
#include "common/level.h"
#include "common/trial.h"
#include "common/world.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define NRANKS 4
#define COUNT 9001

/* ---- what the kernel does ---- */

/* Calls of this process. What the kernel has copied to prove that it does, when a connection was made, is not counted. */
struct kernel {
    unsigned long copied, refused;
};
static struct kernel kernel;
#define PROOF_BYTES 8u

static ssize_t count(ssize_t moved, size_t bytes) {
    if (moved < 0 || bytes > PROOF_BYTES)
        __atomic_add_fetch(moved < 0 ? &kernel.refused : &kernel.copied, 1, __ATOMIC_RELAXED);
    return moved;
}

/* The library calls these two instead of those of the C library. */
ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long nto, const struct iovec *from,
                         unsigned long nfrom, unsigned long flags) {
    return count(syscall(SYS_process_vm_readv, pid, to, nto, from, nfrom, flags), to->iov_len);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *from, unsigned long nfrom, const struct iovec *to,
                          unsigned long nto, unsigned long flags) {
    return count(syscall(SYS_process_vm_writev, pid, from, nfrom, to, nto, flags), from->iov_len);
}

static bool child_ends_well(bool (*does)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(does() ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* A child does not descend from itself: what it may not do, ranks may not do with each other. */
static bool read_parent(void) {
    static char byte;
    struct iovec iov = {&byte, 1};
    return process_vm_readv(getppid(), &iov, 1, &iov, 1, 0) == 1;
}

static bool permitted; /* does the kernel copy between processes here? */

static int ask_kernel(void **state) {
    (void)state;
    permitted = child_ends_well(read_parent);
    if (!permitted)
        print_message("the kernel copies nothing between processes here: that it does is not checked\n");
    return 0;
}

/* Since it was asked the last time, the kernel has copied payloads for this rank, or has copied none and has refused none. */
static void check_kernel(struct ranks *ranks, int rank, bool copies) {
    ranks_check(ranks, rank, copies ? !permitted || kernel.copied > 0 : kernel.copied + kernel.refused == 0);
    kernel = (struct kernel){0, 0};
}

/* ---- calls ---- */

static bool registers; /* does this rank register the buffers of its next calls? */

static void call_registered(struct ranks *ranks, int rank, struct collet_comm *comm, struct trial *trial) {
    const struct guard *guards[] = {&trial->out.guard, &trial->in.guard};
    const int n = trial->in.guard.memory != NULL ? 2 : 1;
    struct collet_registration *registrations[2];
    for (int k = 0; k < n; k++)
        ranks_try(ranks, rank,
                  collet_comm_register(comm, guards[k]->memory, guards[k]->total_bytes, &registrations[k]));
    ranks_try(ranks, rank, trial_run(trial, comm));
    for (int k = 0; k < n; k++)
        ranks_try(ranks, rank, collet_comm_deregister(comm, registrations[k]));
}

static void call_one(struct ranks *ranks, int rank, struct collet_comm *comm, const struct trial_call *call) {
    struct trial trial;
    char why[TRIAL_WHY_BYTES], name[TRIAL_NAME_BYTES];
    trial_name(call, name);
    if (rank == 0)
        ranks_doing(ranks, "%s", name);
    trial_prepare(&trial, call, rank);
    if (registers)
        call_registered(ranks, rank, comm, &trial);
    else
        ranks_try(ranks, rank, trial_run(&trial, comm));
    if (!trial_check(&trial, why))
        ranks_fail(ranks, "rank %d: %s: %s", rank, name, why);
    trial_destroy(&trial);
}

/* Every collective, in place and not. */
static void call_all(struct ranks *ranks, int rank, struct collet_comm *comm) {
    struct trial_call call = {
        .type = COLLET_INT32, .op = COLLET_SUM, .count = COUNT, .root = 1, .nranks = ranks->nranks, .seed = 1};
    for (int collective = 0; collective < PROG_SEND; collective++)
        for (int in_place = 0; in_place < 2; in_place++) {
            call.collective = (enum prog_collective)collective;
            call.in_place = in_place == 1;
            call.seed++;
            if (in_place == 0 || trial_may_be_in_place(call.collective))
                call_one(ranks, rank, comm, &call);
        }
}

static void run_all(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    call_all(ranks, rank, comm);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

/* ---- ranks that do not want ---- */

static void run_subsets(struct ranks *ranks, int rank) {
    for (unsigned subset = 0; subset < 1u << NRANKS; subset++) {
        const unsigned wanting = ~subset & ((1u << NRANKS) - 1), self = 1u << rank;
        setenv("COLLET_DIRECT", wanting & self ? "process,shared,cma" : "off", 1);
        run_all(ranks, rank);
        check_kernel(ranks, rank, (wanting & self) != 0 && wanting != self);
    }
}

static const char *const lend_all[] = {"COLLET_DIRECT",
                                       "process,shared,cma",
                                       "COLLET_KERNEL_COPIES",
                                       "faster",
                                       "COLLET_DIRECT_BYTES",
                                       "1",
                                       "COLLET_PROTO",
                                       "Simple",
                                       NULL};

static void every_subset_of_the_ranks_may_be_off(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], NRANKS, lend_all, run_subsets, NULL);
}

/* ---- buffers that others can map ---- */

/* Each call has buffers of its own, so places in the shared heap is taken and given back all the time. Another subset registers
 * its buffers, wherever they are. */
static void call_all_from(struct ranks *ranks, int rank, struct collet_comm *comm, unsigned subset) {
    guard_in_heap = (subset >> rank & 1) != 0;
    registers = ((subset ^ subset >> 1) >> rank & 1) != 0;
    call_all(ranks, rank, comm);
}

/* A shared heap is mapped when something in it is first lent, or when a fan is made (src/transport/fan.c). How many has this process in its table of mappings? */
static int heap_mapped(void) {
    char line[512];
    unsigned long inode, seen[NRANKS + 1];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "collet-heap") != NULL && sscanf(line, "%*s %*s %*s %*s %lu", &inode) == 1) {
            int k = 0;
            while (k < count && seen[k] != inode)
                k++;
            if (k == count && count <= NRANKS)
                seen[count++] = inode;
        }
    if (maps != NULL)
        fclose(maps);
    return count;
}

static void run_common_subsets(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    call_all(ranks, rank, comm);
    ranks_check(ranks, rank, getenv("COLLET_FANS") == NULL || heap_mapped() <= 1);
    for (unsigned subset = 1; subset < 1u << NRANKS; subset++)
        call_all_from(ranks, rank, comm, subset);
    ranks_check(ranks, rank, heap_mapped() == ranks->nranks / ranks->nthreads);
    check_kernel(ranks, rank, false);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static const char *const lend_common[] = {"COLLET_DIRECT", "shared", "COLLET_DIRECT_BYTES", "1", "COLLET_PROTO",
                                          "Simple",        NULL};

static void any_ranks_may_have_common_buffers(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], NRANKS, lend_common, run_common_subsets, NULL);
    world_run(&worlds[WORLD_SHM], NRANKS,
              (const char *const[]){"COLLET_FANS", "0", "COLLET_DIRECT", "shared", "COLLET_DIRECT_BYTES", "1", NULL},
              run_common_subsets, NULL);
    if (!LEVEL_WATCHES_THREADS) /* what one process lends another, that one lends on to another thread of the first */
        world_run(&worlds[WORLD_MIXED], NRANKS, (const char *const[]){"COLLET_DIRECT", "process,shared", NULL},
                  run_common_subsets, NULL);
}

/* One of them does not want. */
static void run_common_but_one(struct ranks *ranks, int rank) {
    for (int off = 0; off < NRANKS; off++) {
        setenv("COLLET_DIRECT", rank == off ? "off" : "shared", 1);
        struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
        call_all_from(ranks, rank, comm, ~0u);
        ranks_try(ranks, rank, collet_comm_destroy(comm));
    }
}

static void any_rank_may_keep_its_common_buffers_to_itself(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], NRANKS, lend_common, run_common_but_one, NULL);
}

/* ---- ranks that may not ---- */

/* From now on this process may not touch the memory of others, as in many a container. False: nor may it forbid itself. */
static bool forbid(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

struct ban {
    int rank, round; /* before which: 0: there is no connection yet; 1: everybody has lent already */
};

static void run_forbidden(struct ranks *ranks, int rank) {
    const struct ban *ban = ranks->argument;
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    for (int round = 0; round < 2; round++) {
        ranks_check(ranks, rank, rank != ban->rank || round != ban->round || forbid());
        call_all(ranks, rank, comm);
        if (rank == ban->rank && round >= ban->round)
            ranks_check(ranks, rank, kernel.copied == 0 && kernel.refused > 0);
        else
            check_kernel(ranks, rank, true);
    }
    for (unsigned subset = 1; subset < 1u << NRANKS && ban->round == 0; subset++)
        call_all_from(ranks, rank, comm, subset);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void any_rank_may_be_forbidden(void **state) {
    (void)state;
    if (!child_ends_well(forbid)) {
        print_message("there is no seccomp here: nothing can be forbidden\n");
        skip();
    }
    for (int rank = 0; rank < NRANKS; rank++)
        for (int round = 0; round < 2; round++)
            world_run(&worlds[WORLD_SHM], NRANKS, lend_all, run_forbidden, &(struct ban){rank, round});
}

static void create_forbidden(struct ranks *ranks, int rank) {
    ranks_check(ranks, rank, rank > 0 || forbid());
    ranks_try(ranks, rank, collet_comm_destroy(ranks_comm(ranks, rank, NULL)));
}

static int cpu_count(void) {
    struct os_cpu_set set;
    os_cpu_set_get(&set);
    return os_cpu_set_count(&set);
}

/* The lowest rank measures how fast the kernel copies, and may not: all use slots, and the log says why. Other programs may have the
 * CPUs, and then nothing is measured. */
static void the_log_says_why_the_kernel_does_not_copy(void **state) {
    (void)state;
    char log[64];
    snprintf(log, sizeof log, "/tmp/collet-test-direct-%d", (int)getpid());
    const char *const variables[] = {
        "COLLET_KERNEL_COPIES", "auto", "COLLET_DEBUG", "INFO", "COLLET_DEBUG_FILE", log, NULL};
    if (cpu_count() < 2 || !child_ends_well(forbid))
        skip();
    unlink(log);                      /* of an earlier process with this number */
    bool may_fail = LEVEL_SLOWER > 1; /* then each step of a measurement takes too long */
    for (int k = 0; k < 20 && ranks_log_lines(log, "the kernel refuses process_vm_readv") == 0; k++) {
        world_run(&worlds[WORLD_SHM], 2, variables, create_forbidden, NULL);
        may_fail |= fair_share() < 1;
    }
    if (may_fail && ranks_log_lines(log, "the kernel refuses process_vm_readv") == 0) {
        unlink(log);
        skip();
    }
    assert_true(ranks_log_lines(log, "(Operation not permitted): payloads in ordinary memory go through slots") > 0);
    assert_true(ranks_log_lines(log, "a container that forbids it") > 0);
    unlink(log);
}

/* ---- ranks that end ---- */

/* A send is over when its receiver has the message: until then it is read where it lies. */
static void run_overwriting(struct ranks *ranks, int rank) {
    enum { ELEMS = 40000, ROUNDS = 50 };
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    int32_t *buff = malloc(ELEMS * sizeof(*buff));
    ranks_check(ranks, rank, buff != NULL);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < ELEMS; i++)
            buff[i] = rank == 0 ? round * 7 + i : -1;
        ranks_try(ranks, rank, collet_broadcast(buff, buff, ELEMS, COLLET_INT32, 0, comm, NULL));
        if (rank == 0)
            memset(buff, 0x55, ELEMS * sizeof(*buff)); /* at once: the other has read it */
        for (int i = 0; rank > 0 && i < ELEMS; i++)
            ranks_check(ranks, rank, buff[i] == round * 7 + i);
    }
    free(buff);
    ranks_try(ranks, rank, collet_comm_destroy(comm));
}

static void a_call_returns_when_its_buffers_are_nobody_elses(void **state) {
    (void)state;
    world_run_all(0, 2, lend_all, run_overwriting, NULL);
}

/* The rank that lends dies: the others are told, and do not wait. */
static void run_dying(struct ranks *ranks, int rank) {
    struct collet_comm *comm = ranks_comm(ranks, rank, NULL);
    static int32_t buff[COUNT];
    ranks_try(ranks, rank, collet_broadcast(buff, buff, COUNT, COLLET_INT32, 0, comm, NULL));
    ranks->expendable[0] = 1;
    ranks_barrier(ranks);
    if (rank == 0)
        raise(SIGKILL);
    ranks_expect(ranks, rank, collet_broadcast(buff, buff, COUNT, COLLET_INT32, 0, comm, NULL), COLLET_ERR_REMOTE,
                 "a broadcast from a rank that has died");
    ranks_try(ranks, rank, collet_comm_abort(comm));
}

static void a_dead_lender_is_an_error(void **state) {
    (void)state;
    world_run(&worlds[WORLD_SHM], 3, lend_all, run_dying, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_subset_of_the_ranks_may_be_off),
        cmocka_unit_test(any_ranks_may_have_common_buffers),
        cmocka_unit_test(any_rank_may_keep_its_common_buffers_to_itself),
        cmocka_unit_test(any_rank_may_be_forbidden),
        cmocka_unit_test(the_log_says_why_the_kernel_does_not_copy),
        cmocka_unit_test(a_call_returns_when_its_buffers_are_nobody_elses),
        cmocka_unit_test(a_dead_lender_is_an_error),
    };
    return cmocka_run_group_tests(tests, ask_kernel, NULL);
}
