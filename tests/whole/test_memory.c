/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, or a descriptor, that a rank does not get. In each trial three processes go through everything a communicator can do,
 * and the k-th request of one of them is refused:
 *
 *    requests of rank 1    1 2 3 4 5 6 7 8 …           init ─▶ calls ─▶ … ─▶ split ─▶ window ─▶ inits in a group ─▶ shrink ─▶ destroy
 *    trial 5                       ✗        one of them is refused
 *
 * A trial is passed if no rank hangs, crashes or (under a leak checker) leaks, if no call that succeeds has a wrong result, and
 * if each error says why: that of the rank itself that there was no memory, those of the others which rank it was. A rank with
 * an error keeps its communicator until the others have ended: they must hear of it, not see it leave.
 *
 *    make campaign-memory                          all k, in sixty parts; campaign-leaks: under the address sanitizer. Else 25 of each kind
 *    PART=2/60 build/tests/whole/test_memory       each sixtieth k, from the second on
 *    K=77 VICTIM=2 build/tests/whole/test_memory   this one of rank 2 alone, of each kind
 */
#include "collet.h"
#include "common/fair.h"
#include "common/level.h"
#include "common/life.h"
#include "common/refuse.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS 3
#define WORKERS 3                  /* trials at the same time */
#define HANG_S (60 * LEVEL_SLOWER) /* a trial that takes longer hangs */
#define LIMIT_S 20                 /* of calls and of an init, which some trials wait for */

struct kind {
    const char *name, *transport;
    enum resource resource;
    const char *words[3]; /* the victim's error has one of these */
};
static const struct kind kinds[] = {
    {"memory, shm", "shm", MEMORY, {"memory", "temporarily unavailable", NULL}}, /* a thread, too */
    {"memory, tcp", "tcp", MEMORY, {"memory", "temporarily unavailable", NULL}},
    {"descriptors, tcp", "tcp", DESCRIPTORS, {"ulimit -n", "Too many open files", NULL}},
};
#define KINDS ((int)(sizeof(kinds) / sizeof(*kinds)))

struct trial {
    const struct kind *kind;
    int64_t k; /* 0: nothing is refused */
    int victim;
};

struct job {
    struct collet_unique_id id;
    int id_ready, over; /* over: so many ranks have come to their last call */
    int64_t asked;      /* by the victim */
    int pid;            /* of the victim */
    struct outcome outcomes[RANKS];
};

struct sums {
    int next[KINDS], passed, failed;
    int ended[KINDS][2]; /* exact; with an error */
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *share(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

/* ------------------------------------------------------------------------------------------------------------ a rank */

static bool go_on(struct life *life, enum moment moment) {
    (void)life;
    (void)moment;
    return true;
}

static bool use_window(struct life *life) {
    struct collet_window *window;
    life->outcome->where = "window";
    return life_went_well(life, collet_win_register(life->comm, life->in, LIFE_ELEMS_MAX, &window)) &&
           life_went_well(life, collet_win_deregister(life->comm, window));
}

/* Rank 0 may have none; then it says so. */
static bool share_new_id(struct life *life, struct collet_unique_id *id) {
    if (life->rank == 0 && !life_went_well(life, collet_get_unique_id(id))) {
        collet_comm_revoke(life->comm);
        return false;
    }
    return life_went_well(life, collet_broadcast(id, id, sizeof *id, COLLET_UINT8, 0, life->comm, NULL));
}

/* A group of a split and an init: if the init cannot begin, the split never does. */
static bool make_two_in_group(struct life *life) {
    struct collet_comm *made[2] = {NULL, NULL};
    struct collet_unique_id id;
    life->outcome->where = "inits in a group";
    if (!share_new_id(life, &id))
        return false;
    collet_group_start();
    collet_comm_split(life->comm, 0, 0, &made[0], NULL);
    collet_comm_init_rank(&made[1], life->nranks, id, life->rank);
    const bool all = life_went_well(life, collet_group_end());
    bool well = all;
    for (int k = 0; k < 2; k++) {
        life->outcome->wrong |= (made[k] != NULL) != all;
        well = well && life_sum(life, made[k], NULL);
    }
    for (int k = 0; k < 2; k++)
        collet_comm_destroy(made[k]);
    return well;
}

static void shrink(struct life *life) {
    struct collet_comm *smaller;
    life->outcome->where = "shrink";
    if (!life_went_well(life, collet_comm_shrink(life->comm, NULL, 0, &smaller, NULL)))
        return;
    life_sum(life, smaller, NULL);
    collet_comm_destroy(smaller);
}

/* For as long as a trial may take. */
static void await(const int *word, int value) {
    const uint64_t begun_ns = fair_now_ns();
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value && fair_now_ns() - begun_ns < HANG_S * 1000000000ull)
        usleep(200);
}

static void rank_main(const struct trial *trial, struct job *job, int rank) {
    struct life life = {.rank = rank, .nranks = RANKS, .seed = 7, .outcome = &job->outcomes[rank], .go_on = go_on};
    life_begin(&life);
    if (rank == 0 && collet_get_unique_id(&job->id) == COLLET_SUCCESS)
        __atomic_store_n(&job->id_ready, 1, __ATOMIC_RELEASE);
    await(&job->id_ready, 1);
    life.id = job->id;
    if (rank == trial->victim)
        job->pid = getpid();
    if (rank == trial->victim)
        refuse(trial->kind->resource, trial->k, trial->k); /* the 0th: none */
    if (life_live(&life) && use_window(&life) && make_two_in_group(&life))
        shrink(&life);
    __atomic_add_fetch(&job->over, 1, __ATOMIC_RELEASE);
    if (life.outcome->result != COLLET_SUCCESS)
        await(&job->over, RANKS);
    collet_comm_destroy(life.comm);
    if (rank == trial->victim)
        job->asked = __atomic_load_n(&refusing.asked, __ATOMIC_RELAXED);
    refuse(NO_RESOURCE, 0, 0);
    life_end(&life);
    life.outcome->ended = true;
    exit(0); /* not _exit: a leak checker has its say */
}

/* ------------------------------------------------------------------------------------------------------------- a trial */

/* Before it is a communicator, a rank that could not even come can tell nobody. */
static bool may_be(const struct trial *trial, const struct job *job, const struct outcome *outcome, int rank) {
    bool why = false;
    if (rank != trial->victim)
        return (outcome->result != COLLET_ERR_TIMEOUT &&
                (life_names_rank(outcome->text, trial->victim) || life_names_process(outcome->text, job->pid))) ||
               (outcome->where == moment_names[INIT] && outcome->result == COLLET_ERR_TIMEOUT &&
                life_misses_rank(outcome->text, trial->victim));
    for (int w = 0; trial->kind->words[w] != NULL; w++)
        why |= strstr(outcome->text, trial->kind->words[w]) != NULL;
    return why;
}

static const char *judge_rank(const struct trial *trial, const struct job *job, const struct outcome *outcome, int rank,
                              int status, bool done) {
    if (!done)
        return "hangs";
    if (status != 0 || !outcome->ended)
        return "has crashed, or leaks";
    if (outcome->wrong)
        return "has a wrong result";
    if (outcome->result == COLLET_SUCCESS || may_be(trial, job, outcome, rank))
        return NULL;
    return "has an error that does not say why";
}

static bool judge(const struct trial *trial, const struct job *job, const int *statuses, const bool *done,
                  struct sums *sums) {
    bool good = true, exact = true;
    for (int rank = 0; rank < RANKS; rank++) {
        const struct outcome *outcome = &job->outcomes[rank];
        const char *fault = judge_rank(trial, job, outcome, rank, statuses[rank], done[rank]);
        exact &= outcome->result == COLLET_SUCCESS;
        if (fault == NULL)
            continue;
        good = false;
        printf("%s, request %lld of rank %d: rank %d %s (status 0x%x, at %s, %s: %s)\n", trial->kind->name,
               (long long)trial->k, trial->victim, rank, fault, (unsigned)statuses[rank],
               outcome->where ? outcome->where : "the start", collet_error_string(outcome->result), outcome->text);
    }
    __atomic_add_fetch(good ? &sums->passed : &sums->failed, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&sums->ended[trial->kind - kinds][exact ? 0 : 1], 1, __ATOMIC_RELAXED);
    return good;
}

static bool all_ended(const pid_t *pids, int *statuses, bool *done) {
    bool all = true;
    for (int rank = 0; rank < RANKS; rank++) {
        if (!done[rank])
            done[rank] = waitpid(pids[rank], &statuses[rank], WNOHANG) == pids[rank];
        all &= done[rank];
    }
    return all;
}

static void set_limits(void) {
    char text[16];
    snprintf(text, sizeof(text), "%d", fair_limit_s(LIMIT_S));
    setenv("COLLET_TIMEOUT", text, 1);
    setenv("COLLET_INIT_TIMEOUT", text, 1);
}

static void run_trial(const struct trial *trial, struct job *job, struct sums *sums) {
    const uint64_t begun_ns = now_ns(), since_ns = fair_now_ns();
    pid_t pids[RANKS];
    int statuses[RANKS] = {0};
    bool done[RANKS] = {false};
    memset(job, 0, sizeof(*job));
    setenv("COLLET_TRANSPORT", trial->kind->transport, 1);
    set_limits();
    fflush(NULL);
    for (int rank = 0; rank < RANKS; rank++)
        if ((pids[rank] = fork()) == 0)
            rank_main(trial, job, rank);
    while (!all_ended(pids, statuses, done) && fair_now_ns() - since_ns < HANG_S * 1000000000ull)
        usleep(500);
    judge(trial, job, statuses, done, sums);
    for (int rank = 0; rank < RANKS; rank++)
        if (!done[rank]) {
            kill(pids[rank], SIGKILL);
            waitpid(pids[rank], NULL, 0);
        }
    if (getenv("VERBOSE") != NULL)
        printf("%s k %lld of rank %d asked %lld: %s %s: %s; %lld ms\n", trial->kind->name, (long long)trial->k,
               trial->victim, (long long)job->asked, job->outcomes[trial->victim].where,
               collet_error_string(job->outcomes[trial->victim].result), job->outcomes[trial->victim].text,
               (long long)(now_ns() - begun_ns) / 1000000);
}

/* ---------------------------------------------------------------------------------------------------------- all trials */

static long variable(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? atol(text) : otherwise;
}

/* Each nth request, from this one on. */
struct part {
    long first, nth;
};

/* part NULL: is there one? */
static bool read_part(struct part *part) {
    const char *text = getenv("PART");
    struct part said;
    if (text == NULL || sscanf(text, "%ld/%ld", &said.first, &said.nth) != 2 || said.first < 1 || said.nth < 1)
        return false;
    if (part != NULL)
        *part = said;
    return true;
}

static int ends_with_an_error(const struct sums *sums, const struct kind *kind) {
    return __atomic_load_n(&sums->ended[kind - kinds][1], __ATOMIC_RELAXED);
}

static struct part choose_part(int64_t most) {
    const enum level level = level_now();
    struct part part = {1, level == LEVEL_FULL ? 1 : most / (level == LEVEL_FAST ? 8 : 25) + 1};
    read_part(&part);
    return part;
}

/* Until there are no more requests to refuse. */
static void run_kind(const struct kind *kind, struct job *job, struct sums *sums) {
    const long alone = variable("K", 0);
    struct trial trial = {.kind = kind};
    run_trial(&trial, job, sums);
    const int64_t most = job->asked;
    const struct part part = choose_part(most);
    printf("%s: %lld requests\n", kind->name, (long long)most);
    fflush(stdout);
    if (most == 0)
        exit(1);
    if (alone > 0) {
        trial = (struct trial){kind, alone, (int)(variable("VICTIM", 0) % RANKS)};
        run_trial(&trial, job, sums);
        return;
    }
    for (int64_t n;
         (n = __atomic_fetch_add(&sums->next[kind - kinds], 1, __ATOMIC_RELAXED)) * part.nth + part.first <= most;) {
        trial.k = part.first + n * part.nth;
        trial.victim = (int)(n % RANKS);
        run_trial(&trial, job, sums);
    }
    /* Most descriptors can be done without. Of a few trials, none may have met an error: goes on until one does. */
    for (int64_t k = part.first + 1; ends_with_an_error(sums, kind) == 0 && !read_part(NULL) && k <= most; k += 4) {
        trial.k = k;
        trial.victim = (int)(k % RANKS);
        run_trial(&trial, job, sums);
    }
}

/* The trials of a kind are some with an error, unless they are few, and the first, without. */
static int count_untested(const struct sums *sums) {
    struct part part;
    const bool few = variable("K", 0) > 0 || read_part(&part);
    int untested = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        const int *ended = sums->ended[kind];
        printf("%s: %d exact, %d with an error\n", kinds[kind].name, ended[0], ended[1]);
        untested += ended[0] == 0 || (ended[1] == 0 && !few);
    }
    return untested;
}

int main(void) {
    struct sums *sums = share(sizeof(*sums));
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit); /* nothing to be raised */
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    setenv("COLLET_HEARTBEAT", "200", 1);
    for (int worker = 0; worker < WORKERS; worker++) {
        if (fork() != 0)
            continue;
        struct job *job = share(sizeof(*job));
        for (int kind = 0; kind < KINDS; kind++)
            run_kind(&kinds[kind], job, sums);
        exit(0);
    }
    int crashed = 0, status;
    while (wait(&status) > 0)
        crashed += status != 0;
    const int failed = sums->failed + crashed + count_untested(sums);
    printf("%d passed, %d failed\n", sums->passed, failed);
    return failed != 0;
}
