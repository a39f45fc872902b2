/* SPDX-License-Identifier: Apache-2.0
 *
 * Breaks jobs on purpose, again and again. Each trial is a job of 2 … 5 processes that goes through everything a communicator
 * can do; a seed chooses what goes wrong, for which rank, and when:
 *
 *    init ─▶ first call ─▶ many calls ─▶ groups ─▶ a stream ─▶ a split ─▶ destroy
 *      ▲                       ▲
 *      │                       └── here, 3.1 ms later: SIGKILL for rank 2 of 4, over tcp
 *      │                           │
 *      │                           └─▶ revoke ─▶ shrink ─▶ a sum of those that are left
 *      │                                           └── here, in some trials: SIGKILL for another rank
 *      └── or while the ranks meet, of whom each comes when it likes
 *
 * A trial is passed if every other rank ends, if no call that succeeds has a wrong result, if every error names the rank
 * to blame, and if all ranks that had one go on together. Times are printed, not judged: a rank that takes longer than
 * a minute hangs. The table of a campaign is printed after each thousand trials, too, and when SIGINT or SIGTERM ends it.
 *
 *    SEEDS=1000 make test-faults            1000 trials, seeds 1 … 1000
 *    SEEDS=1 FIRST=77 make test-faults      the trial of seed 77 alone
 *    WORKERS=12 STRETCH=4 make test-faults  12 trials at the same time, on a machine so busy that each limit of time is 4 times as long
 */
#include "collet.h"
#include "common/fair.h"
#include "common/level.h"
#include "common/life.h"
#include "common/one_way.h"
#include "common/refuse.h"
#include "common/whole.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 5
#define WORKERS_USUAL 4  /* trials at the same time: most of a trial is waiting */
#define HANG_S 90        /* a trial that takes longer hangs */
#define MEETING_US 60000 /* within so long all come, where they come one after another */
#define TABLE_EVERY 1000 /* trials */

struct kind;

/* What a seed means. */
struct trial {
    uint64_t seed;
    const struct kind *kind;
    enum moment moment;
    bool meeting; /* ranks come to init one after another, and the victim is struck in the midst of it */
    int nranks, victim;
    int second;   /* rank that dies when the others shrink; −1: none */
    bool goes_on; /* those that were harmed shrink; where they have to wait out a stopped rank, not in each trial */
    const char *transport;
    bool hosts; /* each rank has a host of its own */
    unsigned delay_us;
    int64_t request; /* that is refused, counted from the moment on */
};

struct job {
    struct collet_unique_id id;
    int id_ready, reached; /* reached: the victim is where the fault is to happen */
    int other_end;         /* rank at the other end of the connection that works one way only; −1: none */
    pid_t pids[RANKS_MAX];
    struct outcome outcomes[RANKS_MAX];
};

/* A life that a trial breaks. */
struct broken {
    struct life life; /* first: go_on() gets it */
    const struct trial *trial;
    struct job *job;
    pthread_t doer;
    bool does;        /* there is such a thread */
    int child_status; /* of a forked child: 0, or what it did not get as it should */
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

/* ------------------------------------------------------------------------------------------- what a victim does itself */

static void abort_comm(struct broken *broken) {
    __atomic_store_n(&broken->life.aborted, 1, __ATOMIC_RELEASE);
    collet_comm_abort(broken->life.comm);
}

static void revoke_comm(struct broken *broken) { collet_comm_revoke(broken->life.comm); }

static void leave_in_silence(struct broken *broken) {
    (void)broken;
    exit(0);
}

static void cut(struct broken *broken, enum one_way how) {
    struct job *job = broken->job;
    job->other_end = one_way(how, (unsigned)life_number(broken->life.seed, 9), job->pids, broken->life.nranks);
}
static void half_open(struct broken *broken) { cut(broken, HALF_OPEN); }
static void deafen(struct broken *broken) { cut(broken, DEAF); }

/* Its rank may have destroyed the communicator before the fork: then it is an unknown handle. */
static bool is_refused(enum collet_result result) {
    return (result == COLLET_ERR_INVALID_USAGE && strstr(collet_last_error(NULL), "fork") != NULL) ||
           result == COLLET_ERR_INVALID_ARGUMENT;
}

/* The child has nothing of what its parent had, and may make all of that for itself. 0: so it is. */
static int live_as_child(const struct broken *broken) {
    struct collet_comm *inherited = __atomic_load_n(&broken->life.comm, __ATOMIC_RELAXED), *own;
    int one = 1, got = 0;
    if (inherited != NULL && !is_refused(collet_allreduce(&one, &got, 1, COLLET_INT32, COLLET_SUM, inherited, NULL)))
        return 1;
    if (inherited != NULL && !is_refused(collet_comm_count(inherited, &got)))
        return 2;
    if (LEVEL_CHILDREN_ONLY_ASK)
        return 0;
    if (collet_comm_init_all(&own, 1, NULL) != COLLET_SUCCESS)
        return 3;
    if (collet_allreduce(&one, &got, 1, COLLET_INT32, COLLET_SUM, own, NULL) != COLLET_SUCCESS || got != 1)
        return 4;
    return collet_comm_destroy(own) == COLLET_SUCCESS ? 0 : 5;
}

static void fork_child(struct broken *broken) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        fair_alarm((unsigned)(HANG_S * stretch() / 2));
        _exit(live_as_child(broken));
    }
    if (child < 0 || waitpid(child, &broken->child_status, 0) != child)
        broken->child_status = -1;
}

/* ----------------------------------------------------------------------------------------------------- kinds of faults */

/* What becomes of the victim. */
enum fate {
    ENDS_SOMEHOW, /* if at all */
    EXITS,        /* with status 0 */
    IS_OUT,       /* has a right to its errors, as the others have, but no communicator to go on with */
    STAYS,        /* goes on with the others */
};

#define BIT(name) (1u << -COLLET_ERR_##name)
#define LOST (BIT(REMOTE) | BIT(ABORTED)) /* a rank that has noticed may abort before another one notices */
#define WITHOUT (LOST | BIT(NO_MEMORY) | BIT(SYSTEM))

static const struct kind {
    const char *name;
    int signal, later;                   /* that strike it; later: after 0.1 … 0.6 s; 0: none */
    void (*deed)(struct broken *broken); /* what another thread of it does */
    bool quits;                          /* it makes no more calls */
    enum resource refused;               /* it does not get one of these, one of the next 2^reach at most */
    unsigned reach;
    enum moment first; /* there is nothing yet before that could break so */
    enum fate fate;
    unsigned others, own; /* bits: the errors that the others, and the victim, may have. None: nobody is harmed */
    const char *words[3]; /* one of them is in the victim's own error; none: that names a culprit, as the others' do */
    bool stands;          /* nothing but time may end the waits */
    bool
        cuts; /* What breaks has two ends. Each may be left out: then it is told so, and the others go on without it. */
    bool again; /* another rank may die when the rest shrink */
    bool mute;  /* the log of each rank is a pipe that is full and that nobody reads */
} kinds[] = {
    {"SIGKILL", .signal = SIGKILL, .others = LOST, .again = true},
    {"SIGTERM", .signal = SIGTERM, .others = LOST},
    {"SIGSTOP", .signal = SIGSTOP, .others = BIT(TIMEOUT) | BIT(ABORTED), .stands = true},
    {"SIGSTOP, SIGCONT", .signal = SIGSTOP, .later = SIGCONT, .fate = STAYS},
    {"exit, no destroy", .deed = leave_in_silence, .fate = EXITS, .others = LOST},
    {"fewer calls", .quits = true, .fate = EXITS, .others = LOST},
    {"abort", .deed = abort_comm, .first = FIRST, .fate = IS_OUT, .others = LOST,
     .own = BIT(ABORTED) | BIT(INVALID_ARGUMENT) | BIT(INVALID_USAGE), .words = {"communicator", "abort"}},
    {"revoke", .deed = revoke_comm, .first = FIRST, .fate = STAYS, .others = BIT(ABORTED), .own = BIT(ABORTED)},
    {"fork", .deed = fork_child, .fate = STAYS},
    {"half-open socket", .deed = half_open, .fate = STAYS, .others = LOST, .own = LOST, .cuts = true},
    {"deaf socket", .deed = deafen, .fate = STAYS, .others = LOST | BIT(TIMEOUT), .own = LOST | BIT(TIMEOUT),
     .stands = true, .cuts = true},
    {"no memory", .refused = MEMORY, .reach = 9, .fate = STAYS, .others = WITHOUT, .own = WITHOUT,
     .words = {"memory", "temporarily unavailable"}}, /* a thread, too */
    {"no descriptor", .refused = DESCRIPTORS, .reach = 4, .fate = STAYS, .others = WITHOUT, .own = WITHOUT,
     .words = {"ulimit -n", "Too many open files"}},
    {"SIGSTOP, SIGKILL", .signal = SIGSTOP, .later = SIGKILL, .others = LOST, .again = true},
    {"SIGKILL, full logs", .signal = SIGKILL, .others = LOST, .again = true, .mute = true},
};
#define KINDS ((int)(sizeof(kinds) / sizeof(*kinds)))
#define LATE_KINDS 2 /* the last ones */
#define EARLY_KINDS (KINDS - LATE_KINDS)
#define LATE_EVERY 9                                    /* each ninth seed has a late kind, or a meeting … */
#define LATE_SCENES (KINDS + LATE_KINDS * MOMENT_COUNT) /* … of which there are so many */
#define MEETING MOMENT_COUNT                            /* a column of the table */

/* Of all trials, summed over the workers. */
struct sums {
    int injected[KINDS][MOMENT_COUNT + 1], exact[KINDS], named[KINDS], failed[KINDS];
    int went_on[KINDS]; /* of those that are named */
    int slowest_ms[KINDS];
    int all;
    int stopped; /* by a signal */
};

/* Each kind equally often at each moment. Nine and their number have no divisor in common, so what was added later takes equally many of
 * each. All other seeds mean what they meant before. */
static void choose_scene(struct trial *trial) {
    const int late = (int)(trial->seed / LATE_EVERY % LATE_SCENES);
    trial->kind = &kinds[trial->seed % EARLY_KINDS];
    trial->moment = (enum moment)(trial->seed / EARLY_KINDS % MOMENT_COUNT);
    if (trial->seed % LATE_EVERY != 0)
        return;
    trial->meeting = late < KINDS;
    trial->kind = &kinds[trial->meeting ? late : EARLY_KINDS + (late - KINDS) / MOMENT_COUNT];
    trial->moment = trial->meeting ? INIT : (enum moment)((late - KINDS) % MOMENT_COUNT);
}

static struct trial trial_of(uint64_t seed) {
    struct trial trial = {.seed = seed,
                          .nranks = 2 + (int)(life_number(seed, 0) % (RANKS_MAX - 1)),
                          .transport = life_number(seed, 1) % 2 ? "shm" : "tcp",
                          .delay_us = (unsigned)(life_number(seed, 2) % 5000)};
    choose_scene(&trial);
    const struct kind *kind = trial.kind;
    trial.victim = (int)(life_number(seed, 3) % (unsigned)trial.nranks);
    trial.hosts = trial.transport[0] == 't' && life_number(seed, 4) % 2;
    trial.second = (trial.victim + 1 + (int)(life_number(seed, 5) % (unsigned)(trial.nranks - 1))) % trial.nranks;
    if (!kind->again || life_number(seed, 6) % 2)
        trial.second = -1;
    trial.goes_on = library_is_whole && (!kind->stands || life_number(seed, 8) % 4 == 0);
    trial.request = 1 + (int64_t)(life_number(seed, 10) % (1u << life_number(seed, 11) % (kind->reach + 1)));
    if (trial.moment < kind->first)
        trial.moment = kind->first;
    if (trial.meeting)
        trial.delay_us = (unsigned)(life_number(seed, 2) % MEETING_US);
    return trial;
}

/* ------------------------------------------------------------------------------------------------------------ a rank */

static void *do_deed(void *argument) {
    struct broken *broken = argument;
    usleep(broken->trial->delay_us);
    broken->trial->kind->deed(broken);
    return NULL;
}

static bool go_on(struct life *life, enum moment moment) {
    struct broken *broken = (struct broken *)life;
    const struct trial *trial = broken->trial;
    if (life->rank != trial->victim || moment != trial->moment)
        return true;
    __atomic_store_n(&broken->job->reached, 1, __ATOMIC_RELEASE);
    if (trial->kind->deed != NULL)
        broken->does = pthread_create(&broken->doer, NULL, do_deed, broken) == 0;
    if (trial->kind->refused != NO_RESOURCE)
        refuse(trial->kind->refused, trial->request, trial->request);
    return !trial->kind->quits;
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

static void log_into_full_pipe(void) {
    static const char nothing[PIPE_BUF];
    int ends[2];
    setenv("COLLET_DEBUG", "TRACE", 1);
    if (pipe2(ends, O_NONBLOCK) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        abort();
    while (write(STDERR_FILENO, nothing, sizeof(nothing)) > 0)
        ;
    fcntl(STDERR_FILENO, F_SETFL, 0); /* a write() that does not look first never returns */
}

static void rank_main(const struct trial *trial, struct job *job, int rank) {
    struct outcome *outcome = &job->outcomes[rank];
    struct broken broken = {
        .life = {.rank = rank, .nranks = trial->nranks, .seed = trial->seed, .outcome = outcome, .go_on = go_on},
        .trial = trial,
        .job = job};
    struct life *life = &broken.life;
    char host[16];
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_IGN); /* a terminal's: the trial is not judged then */
    snprintf(host, sizeof(host), "host%d", rank);
    if (trial->hosts)
        setenv("COLLET_HOSTID", host, 1);
    if (trial->kind->mute)
        log_into_full_pipe();
    life_begin(life);
    if (rank == 0 && collet_get_unique_id(&job->id) == COLLET_SUCCESS)
        __atomic_store_n(&job->id_ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&job->id_ready, __ATOMIC_ACQUIRE))
        usleep(200);
    life->id = job->id;
    if (trial->meeting)
        usleep((unsigned)(life_number(trial->seed, 20 + (uint64_t)rank) % MEETING_US));
    const bool ended_early = !life_live(life) && outcome->result != COLLET_SUCCESS;
    if (ended_early && trial->goes_on && life->comm != NULL && (rank != trial->victim || trial->kind->fate == STAYS))
        go_on_without_the_dead(life, trial);
    if (outcome->shrunk != COLLET_SUCCESS && rank % 2)
        collet_comm_abort(life->comm);
    else
        collet_comm_destroy(life->comm);
    if (broken.does) /* two threads may not exit at once, either */
        pthread_join(broken.doer, NULL);
    refuse(NO_RESOURCE, 0, 0);
    if (broken.child_status != 0) {
        outcome->wrong = true;
        snprintf(outcome->text, sizeof(outcome->text), "the forked child has status 0x%x",
                 (unsigned)broken.child_status);
    }
    life_end(life);
    __atomic_store_n(&outcome->ended, true, __ATOMIC_RELEASE);
    exit(0);
}

/* ------------------------------------------------------------------------------------------------------------- a trial */

static bool is_over(const struct sums *sums, uint64_t since_ns) {
    return __atomic_load_n(&sums->stopped, __ATOMIC_RELAXED) || fair_now_ns() - since_ns > hang_ns();
}

/* The signals come from outside. */
static void strike(const struct trial *trial, struct job *job, pid_t pid, const struct sums *sums) {
    const uint64_t begun_ns = fair_now_ns();
    while (!__atomic_load_n(&job->reached, __ATOMIC_ACQUIRE) && !is_over(sums, begun_ns))
        usleep(100);
    if (trial->kind->signal == 0)
        return;
    usleep(trial->delay_us);
    kill(pid, trial->kind->signal);
    if (trial->kind->later != 0) {
        usleep(100000 + trial->delay_us % 5000 * 100);
        kill(pid, trial->kind->later);
    }
}

static bool all_ended(const struct trial *trial, const pid_t *pids, int *statuses, bool *done) {
    bool all = true;
    for (int rank = 0; rank < trial->nranks; rank++) {
        if (!done[rank])
            done[rank] = waitpid(pids[rank], &statuses[rank], WNOHANG) == pids[rank];
        all &= done[rank] || (rank == trial->victim && trial->kind->stands && trial->kind->fate == ENDS_SOMEHOW);
    }
    return all;
}

/* Does it name the victim, or whom else there is to blame, or a process of theirs? */
static bool names_culprit(const struct trial *trial, const struct job *job, const char *text) {
    const int culprits[] = {trial->victim, trial->second, job->other_end};
    for (int k = 0; k < 3; k++)
        if (culprits[k] >= 0 && (life_names_rank(text, culprits[k]) || life_misses_rank(text, culprits[k]) ||
                                 life_names_process(text, job->pids[culprits[k]])))
            return true;
    return false;
}

/* Is the rank at an end of the connection that works one way only? */
static bool is_cut_off(const struct trial *trial, const struct job *job, int rank) {
    return trial->kind->cuts && (rank == trial->victim || rank == job->other_end);
}

/* A rank that revokes the parent for a failure of the child says so to the others, and it knows the cause. */
static bool revoker_names_cause(const struct trial *trial, const struct job *job, const char *text) {
    const char *at = strstr(text, " called collet_comm_revoke()");
    for (int rank = 0; at != NULL && rank < trial->nranks; rank++) {
        char name[48];
        snprintf(name, sizeof(name), "rank %d called collet_comm_revoke()", rank);
        if (strstr(text, name) != NULL)
            return names_culprit(trial, job, job->outcomes[rank].text);
    }
    return false;
}

/* A rank that comes late may find that the others, and the meeting point with them, have ended. If its own time is up just then, it says
 * that nobody answers. */
static bool names_cause(const struct trial *trial, const struct job *job, const char *text) {
    return names_culprit(trial, job, text) || revoker_names_cause(trial, job, text) ||
           (trial->moment == INIT &&
            (strstr(text, "nobody of this job listens at the meeting point any more") != NULL ||
             (strstr(text, "no meeting point answers") != NULL && strstr(text, "Connection refused") != NULL))) ||
           (trial->moment == INIT && trial->victim == 0 && strstr(text, "meeting point") != NULL);
}

/* What an end of such a connection may say of it. In a shrink that it was left out of, it names whom it does not hear. */
static bool tells_of_cut(const struct outcome *outcome) {
    return outcome->shrunk == COLLET_ERR_TIMEOUT || strstr(outcome->text, "count this process as lost") != NULL ||
           strstr(outcome->text, "something on the way closed it") != NULL ||
           strstr(outcome->text, "the meeting point is silent") != NULL;
}

/* Who is behind the rank that is waited for, the layer observe finds. The core names the rank itself. */
static bool names_whom_it_awaits(const struct outcome *outcome) {
    return !library_is_whole && outcome->result == COLLET_ERR_TIMEOUT &&
           strstr(outcome->text, "waiting for rank") != NULL;
}

static bool says_why(const struct trial *trial, const struct job *job, int rank) {
    const char *text = job->outcomes[rank].text, *const *words = trial->kind->words;
    if (is_cut_off(trial, job, rank) && tells_of_cut(&job->outcomes[rank]))
        return true;
    if (rank != trial->victim || words[0] == NULL)
        return names_cause(trial, job, text) || names_whom_it_awaits(&job->outcomes[rank]);
    return strstr(text, words[0]) != NULL || strstr(text, words[1]) != NULL;
}

/* An init ends in time where nobody can say any more what was the matter. */
static bool may_be(const struct trial *trial, int rank, enum collet_result result) {
    unsigned may = rank == trial->victim ? trial->kind->own : trial->kind->others;
    if (may != 0 && trial->moment == INIT)
        may |= BIT(TIMEOUT);
    if (trial->kind->stands && trial->hosts)
        may |= BIT(REMOTE);
    return may >> -result & 1;
}

/* What no rank may do; NULL: it has not. */
static const char *judge_end(const struct job *job, int rank, int status, bool done, enum fate fate) {
    if (!done)
        return "hangs";
    if (status != 0 || (fate != EXITS && !job->outcomes[rank].ended))
        return "has crashed";
    return job->outcomes[rank].wrong ? "has a wrong result" : NULL;
}

static const char *judge_error(const struct trial *trial, const struct job *job, int rank) {
    const enum collet_result result = job->outcomes[rank].result;
    if (result == COLLET_SUCCESS)
        return NULL;
    if (!may_be(trial, rank, result))
        return "has an error that should not be";
    return says_why(trial, job, rank) ? NULL : "has an error that does not name the cause";
}

/* An end of what was cut may hear in its shrink that the others have lost it. */
static bool is_left_out(const struct trial *trial, const struct job *job, int rank) {
    return is_cut_off(trial, job, rank) && job->outcomes[rank].shrunk == COLLET_ERR_REMOTE;
}

/* Then there are others, and they go on without it; except those whose init failed, which have nothing to go on with. */
static const char *judge_left_out(const struct trial *trial, const struct job *job, int rank) {
    unsigned company = 0;
    bool can_go_on = false;
    for (int other = 0; other < trial->nranks; other++) {
        company |= other != rank ? job->outcomes[other].company : 0;
        can_go_on |= other != rank && job->outcomes[other].where != moment_names[INIT];
    }
    if (company == 0)
        return can_go_on ? "is left out, but nobody goes on" : NULL;
    return company >> rank & 1 ? "is left out of its company" : NULL;
}

/* Who was harmed when there was a communicator has shrunk it. A rank that is stopped, and seen to live, cannot be left out. */
static const char *judge_company(const struct trial *trial, const struct job *job, int rank, unsigned *company) {
    const struct outcome *outcome = &job->outcomes[rank];
    if (is_left_out(trial, job, rank))
        return judge_left_out(trial, job, rank);
    if (outcome->shrunk != COLLET_SUCCESS)
        return trial->kind->stands && outcome->shrunk == COLLET_ERR_TIMEOUT ? NULL : "cannot shrink";
    if (outcome->company == 0)
        return !trial->goes_on || outcome->where == moment_names[INIT] ? NULL : "has not gone on";
    if (*company == 0 && !is_cut_off(trial, job, rank))
        *company = outcome->company;
    return (*company == outcome->company || is_cut_off(trial, job, rank)) && outcome->company >> rank & 1
               ? NULL
               : "goes on with others than the rest";
}

static bool was_killed(const struct trial *trial, int rank, int status) {
    return rank == trial->second && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void print_trial(const struct trial *trial) {
    printf("seed %llu: %s of rank %d of %d at %s", (unsigned long long)trial->seed, trial->kind->name, trial->victim,
           trial->nranks, moment_names[trial->moment]);
    if (trial->kind->refused != NO_RESOURCE)
        printf(", request %lld", (long long)trial->request);
    else
        printf(" + %u us", trial->delay_us);
    printf(", %s%s%s: ", trial->transport, trial->hosts ? " between hosts" : "", trial->meeting ? ", one by one" : "");
    if (trial->second >= 0)
        printf("then SIGKILL of rank %d: ", trial->second);
}

static void judge(const struct trial *trial, const struct job *job, const int *statuses, const bool *done, int ms,
                  struct sums *sums) {
    const int kind = (int)(trial->kind - kinds);
    bool failed = false, named = false;
    unsigned company = 0;
    for (int rank = 0; rank < trial->nranks; rank++) {
        const struct outcome *outcome = &job->outcomes[rank];
        const enum fate fate = rank == trial->victim ? trial->kind->fate : STAYS;
        if (fate == ENDS_SOMEHOW || was_killed(trial, rank, statuses[rank]))
            continue;
        const char *fault = judge_end(job, rank, statuses[rank], done[rank], fate);
        const bool harmed = fate == STAYS && outcome->result != COLLET_SUCCESS;
        if (fault == NULL && fate != EXITS)
            fault = judge_error(trial, job, rank);
        if (fault == NULL && harmed)
            fault = judge_company(trial, job, rank, &company);
        named |= harmed;
        if (fault == NULL)
            continue;
        failed = true;
        print_trial(trial);
        printf("rank %d %s (status 0x%x, at %s, %s, %s, company 0x%x, other end %d: %s)\n", rank, fault,
               (unsigned)statuses[rank], outcome->where ? outcome->where : "the start",
               collet_error_string(outcome->result), collet_error_string(outcome->shrunk), outcome->company,
               job->other_end, outcome->text);
    }
    __atomic_add_fetch(&sums->injected[kind][trial->meeting && trial->moment == INIT ? MEETING : trial->moment], 1,
                       __ATOMIC_RELAXED);
    int *sum = failed ? sums->failed : named ? sums->named : sums->exact;
    __atomic_add_fetch(&sum[kind], 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&sums->went_on[kind], !failed && company != 0, __ATOMIC_RELAXED);
    if (ms > sums->slowest_ms[kind])
        sums->slowest_ms[kind] = ms;
}

static void set_limit(const char *name, long value) {
    char text[24];
    snprintf(text, sizeof(text), "%ld", value * stretch());
    setenv(name, text, 1);
}

/* Times are short only where nothing but time can end a wait: a busy machine is no fault. */
static void set_variables(const struct trial *trial) {
    const bool stops = trial->kind->stands;
    setenv("COLLET_TRANSPORT", trial->transport, 1);
    set_limit("COLLET_TIMEOUT", stops ? 5 : 50);
    set_limit("COLLET_INIT_TIMEOUT", stops || trial->moment == INIT ? 6 : 50);
    set_limit("COLLET_HEARTBEAT_TIMEOUT", stops ? 5000 : 40000);
}

static void run_trial(const struct trial *trial, struct job *job, struct sums *sums) {
    pid_t *pids = job->pids;
    int statuses[RANKS_MAX] = {0};
    bool done[RANKS_MAX] = {false};
    memset(job, 0, sizeof(*job));
    job->other_end = -1;
    set_variables(trial);
    fflush(NULL);
    for (int rank = 0; rank < trial->nranks; rank++) {
        const pid_t pid = fork();
        if (pid == 0)
            rank_main(trial, job, rank);
        pids[rank] = pid; /* not the child's 0 */
    }
    strike(trial, job, pids[trial->victim], sums);
    const uint64_t struck_ns = now_ns(), since_ns = fair_now_ns();
    while (!all_ended(trial, pids, statuses, done) && !is_over(sums, since_ns))
        usleep(5000);
    const int ms = (int)((now_ns() - struck_ns) / 1000000);
    if (!sums->stopped)
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
    printf("%8s | %6s %6s %6s %6s  %s\n", "meeting", "exact", "error", "goes on", "FAILED", "longest");
    for (int kind = 0; kind < KINDS; kind++) {
        printf("%-18s", kinds[kind].name);
        for (int moment = 0; moment <= MEETING; moment++)
            printf("%8d", sums->injected[kind][moment]);
        printf(" | %6d %6d %7d %6d  %.1f s\n", sums->exact[kind], sums->named[kind], sums->went_on[kind],
               sums->failed[kind], sums->slowest_ms[kind] / 1e3);
        failed += sums->failed[kind];
        all += sums->exact[kind] + sums->named[kind] + sums->failed[kind];
    }
    printf("exact: no rank was harmed. error: every rank that was harmed got an error that names the cause.\n"
           "goes on: of these, those in which they shrank their communicator and computed with it.\n");
    printf("%d passed, %d failed\n", all - failed, failed);
    return failed;
}

static struct sums *sums_now;

static void stop(int number) {
    (void)number;
    __atomic_store_n(&sums_now->stopped, 1, __ATOMIC_RELAXED);
}

static void work(uint64_t seed, uint64_t end, uint64_t step, struct sums *sums) {
    struct job *job = share(sizeof(*job));
    for (; seed < end && !sums->stopped; seed += step) {
        struct trial trial = trial_of(seed);
        run_trial(&trial, job, sums);
        if (__atomic_add_fetch(&sums->all, 1, __ATOMIC_RELAXED) % TABLE_EVERY == 0)
            print_sums(sums);
    }
    exit(0);
}

int main(void) {
    const long few = level_now() == LEVEL_FAST ? EARLY_KINDS : 2 * EARLY_KINDS;
    const long seeds = variable("SEEDS", few), first = variable("FIRST", 1),
               workers = variable("WORKERS", WORKERS_USUAL);
    struct sums *sums = sums_now = share(sizeof(*sums));
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit); /* nothing to be raised */
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    setenv("COLLET_HEARTBEAT", "200", 1);
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    printf("seeds %ld to %ld\n", first, first + seeds - 1);
    fflush(NULL);
    for (long worker = 0; worker < workers; worker++)
        if (fork() == 0)
            work((uint64_t)(first + worker), (uint64_t)(first + seeds), (uint64_t)workers, sums);
    int crashed = 0, status;
    while (wait(&status) > 0)
        crashed += status != 0;
    if (sums->stopped)
        printf("stopped by a signal\n");
    return print_sums(sums) + crashed != 0;
}
