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
#define ELEMS_MAX 70000

#define FAULTS(X)                                                                                                      \
    X(KILL, "SIGKILL")                                                                                                 \
    X(TERM, "SIGTERM")                                                                                                 \
    X(STOP, "SIGSTOP")                                                                                                 \
    X(PAUSE, "SIGSTOP, SIGCONT")                                                                                       \
    X(ABORT, "abort")                                                                                                  \
    X(EXIT, "exit, no destroy")                                                                                        \
    X(FEWER, "fewer calls")
#define MOMENTS(X)                                                                                                     \
    X(INIT, "init")                                                                                                    \
    X(FIRST, "first") X(MANY, "many") X(GROUP, "group") X(STREAM, "stream") X(SPLIT, "split") X(DESTROY, "destroy")
#define NAME(name, text) name,
#define TEXT(name, text) text,
enum fault { FAULTS(NAME) FAULT_COUNT };
enum moment { MOMENTS(NAME) MOMENT_COUNT };
static const char *const fault_names[] = {FAULTS(TEXT)};
static const char *const moment_names[] = {MOMENTS(TEXT)};

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

/* How it ended for a rank. */
struct outcome {
    bool ended, wrong;
    enum collet_result result; /* of the first call that failed */
    const char *where;
    char text[512];
    enum collet_result shrunk; /* of the first shrink that failed, if a call has */
    unsigned company;          /* bits: the ranks that it goes on with */
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

/* splitmix64: the k-th number of a seed. */
static uint64_t number(uint64_t seed, uint64_t k) {
    uint64_t z = (seed * 1000003 + k + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static struct trial trial_of(uint64_t seed) {
    struct trial trial = {.seed = seed,
                          .fault = (enum fault)(seed % FAULT_COUNT), /* each kind equally often … */
                          .moment = (enum moment)(seed / FAULT_COUNT % MOMENT_COUNT),
                          .nranks = 2 + (int)(number(seed, 0) % (RANKS_MAX - 1)),
                          .transport = number(seed, 1) % 2 ? "shm" : "tcp",
                          .delay_us = (unsigned)(number(seed, 2) % 5000)};
    trial.victim = (int)(number(seed, 3) % (unsigned)trial.nranks);
    trial.hosts = trial.transport[0] == 't' && number(seed, 4) % 2;
    trial.second = (trial.victim + 1 + (int)(number(seed, 5) % (unsigned)(trial.nranks - 1))) % trial.nranks;
    if (trial.fault != KILL || number(seed, 6) % 2)
        trial.second = -1;
    trial.goes_on = trial.fault != STOP || number(seed, 8) % 4 == 0;
    if (trial.fault == ABORT && trial.moment == INIT) /* there is nothing yet that could be aborted */
        trial.moment = FIRST;
    return trial;
}

/* ------------------------------------------------------------------------------------------------------------ a rank */

struct life {
    const struct trial *trial;
    struct job *job;
    int rank;
    struct collet_comm *comm;
    uint64_t calls; /* so far: chooses their sizes */
    int aborted;    /* by another thread: comm is no more */
    pthread_t aborter;
    bool aborts, exits; /* another thread does */
    int *in, *out;
};

static void *abort_later(void *argument) {
    struct life *life = argument;
    usleep(life->trial->delay_us);
    __atomic_store_n(&life->aborted, 1, __ATOMIC_RELEASE);
    collet_comm_abort(life->comm);
    return NULL;
}

static void *exit_later(void *argument) {
    usleep(((struct life *)argument)->trial->delay_us);
    exit(0);
}

/* The job has come to this moment. False: this rank makes no more calls. */
static bool go_on(struct life *life, enum moment moment) {
    pthread_t thread;
    life->job->outcomes[life->rank].where = moment_names[moment];
    if (life->rank != life->trial->victim || moment != life->trial->moment)
        return true;
    __atomic_store_n(&life->job->reached, 1, __ATOMIC_RELEASE);
    if (life->trial->fault == ABORT)
        life->aborts = pthread_create(&life->aborter, NULL, abort_later, life) == 0;
    if (life->trial->fault == EXIT)
        life->exits = pthread_create(&thread, NULL, exit_later, life) == 0;
    return life->trial->fault != FEWER;
}

/* False: the rank's life is over, with what is the first error or wrong result. */
static bool went_well(struct life *life, enum collet_result result) {
    struct outcome *outcome = &life->job->outcomes[life->rank];
    if (result == COLLET_SUCCESS)
        return !__atomic_load_n(&life->aborted, __ATOMIC_ACQUIRE);
    outcome->result = result;
    snprintf(outcome->text, sizeof(outcome->text), "%s", collet_last_error(NULL));
    return false;
}

static size_t begin_sum(struct life *life) {
    static const size_t sizes[] = {1, 999, ELEMS_MAX};
    size_t elems = sizes[number(life->trial->seed, 100 + ++life->calls) % 3];
    for (size_t i = 0; i < elems; i++)
        life->in[i] = (life->rank + 1) * (int)(i % 7 + life->calls);
    return elems;
}

static bool sum_is_exact(struct life *life, size_t elems) {
    const int n = life->trial->nranks;
    for (size_t i = 0; i < elems; i++)
        if (life->out[i] != n * (n + 1) / 2 * (int)(i % 7 + life->calls))
            return !(life->job->outcomes[life->rank].wrong = true);
    return true;
}

static bool sum_on(struct life *life, struct collet_comm *comm, struct collet_stream *stream) {
    size_t elems = begin_sum(life);
    return went_well(life, collet_allreduce(life->in, life->out, elems, COLLET_INT32, COLLET_SUM, comm, stream)) &&
           (stream == NULL || went_well(life, collet_stream_synchronize(stream))) && sum_is_exact(life, elems);
}

/* A sum, and a message around the ring. */
static bool group_once(struct life *life) {
    const int n = life->trial->nranks, next = (life->rank + 1) % n, before = (life->rank + n - 1) % n;
    size_t elems = begin_sum(life);
    int sent = life->rank * 1000 + (int)life->calls, got = -1;
    collet_group_start();
    collet_allreduce(life->in, life->out, elems, COLLET_INT32, COLLET_SUM, life->comm, NULL);
    collet_send(&sent, 1, COLLET_INT32, next, life->comm, NULL);
    collet_recv(&got, 1, COLLET_INT32, before, life->comm, NULL);
    if (!went_well(life, collet_group_end()))
        return false;
    if (got != before * 1000 + (int)life->calls)
        return !(life->job->outcomes[life->rank].wrong = true);
    return sum_is_exact(life, elems);
}

static bool use_stream(struct life *life) {
    struct collet_stream *stream;
    bool well = went_well(life, collet_stream_create(&stream));
    for (int k = 0; k < 10 && well; k++)
        well = sum_on(life, life->comm, stream);
    collet_stream_destroy(stream);
    return well;
}

static bool use_split(struct life *life) {
    struct collet_comm *child;
    if (!went_well(life, collet_comm_split(life->comm, 0, life->rank, &child, NULL)))
        return false;
    bool well = sum_on(life, child, NULL);
    collet_comm_destroy(child);
    return well;
}

/* False: it ended early. */
static bool live(struct life *life) {
    struct collet_config config = {.size = sizeof(config)};
    if (!go_on(life, INIT) || !went_well(life, collet_comm_init_rank_config(&life->comm, life->trial->nranks,
                                                                            life->job->id, life->rank, &config)))
        return false;
    if (!go_on(life, FIRST) || !sum_on(life, life->comm, NULL) || !go_on(life, MANY))
        return false;
    for (int k = 0; k < 30; k++)
        if (!sum_on(life, life->comm, NULL))
            return false;
    if (!go_on(life, GROUP))
        return false;
    for (int k = 0; k < 5; k++)
        if (!group_once(life))
            return false;
    return go_on(life, STREAM) && use_stream(life) && go_on(life, SPLIT) && use_split(life) && go_on(life, DESTROY);
}

/* ------------------------------------------------------------------------------------------------------------ going on */

static void *die_later(void *trial) {
    usleep((unsigned)(number(((const struct trial *)trial)->seed, 7) % 6000));
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
    life->job->outcomes[life->rank].wrong |= !exact;
    return true;
}

/* Until those that are still to die have died. */
static void go_on_without_the_dead(struct life *life) {
    const struct trial *trial = life->trial;
    struct outcome *outcome = &life->job->outcomes[life->rank];
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
    struct life life = {.trial = trial, .job = job, .rank = rank};
    char host[16];
    snprintf(host, sizeof(host), "host%d", rank);
    if (trial->hosts)
        setenv("COLLET_HOSTID", host, 1);
    life.in = calloc(ELEMS_MAX, sizeof(int));
    life.out = calloc(ELEMS_MAX, sizeof(int));
    if (rank == 0 && collet_get_unique_id(&job->id) == COLLET_SUCCESS)
        __atomic_store_n(&job->id_ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&job->id_ready, __ATOMIC_ACQUIRE))
        usleep(200);
    const bool ended_early = !live(&life) && job->outcomes[rank].result != COLLET_SUCCESS;
    if (ended_early && trial->goes_on && life.comm != NULL && !(rank == trial->victim && trial->fault != PAUSE))
        go_on_without_the_dead(&life);
    if (job->outcomes[rank].shrunk != COLLET_SUCCESS && rank % 2)
        collet_comm_abort(life.comm);
    else
        collet_comm_destroy(life.comm);
    if (life.aborts)
        pthread_join(life.aborter, NULL);
    free(life.in);
    free(life.out);
    __atomic_store_n(&job->outcomes[rank].ended, true, __ATOMIC_RELEASE);
    while (life.exits) /* two threads may not exit at once */
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

static bool names_rank(const char *text, int rank) {
    char name[16];
    snprintf(name, sizeof(name), "rank %d", rank);
    for (const char *at = text; (at = strstr(at, name)) != NULL; at++)
        if (at[strlen(name)] < '0' || at[strlen(name)] > '9')
            return true;
    return false;
}

/* "…: 0, 4" behind what an init says of ranks that are missing. */
static bool lists_rank(const char *text, int rank) {
    const char *at = strstr(text, "have not come: ");
    if (at == NULL)
        at = strstr(text, "not connected yet: ");
    for (at = at != NULL ? strchr(at, ':') : NULL; at != NULL && (*at == ':' || *at == ',');) {
        char *end;
        if (strtol(at + 1, &end, 10) == rank)
            return true;
        at = end;
    }
    return false;
}

static bool names_dead(const struct trial *trial, const char *text) {
    return names_rank(text, trial->victim) || (trial->second >= 0 && names_rank(text, trial->second));
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
    return names_dead(trial, text) || revoker_names_cause(trial, job, text) || lists_rank(text, trial->victim) ||
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
        usleep(1000);
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
