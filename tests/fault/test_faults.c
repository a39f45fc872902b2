/* SPDX-License-Identifier: Apache-2.0
 *
 * Breaks jobs on purpose, again and again. Each trial is a job of 2 … 5 processes that goes through everything a communicator
 * can do; a seed chooses what goes wrong, for which rank, and when:
 *
 *    init ─▶ first call ─▶ many calls ─▶ groups ─▶ a stream ─▶ a split ─▶ destroy
 *                              ▲
 *                              └── here, 3.1 ms later: SIGKILL for rank 2 of 4, over tcp
 *                                  │
 *                                  └─▶ revoke ─▶ shrink ─▶ a sum of those that are left
 *                                                  └── here, in some trials: SIGKILL for another rank
 *
 * A trial is passed if every other rank ends, if no call that succeeds has a wrong result, if every error names the rank
 * to blame, and if all ranks that had one go on together. Times are printed, not judged: a rank that takes longer than
 * a minute hangs.
 *
 *    SEEDS=1000 make test-faults            1000 trials, seeds 1 … 1000
 *    SEEDS=1 FIRST=77 make test-faults      the trial of seed 77 alone
 *    WORKERS=12 STRETCH=4 make test-faults  12 trials at the same time, on a machine so busy that each limit of time is 4 times as long
 */
#include "collet.h"
#include "common/level.h"
#include "common/life.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 5
#define WORKERS_USUAL 3 /* trials at the same time: most of a trial is waiting */
#define HANG_S 90       /* a trial that takes longer hangs */

#define FAULTS(X)                                                                                                      \
    X(KILL, "SIGKILL")                                                                                                 \
    X(TERM, "SIGTERM")                                                                                                 \
    X(STOP, "SIGSTOP")                                                                                                 \
    X(PAUSE, "SIGSTOP, SIGCONT")                                                                                       \
    X(ABORT, "abort")                                                                                                  \
    X(EXIT, "exit, no destroy")                                                                                        \
    X(FEWER, "fewer calls")
#define NAME(name, text) name,
#define TEXT(name, text) text,
enum fault { FAULTS(NAME) FAULT_COUNT };
static const char *const fault_names[] = {FAULTS(TEXT)};

/* What a seed means. */
struct trial {
    uint64_t seed;
    enum fault fault;
    enum moment moment;
    int nranks, victim;
    int second;   /* rank that dies when the others shrink; −1: none */
    bool goes_on; /* those that were harmed shrink; where they have to wait out a stopped rank, not in each trial */
    const char *transport;
    bool hosts; /* each rank has a host of its own */
    unsigned delay_us;
};

struct job {
    struct collet_unique_id id;
    int id_ready, reached; /* reached: the victim is where the fault is to happen */
    struct outcome outcomes[RANKS_MAX];
};

/* Of all trials, summed over the workers. */
struct sums {
    int injected[FAULT_COUNT][MOMENT_COUNT], exact[FAULT_COUNT], named[FAULT_COUNT], failed[FAULT_COUNT];
    int went_on[FAULT_COUNT]; /* of those that are named */
    int slowest_ms[FAULT_COUNT];
};

static long variable(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? atol(text) : otherwise;
}

/* Limits of time are so many times as long. */
static long stretch(void) { return variable("STRETCH", 1); }

static uint64_t hang_ns(void) { return (uint64_t)(HANG_S * stretch()) * 1000000000u; }

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct trial trial_of(uint64_t seed) {
    struct trial trial = {.seed = seed,
                          .fault = (enum fault)(seed % FAULT_COUNT), /* each kind equally often … */
                          .moment = (enum moment)(seed / FAULT_COUNT % MOMENT_COUNT),
                          .nranks = 2 + (int)(life_number(seed, 0) % (RANKS_MAX - 1)),
                          .transport = life_number(seed, 1) % 2 ? "shm" : "tcp",
                          .delay_us = (unsigned)(life_number(seed, 2) % 5000)};
    trial.victim = (int)(life_number(seed, 3) % (unsigned)trial.nranks);
    trial.hosts = trial.transport[0] == 't' && life_number(seed, 4) % 2;
    trial.second = (trial.victim + 1 + (int)(life_number(seed, 5) % (unsigned)(trial.nranks - 1))) % trial.nranks;
    if (trial.fault != KILL || life_number(seed, 6) % 2)
        trial.second = -1;
    trial.goes_on = trial.fault != STOP || life_number(seed, 8) % 4 == 0;
    if (trial.fault == ABORT && trial.moment == INIT) /* there is nothing yet that could be aborted */
        trial.moment = FIRST;
    return trial;
}

/* ------------------------------------------------------------------------------------------------------------ a rank */

/* A life that a trial breaks. */
struct broken {
    struct life life; /* first: go_on() gets it */
    const struct trial *trial;
    struct job *job;
    pthread_t aborter;
    bool aborts, exits; /* another thread does */
};

static void *abort_later(void *argument) {
    struct broken *broken = argument;
    usleep(broken->trial->delay_us);
    __atomic_store_n(&broken->life.aborted, 1, __ATOMIC_RELEASE);
    collet_comm_abort(broken->life.comm);
    return NULL;
}

static void *exit_later(void *argument) {
    usleep(((struct broken *)argument)->trial->delay_us);
    exit(0);
}

static bool go_on(struct life *life, enum moment moment) {
    struct broken *broken = (struct broken *)life;
    const struct trial *trial = broken->trial;
    pthread_t thread;
    if (life->rank != trial->victim || moment != trial->moment)
        return true;
    __atomic_store_n(&broken->job->reached, 1, __ATOMIC_RELEASE);
    if (trial->fault == ABORT)
        broken->aborts = pthread_create(&broken->aborter, NULL, abort_later, broken) == 0;
    if (trial->fault == EXIT)
        broken->exits = pthread_create(&thread, NULL, exit_later, broken) == 0;
    return trial->fault != FEWER;
}

/* ------------------------------------------------------------------------------------------------------------ going on */

static void *die_later(void *trial) {
    usleep((unsigned)(life_number(((const struct trial *)trial)->seed, 7) % 6000));
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Each rank has four bits of the odd elements, so the sum says who took part. */
static bool sum_of_company(struct life *life, size_t elems, unsigned *company) {
    int n = 0;
    *company = 0;
    for (size_t i = 0; i < elems; i++)
        life->in[i] = i % 2 ? 1 << 4 * life->rank : (int)(i % 7);
    if (collet_allreduce(life->in, life->out, elems, COLLET_INT32, COLLET_SUM, life->comm, NULL) != COLLET_SUCCESS)
        return false;
    for (int rank = 0; rank < RANKS_MAX; rank++)
        *company |= (unsigned)(life->out[1] >> 4 * rank & 1) << rank;
    bool exact = collet_comm_count(life->comm, &n) == COLLET_SUCCESS && n == __builtin_popcount(*company);
    for (size_t i = 0; i < elems; i++)
        exact &= life->out[i] == (i % 2 ? life->out[1] : n * (int)(i % 7));
    life->outcome->wrong |= !exact;
    return true;
}

/* Until those that are still to die have died. */
static void go_on_without_the_dead(struct life *life, const struct trial *trial) {
    struct outcome *outcome = life->outcome;
    pthread_t thread;
    if (life->rank == trial->second)
        pthread_create(&thread, NULL, die_later, (void *)trial);
    while (life->rank == trial->second || outcome->company == 0 ||
           (trial->second >= 0 && outcome->company >> trial->second & 1)) {
        struct collet_comm *smaller;
        collet_comm_revoke(life->comm);
        outcome->shrunk = collet_comm_shrink(life->comm, NULL, 0, &smaller, NULL);
        if (outcome->shrunk != COLLET_SUCCESS) {
            snprintf(outcome->text, sizeof(outcome->text), "%s", collet_last_error(NULL));
            return;
        }
        if (life->rank % 2) /* both ends must work, whatever happened */
            collet_comm_abort(life->comm);
        else
            collet_comm_destroy(life->comm);
        life->comm = smaller;
        while (sum_of_company(life, 9999, &outcome->company) && trial->second >= 0 &&
               outcome->company >> trial->second & 1)
            ;
    }
}

static void rank_main(const struct trial *trial, struct job *job, int rank) {
    struct outcome *outcome = &job->outcomes[rank];
    struct broken broken = {
        .life = {.rank = rank, .nranks = trial->nranks, .seed = trial->seed, .outcome = outcome, .go_on = go_on},
        .trial = trial,
        .job = job};
    struct life *life = &broken.life;
    char host[16];
    snprintf(host, sizeof(host), "host%d", rank);
    if (trial->hosts)
        setenv("COLLET_HOSTID", host, 1);
    life_begin(life);
    if (rank == 0 && collet_get_unique_id(&job->id) == COLLET_SUCCESS)
        __atomic_store_n(&job->id_ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&job->id_ready, __ATOMIC_ACQUIRE))
        usleep(200);
    life->id = job->id;
    const bool ended_early = !life_live(life) && outcome->result != COLLET_SUCCESS;
    if (ended_early && trial->goes_on && life->comm != NULL && !(rank == trial->victim && trial->fault != PAUSE))
        go_on_without_the_dead(life, trial);
    if (outcome->shrunk != COLLET_SUCCESS && rank % 2)
        collet_comm_abort(life->comm);
    else
        collet_comm_destroy(life->comm);
    if (broken.aborts)
        pthread_join(broken.aborter, NULL);
    life_end(life);
    __atomic_store_n(&outcome->ended, true, __ATOMIC_RELEASE);
    while (broken.exits) /* two threads may not exit at once */
        pause();
    exit(0);
}

/* ------------------------------------------------------------------------------------------------------------- a trial */

/* The signals come from outside. */
static void strike(const struct trial *trial, struct job *job, pid_t pid) {
    static const int signals[FAULT_COUNT] = {[KILL] = SIGKILL, [TERM] = SIGTERM, [STOP] = SIGSTOP, [PAUSE] = SIGSTOP};
    const uint64_t begun_ns = now_ns();
    while (!__atomic_load_n(&job->reached, __ATOMIC_ACQUIRE) && now_ns() - begun_ns < hang_ns())
        usleep(100);
    if (signals[trial->fault] == 0)
        return;
    usleep(trial->delay_us);
    kill(pid, signals[trial->fault]);
    if (trial->fault == PAUSE) {
        usleep(100000 + trial->delay_us * 100);
        kill(pid, SIGCONT);
    }
}

static bool all_ended(const struct trial *trial, const pid_t *pids, int *statuses, bool *done) {
    bool all = true;
    for (int rank = 0; rank < trial->nranks; rank++) {
        if (!done[rank])
            done[rank] = waitpid(pids[rank], &statuses[rank], WNOHANG) == pids[rank];
        all &= done[rank] || (rank == trial->victim && trial->fault == STOP);
    }
    return all;
}

static bool names_dead(const struct trial *trial, const char *text) {
    return life_names_rank(text, trial->victim) || (trial->second >= 0 && life_names_rank(text, trial->second));
}

/* A rank that revokes the parent for a failure of the child says so to the others, and it knows the cause. */
static bool revoker_names_cause(const struct trial *trial, const struct job *job, const char *text) {
    const char *at = strstr(text, " called collet_comm_revoke()");
    for (int rank = 0; at != NULL && rank < trial->nranks; rank++) {
        char name[48];
        snprintf(name, sizeof(name), "rank %d called collet_comm_revoke()", rank);
        if (strstr(text, name) != NULL)
            return names_dead(trial, job->outcomes[rank].text);
    }
    return false;
}

/* A rank that comes late may find that the others, and the meeting point with them, have ended. */
static bool names_cause(const struct trial *trial, const struct job *job, const char *text) {
    return names_dead(trial, text) || revoker_names_cause(trial, job, text) || life_misses_rank(text, trial->victim) ||
           (trial->moment == INIT && strstr(text, "nobody listens at the meeting point any more") != NULL) ||
           (trial->moment == INIT && trial->victim == 0 && strstr(text, "meeting point") != NULL);
}

static bool may_be(const struct trial *trial, enum collet_result result) {
    switch (trial->fault) {
    case PAUSE: return false;
    case STOP: /* as below */
        return result == COLLET_ERR_TIMEOUT || result == COLLET_ERR_ABORTED ||
               (trial->hosts && result == COLLET_ERR_REMOTE);
    case ABORT: return result == COLLET_ERR_ABORTED || result == COLLET_ERR_REMOTE;
    default: /* a rank that has noticed may abort before another one notices */
        return result == COLLET_ERR_REMOTE || result == COLLET_ERR_ABORTED ||
               (trial->moment == INIT && result == COLLET_ERR_TIMEOUT);
    }
}

static bool was_killed(const struct trial *trial, int rank, int status) {
    return rank == trial->second && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* What no rank may do; NULL: it has not. */
static const char *judge_end(const struct outcome *outcome, int status, bool done) {
    if (!done)
        return "hangs";
    if (status != 0 || !outcome->ended)
        return "has crashed";
    if (outcome->wrong)
        return "has a wrong result";
    return NULL;
}

/* Of an abort: its other thread's call ends too. */
static const char *judge_victim(const struct outcome *outcome, int status, bool done) {
    const char *fault = judge_end(outcome, status, done);
    if (fault != NULL)
        return fault;
    bool may_be = outcome->result == COLLET_SUCCESS || outcome->result == COLLET_ERR_ABORTED ||
                  outcome->result == COLLET_ERR_INVALID_ARGUMENT || outcome->result == COLLET_ERR_INVALID_USAGE;
    return may_be ? NULL : "has an error that should not be";
}

/* Who was harmed when there was a communicator has shrunk it. A rank that is stopped, and seen to live, cannot be left out. */
static const char *judge_company(const struct trial *trial, const struct outcome *outcome, int rank,
                                 unsigned *company) {
    if (outcome->shrunk != COLLET_SUCCESS)
        return trial->fault == STOP && outcome->shrunk == COLLET_ERR_TIMEOUT ? NULL : "cannot shrink";
    if (outcome->company == 0)
        return !trial->goes_on || outcome->where == moment_names[INIT] ? NULL : "has not gone on";
    if (*company == 0)
        *company = outcome->company;
    return *company == outcome->company && *company >> rank & 1 ? NULL : "goes on with others than the rest";
}

static const char *judge_rank(const struct trial *trial, const struct job *job, const struct outcome *outcome,
                              int status, bool done) {
    const char *fault = judge_end(outcome, status, done);
    if (fault != NULL)
        return fault;
    if (outcome->result == COLLET_SUCCESS)
        return NULL;
    if (!may_be(trial, outcome->result))
        return "has an error that should not be";
    return names_cause(trial, job, outcome->text) ? NULL : "has an error that does not name the cause";
}

static void print_trial(const struct trial *trial) {
    printf("seed %llu: %s of rank %d of %d at %s + %u us, %s%s: ", (unsigned long long)trial->seed,
           fault_names[trial->fault], trial->victim, trial->nranks, moment_names[trial->moment], trial->delay_us,
           trial->transport, trial->hosts ? " between hosts" : "");
    if (trial->second >= 0)
        printf("then SIGKILL of rank %d: ", trial->second);
}

/* The victim may have ended in any way, but in those that leave it alive. */
static void judge(const struct trial *trial, const struct job *job, const int *statuses, const bool *done, int ms,
                  struct sums *sums) {
    bool failed = false, named = false;
    unsigned company = 0;
    for (int rank = 0; rank < trial->nranks; rank++) {
        const struct outcome *outcome = &job->outcomes[rank];
        const bool victim = rank == trial->victim && trial->fault != PAUSE;
        const char *fault = NULL;
        if ((victim && trial->fault != ABORT && trial->fault != EXIT) || was_killed(trial, rank, statuses[rank]))
            continue;
        if (victim && trial->fault == EXIT)
            fault = statuses[rank] != 0 ? "has crashed" : NULL;
        else if (victim)
            fault = judge_victim(outcome, statuses[rank], done[rank]);
        else
            fault = judge_rank(trial, job, outcome, statuses[rank], done[rank]);
        if (!victim && fault == NULL && outcome->result != COLLET_SUCCESS)
            fault = judge_company(trial, outcome, rank, &company);
        named |= !victim && outcome->result != COLLET_SUCCESS;
        if (fault == NULL)
            continue;
        failed = true;
        print_trial(trial);
        printf("rank %d %s (status 0x%x, at %s, %s, %s, company 0x%x: %s)\n", rank, fault, (unsigned)statuses[rank],
               outcome->where ? outcome->where : "the start", collet_error_string(outcome->result),
               collet_error_string(outcome->shrunk), outcome->company, outcome->text);
    }
    __atomic_add_fetch(&sums->injected[trial->fault][trial->moment], 1, __ATOMIC_RELAXED);
    int *sum = failed ? sums->failed : named ? sums->named : sums->exact;
    __atomic_add_fetch(&sum[trial->fault], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&sums->went_on[trial->fault], !failed && company != 0, __ATOMIC_RELAXED);
    if (ms > sums->slowest_ms[trial->fault])
        sums->slowest_ms[trial->fault] = ms;
}

static void set_limit(const char *name, long value) {
    char text[24];
    snprintf(text, sizeof(text), "%ld", value * stretch());
    setenv(name, text, 1);
}

/* Times are short only where nothing but time can end a wait: a busy machine is no fault. */
static void set_variables(const struct trial *trial) {
    const bool stops = trial->fault == STOP;
    setenv("COLLET_TRANSPORT", trial->transport, 1);
    set_limit("COLLET_TIMEOUT", stops ? 5 : 50);
    set_limit("COLLET_INIT_TIMEOUT", stops || trial->moment == INIT ? 6 : 50);
    set_limit("COLLET_HEARTBEAT_TIMEOUT", stops ? 5000 : 40000);
}

static void run_trial(const struct trial *trial, struct job *job, struct sums *sums) {
    pid_t pids[RANKS_MAX];
    int statuses[RANKS_MAX] = {0};
    bool done[RANKS_MAX] = {false};
    memset(job, 0, sizeof(*job));
    set_variables(trial);
    fflush(NULL);
    for (int rank = 0; rank < trial->nranks; rank++)
        if ((pids[rank] = fork()) == 0)
            rank_main(trial, job, rank);
    strike(trial, job, pids[trial->victim]);
    const uint64_t struck_ns = now_ns();
    while (!all_ended(trial, pids, statuses, done) && now_ns() - struck_ns < hang_ns())
        usleep(5000);
    const int ms = (int)((now_ns() - struck_ns) / 1000000);
    judge(trial, job, statuses, done, ms, sums);
    for (int rank = 0; rank < trial->nranks; rank++)
        if (!done[rank]) {
            kill(pids[rank], SIGKILL);
            waitpid(pids[rank], NULL, 0);
        }
}

/* ---------------------------------------------------------------------------------------------------------- all trials */

static void *share(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int print_sums(const struct sums *sums) {
    int failed = 0, all = 0;
    printf("\n%-18s", "injected");
    for (int moment = 0; moment < MOMENT_COUNT; moment++)
        printf("%8s", moment_names[moment]);
    printf(" | %6s %6s %6s %6s  %s\n", "exact", "error", "goes on", "FAILED", "longest");
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        printf("%-18s", fault_names[fault]);
        for (int moment = 0; moment < MOMENT_COUNT; moment++)
            printf("%8d", sums->injected[fault][moment]);
        printf(" | %6d %6d %7d %6d  %.1f s\n", sums->exact[fault], sums->named[fault], sums->went_on[fault],
               sums->failed[fault], sums->slowest_ms[fault] / 1e3);
        failed += sums->failed[fault];
        all += sums->exact[fault] + sums->named[fault] + sums->failed[fault];
    }
    printf("exact: no rank was harmed. error: every rank that was harmed got an error that names the cause.\n"
           "goes on: of these, those in which they shrank their communicator and computed with it.\n");
    printf("%d passed, %d failed\n", all - failed, failed);
    return failed;
}

int main(void) {
    const long few = level_now() == LEVEL_FAST ? 14 : 28;
    const long seeds = variable("SEEDS", few), first = variable("FIRST", 1),
               workers = variable("WORKERS", WORKERS_USUAL);
    struct sums *sums = share(sizeof(*sums));
    setenv("COLLET_HEARTBEAT", "200", 1);
    printf("seeds %ld to %ld\n", first, first + seeds - 1);
    fflush(NULL);
    for (long worker = 0; worker < workers; worker++) {
        if (fork() != 0)
            continue;
        struct job *job = share(sizeof(*job));
        for (long seed = first + worker; seed < first + seeds; seed += workers) {
            struct trial trial = trial_of((uint64_t)seed);
            run_trial(&trial, job, sums);
        }
        exit(0);
    }
    int crashed = 0, status;
    while (wait(&status) > 0)
        crashed += status != 0;
    return print_sums(sums) + crashed != 0;
}
