/* SPDX-License-Identifier: Apache-2.0 */
#include "common/fair.h"
#include "common/ranks.h"

#include "common/level.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_LIMIT_S 20
#define EXIT_FAILED 99 /* of a process that has written ranks->failure */

uint64_t ranks_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void ranks_sleep_ms(int ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

void *ranks_share(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

void ranks_unshare(void *memory, size_t bytes) { munmap(memory, bytes); }

/* ---- in the ranks ---- */

void ranks_barrier(struct ranks *ranks) { pthread_barrier_wait(&ranks->barrier); }

void ranks_doing(struct ranks *ranks, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ranks->doing, sizeof(ranks->doing), format, arguments);
    va_end(arguments);
    __atomic_store_n(&ranks->alive_ns, ranks_now_ns(), __ATOMIC_RELEASE);
}

void ranks_fail(struct ranks *ranks, const char *format, ...) {
    if (!__atomic_exchange_n(&ranks->failed, 1, __ATOMIC_ACQ_REL)) { /* the first failure is the one that counts */
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(ranks->failure, sizeof(ranks->failure), format, arguments);
        va_end(arguments);
        __atomic_store_n(&ranks->failure_written, 1, __ATOMIC_RELEASE);
    }
    _exit(EXIT_FAILED);
}

void ranks_expect(struct ranks *ranks, int rank, enum collet_result result, enum collet_result expected,
                  const char *what) {
    if (result == expected)
        return;
    ranks_fail(ranks, "rank %d: %s returned %d (%s), not %d: %s", rank, what, (int)result, collet_error_string(result),
               (int)expected, collet_last_error(NULL));
}

void ranks_new_id(struct ranks *ranks, int rank) {
    ranks_barrier(ranks); /* nobody needs the last id any more */
    if (rank == 0)
        ranks_try(ranks, rank, collet_get_unique_id(&ranks->id));
    ranks_barrier(ranks);
}

struct collet_comm *ranks_comm(struct ranks *ranks, int rank, const struct collet_config *config) {
    struct collet_comm *comm;
    ranks_new_id(ranks, rank);
    ranks_try(ranks, rank, collet_comm_init_rank_config(&comm, ranks->nranks, ranks->id, rank, config));
    ranks_show_on_hang(comm);
    return comm;
}

/* ---- what a hanging process shows ---- */

#define SHOWN_MAX 64
static struct collet_comm *shown[SHOWN_MAX]; /* the newest; destroyed ones refuse to be dumped */
static unsigned nshown;

void ranks_show_on_hang(struct collet_comm *comm) {
    unsigned at = __atomic_fetch_add(&nshown, 1, __ATOMIC_RELAXED) % SHOWN_MAX;
    __atomic_store_n(&shown[at], comm, __ATOMIC_RELAXED);
}

/* Not what a signal handler should do, but its process is lost anyway. */
static void show(int signal) {
    (void)signal;
    for (unsigned k = 0; k < SHOWN_MAX; k++)
        if (shown[k] != NULL)
            collet_comm_dump(shown[k], STDERR_FILENO);
}

static void show_all(const pid_t *pids, int processes) {
    for (int k = 0; k < processes; k++)
        if (pids[k] != 0) {
            kill(pids[k], SIGUSR1);
            ranks_sleep_ms(100); /* so that they do not talk all at once */
        }
}

/* ---- processes ---- */

/* A thread sanitizer asks for its options here. By default every process would wait a second at its end, for races of
 * threads that are still there: with thousands of processes that is too long. And it would end the forked child of a process
 * with threads if that child starts a thread. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void) {
    return "atexit_sleep_ms=20:die_after_fork=0";
}

struct rank_thread {
    struct ranks *ranks;
    const struct ranks_job *job;
    int rank;
};

static void *thread_main(void *argument) {
    const struct rank_thread *thread = argument;
    thread->job->run(thread->ranks, thread->rank);
    return NULL;
}

/* cmocka's handlers belong to the process that runs the tests: a crash of a rank's is to end it by its signal. */
static void forget_handlers(void) {
    static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    for (size_t k = 0; k < sizeof(signals) / sizeof(*signals); k++)
        signal(signals[k], SIG_DFL);
}

static void process_main(struct ranks *ranks, const struct ranks_job *job, int process) {
    pthread_t threads[RANKS_MAX];
    struct rank_thread arguments[RANKS_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGUSR1, show);
    forget_handlers();
    if (ranks->nthreads == 1) {
        job->run(ranks, process);
        exit(0); /* not _exit: what sanitizers and the library do at the end of a process is part of the test */
    }
    for (int k = 0; k < ranks->nthreads; k++) {
        arguments[k] = (struct rank_thread){ranks, job, process * ranks->nthreads + k};
        if (pthread_create(&threads[k], NULL, thread_main, &arguments[k]) != 0)
            ranks_fail(ranks, "no thread for rank %d", arguments[k].rank);
    }
    for (int k = 0; k < ranks->nthreads; k++)
        pthread_join(threads[k], NULL);
    exit(0);
}

static void describe_end(const struct ranks *ranks, int process, int status, char why[RANKS_TEXT_BYTES]) {
    char how[64];
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED) {
        for (int k = 0; k < 1000 && !__atomic_load_n(&ranks->failure_written, __ATOMIC_ACQUIRE); k++)
            ranks_sleep_ms(1);
        snprintf(why, RANKS_TEXT_BYTES, "%s", ranks->failure);
        return;
    }
    if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "died of signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(how, sizeof(how), "ended with exit status %d", WEXITSTATUS(status));
    snprintf(why, RANKS_TEXT_BYTES, "process %d %s; under way: %s", process, how, ranks->doing);
}

static bool ended_well(const struct ranks *ranks, int process, int status) {
    if (WIFEXITED(status))
        return WEXITSTATUS(status) == 0;
    return WTERMSIG(status) == SIGKILL && __atomic_load_n(&ranks->expendable[process], __ATOMIC_ACQUIRE);
}

/* Waits for all; on the first bad end or too long a silence returns false. pids of those that have ended become 0. */
static bool wait_for_all(struct ranks *ranks, const struct ranks_job *job, pid_t *pids, char why[RANKS_TEXT_BYTES]) {
    int limit_s = (job->limit_s > 0 ? job->limit_s : DEFAULT_LIMIT_S) * LEVEL_SLOWER;
    uint64_t sign_ns = 0, since_ns = fair_now_ns(); /* the newest sign of life, and when it was seen */
    for (int left = job->processes; left > 0; ranks_sleep_ms(1)) {
        for (int k = 0; k < job->processes; k++) {
            int status;
            if (pids[k] == 0 || waitpid(pids[k], &status, WNOHANG) == 0)
                continue;
            pids[k] = 0;
            left--;
            if (!ended_well(ranks, k, status)) {
                describe_end(ranks, k, status, why);
                return false;
            }
        }
        const uint64_t alive_ns = __atomic_load_n(&ranks->alive_ns, __ATOMIC_ACQUIRE);
        if (alive_ns != sign_ns)
            since_ns = fair_now_ns();
        sign_ns = alive_ns;
        if (fair_now_ns() - since_ns > (uint64_t)limit_s * 1000000000u) {
            snprintf(why, RANKS_TEXT_BYTES, "no end after %d s; under way: %s", limit_s, ranks->doing);
            show_all(pids, job->processes);
            return false;
        }
    }
    return true;
}

static struct ranks *ranks_create(const struct ranks_job *job) {
    struct ranks *ranks = ranks_share(sizeof(*ranks));
    ranks->nthreads = job->threads > 0 ? job->threads : 1;
    ranks->nranks = job->processes * ranks->nthreads;
    ranks->argument = job->argument;
    ranks->alive_ns = ranks_now_ns();
    snprintf(ranks->doing, sizeof(ranks->doing), "nothing said");
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&ranks->barrier, &attributes, (unsigned)ranks->nranks);
    return ranks;
}

bool ranks_run(const struct ranks_job *job, char why[RANKS_TEXT_BYTES]) {
    struct ranks *ranks = ranks_create(job);
    pid_t pids[RANKS_MAX];
    fflush(NULL); /* or every child would print it again */
    for (int k = 0; k < job->processes; k++) {
        pids[k] = ranks->pids[k] = fork();
        if (pids[k] == 0)
            process_main(ranks, job, k);
        if (pids[k] < 0)
            abort();
    }
    bool good = wait_for_all(ranks, job, pids, why);
    for (int k = 0; k < job->processes; k++)
        if (pids[k] != 0) {
            kill(pids[k], SIGKILL);
            waitpid(pids[k], NULL, 0);
        }
    if (ranks->leftover > 0)
        kill(ranks->leftover, SIGKILL);
    ranks_unshare(ranks, sizeof(*ranks));
    return good;
}

int ranks_log_lines(const char *path, const char *words) {
    char line[2048];
    int n = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        n += strstr(line, words) != NULL;
    if (file != NULL)
        fclose(file);
    return n;
}
