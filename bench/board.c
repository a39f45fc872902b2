/* SPDX-License-Identifier: Apache-2.0
 *
 * The board that the ranks of one timing loop share: how it comes to be, and the meeting on it. See board.h.
 */
#define _GNU_SOURCE
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEETING_NAP_US 50

void bench_die(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "%s\n", text); /* whole lines, also when all ranks complain at once */
    _exit(1);
}

static struct board *board_map(int file, int nranks) {
    if (nranks < 1 || nranks > BOARD_MAX_RANKS)
        bench_die("%d ranks: the timing loop takes 1 to %d", nranks, BOARD_MAX_RANKS);
    int flags = MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0);
    struct board *board = (struct board *)mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, flags, file, 0);
    if (board == MAP_FAILED)
        bench_die("cannot map the board: %s", strerror(errno));
    board->nranks = nranks;
    return board;
}

struct board *board_open(const char *path, int nranks) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct board)) != 0)
        bench_die("cannot make the board %s: %s", path, strerror(errno));
    struct board *board = board_map(file, nranks);
    close(file);
    return board;
}

static void pin_to_turn(int rank) {
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        bench_die("cannot read the CPU affinity: %s", strerror(errno));
    int turn = rank % CPU_COUNT(&allowed), cpu = 0;
    while (!CPU_ISSET(cpu, &allowed) || turn-- > 0)
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        bench_die("cannot stay on CPU %d: %s", cpu, strerror(errno));
}

/* Ends rank 0 when a rank that it forked has failed: a meeting would wait for that one for ever. */
static void on_child(int signal) {
    (void)signal;
    siginfo_t child = {.si_pid = 0};
    if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0 && child.si_pid != 0)
        if (child.si_code != CLD_EXITED || child.si_status != 0)
            bench_die("rank 0: another rank, process %d, failed", (int)child.si_pid);
}

struct board *board_fork(int nranks, bool pinned, int *rank) {
    struct board *board = board_map(-1, nranks);
    pid_t parent = getpid();
    struct sigaction watch = {.sa_handler = on_child, .sa_flags = SA_RESTART};
    sigaction(SIGCHLD, &watch, NULL);
    *rank = 0;
    for (int r = 1; r < nranks && *rank == 0; r++) {
        pid_t child = fork();
        if (child < 0)
            bench_die("cannot fork rank %d: %s", r, strerror(errno));
        if (child == 0)
            *rank = r;
    }
    if (*rank > 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
        bench_die("rank %d: rank 0 is gone", *rank);
    if (pinned)
        pin_to_turn(*rank);
    return board;
}

void board_join(const struct board *board) {
    int status;
    for (int r = 1; r < board->nranks; r++)
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
            bench_die("a rank failed");
}

void board_meet(struct board *board) {
    int meeting = __atomic_load_n(&board->meeting, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&board->arrived, 1, __ATOMIC_ACQ_REL) == board->nranks) {
        __atomic_store_n(&board->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&board->meeting, meeting + 1, __ATOMIC_RELEASE); /* pairs with the load below */
        return;
    }
    while (__atomic_load_n(&board->meeting, __ATOMIC_ACQUIRE) == meeting)
        usleep(MEETING_NAP_US);
}

void board_sit(struct board *board, int rank) {
    struct board_seat *seat = &board->seats[rank];
    seat->cpu = sched_getcpu();
    if (sched_getaffinity(0, sizeof(seat->allowed), &seat->allowed) != 0)
        bench_die("rank %d: cannot read the CPU affinity: %s", rank, strerror(errno));
}
