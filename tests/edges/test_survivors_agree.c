/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks are killed, stopped, or cut off. All others revoke and shrink: do they get the same communicator, or the same error?
 *
 *      main ── fork ──▶ a trial ── fork ──▶ its ranks, on 3 hosts:     0 1 2    or    0 2 4
 *                       (strikes, judges)                              3 4 5          1 3 5
 *
 * Before: rank 0 was stopped. Ranks of other hosts counted it as lost, by its silence, and went on. Ranks of its host watched its process
 * alone, so they waited for it until COLLET_INIT_TIMEOUT.
 *
 * PART=2/40 tries each rank, each fault, each moment, 2 to 4 ranks per host: each fortieth trial, from the second on, and prints a table
 * (make campaign-survivors). TRIALS=8: so many at the same time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/cables.h"
#include "common/level.h"
#include "common/ranks.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NRANKS_MAX 12
#define CALLS 5
#define SILENCE_MS 3000 /* COLLET_HEARTBEAT_TIMEOUT */
#define LIMIT_MS (60000 * LEVEL_SLOWER)
#define TRIALS_MAX 2000

/* GLITCH: a stop that is about as long as it takes to be counted as lost. */
enum fault { KILL, STOP, COMES_BACK, GLITCH, CUT, FAULT_COUNT };
static const char *const fault_names[] = {"SIGKILL", "SIGSTOP", "SIGSTOP, SIGCONT", "SIGSTOP for a moment", "network"};

struct trial {
    enum fault fault;
    int hosts, per_host;
    bool striped; /* neighbours in rank are on different hosts */
    unsigned victims;
    int after_us;  /* the first rank has begun to shrink; −1: while all make calls */
    int timeout_s; /* COLLET_INIT_TIMEOUT */
    int glitch_ms;
};

struct outcome {
    int calls, shrinks, done, ended; /* counts and flags of its progress */
    enum collet_result result;       /* of the shrink */
    int count, rank;                 /* of what it got */
    enum collet_result sum_result;   /* of a sum on it … */
    int64_t sum;                     /* … to which each rank adds a bit */
    uint64_t done_ns;
    char text[256];
};

enum decision { NOT_RUN, ALL_THERE, WITHOUT, SAME_ERROR, DISAGREE, BROKEN, SKIPPED };

struct job {
    struct trial trial;
    int nranks;
    struct collet_unique_id id;
    int id_ready, no_more_calls, go, sums;
    uint64_t struck_ns, longest_ns;
    pid_t pids[NRANKS_MAX];
    struct outcome outcomes[NRANKS_MAX];
    enum decision decision;
    char why[1500];
};

static bool has(unsigned set, int rank) { return set >> rank & 1; }
static int get(const int *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static void set(int *word, int value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static unsigned everybody(const struct job *job) { return (1u << job->nranks) - 1; }

/* ------------------------------------------------------------------------------------------------------------- a rank */

static void furnish(const struct job *job, int rank) {
    const struct trial *trial = &job->trial;
    char text[32];
    snprintf(text, sizeof text, "host%d", trial->striped ? rank % trial->hosts : rank / trial->per_host);
    setenv("COLLET_HOSTID", text, 1);
    snprintf(text, sizeof text, "%d", SILENCE_MS * LEVEL_SLOWER);
    setenv("COLLET_HEARTBEAT_TIMEOUT", text, 1);
    setenv("COLLET_HEARTBEAT", "200", 1);
    snprintf(text, sizeof text, "%d", trial->timeout_s * LEVEL_SLOWER);
    setenv("COLLET_INIT_TIMEOUT", text, 1);
    if (trial->hosts == 1) /* else nothing ends the calls that wait for a rank that is stopped */
        setenv("COLLET_TIMEOUT", "2", 1);
}

static void stop_here(const struct job *job, int rank, const char *call) {
    fprintf(stderr, "rank %d of %d: %s: %s\n", rank, job->nranks, call, collet_last_error(NULL));
    _exit(1);
}

static struct collet_comm *join(struct job *job, int rank) {
    struct collet_comm *comm;
    if (rank == 0 && collet_get_unique_id(&job->id) != COLLET_SUCCESS)
        stop_here(job, rank, "collet_get_unique_id()");
    if (rank == 0)
        set(&job->id_ready, 1);
    while (!get(&job->id_ready))
        ranks_sleep_ms(1);
    if (collet_comm_init_rank(&comm, job->nranks, job->id, rank) != COLLET_SUCCESS)
        stop_here(job, rank, "init");
    return comm;
}

static enum collet_result sum(struct collet_comm *comm, int rank, int64_t *bits) {
    *bits = (int64_t)1 << rank;
    return collet_allreduce(bits, bits, 1, COLLET_INT64, COLLET_SUM, comm, NULL);
}

static void call_until_trouble(struct job *job, int rank, struct collet_comm *comm) {
    int64_t bits;
    while (sum(comm, rank, &bits) == COLLET_SUCCESS) {
        set(&job->outcomes[rank].calls, job->outcomes[rank].calls + 1);
        if (get(&job->no_more_calls) || (job->trial.after_us >= 0 && job->outcomes[rank].calls == CALLS))
            break;
        ranks_sleep_ms(2);
    }
    collet_comm_revoke(comm);
}

static void live(struct job *job, int rank) {
    struct outcome *mine = &job->outcomes[rank];
    struct collet_comm *comm, *smaller = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (job->trial.fault == CUT && !cables_plug(rank))
        _exit(2);
    furnish(job, rank);
    comm = join(job, rank);
    call_until_trouble(job, rank, comm);
    set(&mine->shrinks, 1);
    mine->result = collet_comm_shrink(comm, NULL, 0, &smaller, NULL);
    mine->done_ns = ranks_now_ns();
    snprintf(mine->text, sizeof mine->text, "%s", mine->result == COLLET_SUCCESS ? "" : collet_last_error(NULL));
    if (mine->result == COLLET_SUCCESS) {
        collet_comm_count(smaller, &mine->count);
        collet_comm_rank(smaller, &mine->rank);
    }
    collet_comm_destroy(comm);
    set(&mine->done, 1);
    while (!get(&job->go))
        ranks_sleep_ms(1);
    if (job->sums && mine->result == COLLET_SUCCESS)
        mine->sum_result = sum(smaller, rank, &mine->sum);
    collet_comm_destroy(smaller);
    set(&mine->ended, 1);
    pause();
}

/* ------------------------------------------------------------------------------------------------------------ the judge */

/* What rank has is the communicator of these ranks, as far as it can tell. */
static bool has_that_of(const struct outcome *outcome, int rank, unsigned members) {
    const unsigned before = members & ((1u << rank) - 1);
    return outcome->result == COLLET_SUCCESS && has(members, rank) && outcome->count == __builtin_popcount(members) &&
           outcome->rank == __builtin_popcount(before);
}

static bool all_have_that_of(const struct job *job, unsigned ranks, unsigned members) {
    for (int rank = 0; rank < job->nranks; rank++)
        if (has(ranks, rank) && !has_that_of(&job->outcomes[rank], rank, members))
            return false;
    return true;
}

static bool all_have_one_error(const struct job *job, unsigned ranks) {
    const enum collet_result first = job->outcomes[__builtin_ctz(ranks)].result;
    for (int rank = 0; rank < job->nranks; rank++)
        if (has(ranks, rank) && job->outcomes[rank].result != first)
            return false;
    return first != COLLET_SUCCESS;
}

static enum decision judge(const struct job *job, unsigned ranks, unsigned part) {
    return all_have_that_of(job, ranks, everybody(job)) ? ALL_THERE
           : all_have_that_of(job, ranks, part)         ? WITHOUT
           : all_have_one_error(job, ranks)             ? SAME_ERROR
                                                        : DISAGREE;
}

static void blame(struct job *job, enum decision decision, const char *what) {
    static const char *const names[] = {"", "that of all", "a smaller one", "the same error", "not the same"};
    size_t used = (size_t)snprintf(
        job->why, sizeof job->why, "%s: %d hosts of %d ranks%s, victims 0x%x, after_us %d: %s",
        fault_names[job->trial.fault], job->trial.hosts, job->trial.per_host, job->trial.striped ? ", striped" : "",
        job->trial.victims, job->trial.after_us, what != NULL ? what : names[decision]);
    for (int rank = 0; rank < job->nranks; rank++) {
        const struct outcome *o = &job->outcomes[rank];
        if (used < sizeof job->why)
            used += (size_t)snprintf(job->why + used, sizeof job->why - used, "\n  rank %d: %s %d, rank %d of %d %.90s",
                                     rank, o->done ? "got" : "waits", (int)o->result, o->rank, o->count, o->text);
    }
    job->decision = what != NULL ? BROKEN : decision;
}

/* A victim that lives got an error, or what the others have. Who was cut off may have a communicator of itself alone. */
static bool victims_may(const struct job *job, enum decision others) {
    bool good = true;
    for (int rank = 0; rank < job->nranks && job->trial.fault != KILL && job->trial.fault != STOP; rank++) {
        const enum decision own = has(job->trial.victims, rank) ? judge(job, 1u << rank, 1u << rank) : SAME_ERROR;
        good &= own == SAME_ERROR || (own == ALL_THERE && others == ALL_THERE) || job->trial.fault == GLITCH ||
                (own == WITHOUT && job->trial.fault == CUT);
    }
    return good;
}

/* ------------------------------------------------------------------------------------------------------------- a trial */

enum progress { CALLED, SHRINKS, DONE, ENDED };

static bool has_come(const struct job *job, int rank, enum progress progress) {
    const struct outcome *o = &job->outcomes[rank];
    return progress == CALLED    ? get(&o->calls) >= CALLS
           : progress == SHRINKS ? get(&o->shrinks)
           : progress == DONE    ? get(&o->done)
                                 : get(&o->ended);
}

/* Have so many of these ranks come so far? */
static bool await(const struct job *job, unsigned ranks, int many, enum progress progress, int limit_ms) {
    const uint64_t begun_ns = ranks_now_ns();
    for (;;) {
        int n = 0;
        for (int rank = 0; rank < job->nranks; rank++)
            n += has(ranks, rank) && has_come(job, rank, progress);
        if (n >= many)
            return true;
        if (ranks_now_ns() - begun_ns > (uint64_t)limit_ms * 1000000u)
            return false;
        usleep(200);
    }
}

static bool await_all(const struct job *job, unsigned ranks, enum progress progress) {
    return await(job, ranks, __builtin_popcount(ranks), progress, LIMIT_MS);
}

static void send_signal(const struct job *job, int number) {
    for (int rank = 0; rank < job->nranks; rank++)
        if (has(job->trial.victims, rank))
            kill(job->pids[rank], number);
}

static void strike(struct job *job) {
    const struct trial *trial = &job->trial;
    if (trial->after_us > 0)
        usleep((useconds_t)trial->after_us);
    job->struck_ns = ranks_now_ns();
    if (trial->fault == CUT)
        cables_pull(trial->victims);
    else
        send_signal(job, trial->fault == KILL ? SIGKILL : SIGSTOP);
    if (trial->fault == GLITCH) {
        usleep((useconds_t)trial->glitch_ms * 1000);
        send_signal(job, SIGCONT);
    }
    if (trial->fault == GLITCH || trial->fault == CUT) { /* perhaps no call waits for the victim */
        await(job, everybody(job), 1, SHRINKS, 2 * SILENCE_MS);
        set(&job->no_more_calls, 1);
    }
}

/* The sums of those that have a communicator without the victims. */
static bool sums_are_right(const struct job *job, unsigned members) {
    for (int rank = 0; rank < job->nranks; rank++) {
        const struct outcome *o = &job->outcomes[rank];
        if (has(members, rank) && (o->sum_result != COLLET_SUCCESS || o->sum != (int64_t)members))
            return false;
    }
    return true;
}

static bool trial_ends_for_all(const struct job *job) { return job->trial.fault == GLITCH; }

/* Victims that were stopped too shortly to be lost. */
static unsigned goes_on(const struct job *job) {
    unsigned ranks = 0;
    for (int rank = 0; rank < job->nranks && job->trial.fault == GLITCH; rank++)
        if (has(job->trial.victims, rank) && job->outcomes[rank].result == COLLET_SUCCESS)
            ranks |= 1u << rank;
    return ranks;
}

static void look(struct job *job) {
    const unsigned victims = job->trial.victims, others = everybody(job) & ~victims;
    if (!await(job, everybody(job), job->trial.after_us < 0 ? job->nranks : 1,
               job->trial.after_us < 0 ? CALLED : SHRINKS, LIMIT_MS)) {
        blame(job, BROKEN, "the job has not begun");
        return;
    }
    strike(job);
    if (!await_all(job, others, DONE)) {
        blame(job, BROKEN, "not all others end");
        return;
    }
    for (int rank = 0; rank < job->nranks; rank++)
        if (has(others, rank) && job->outcomes[rank].done_ns > job->struck_ns + job->longest_ns)
            job->longest_ns = job->outcomes[rank].done_ns - job->struck_ns;
    if (trial_ends_for_all(job) && !await_all(job, everybody(job), DONE)) {
        blame(job, BROKEN, "not all end");
        return;
    }
    const unsigned part = others | goes_on(job);
    job->decision = judge(job, part, part);
    job->sums = job->decision == WITHOUT;
    set(&job->go, 1);
    if (!await_all(job, others, ENDED))
        blame(job, BROKEN, "not all others end after the shrink");
    else if (job->sums && !sums_are_right(job, part))
        blame(job, BROKEN, "sums on what they got fail");
    if (job->trial.fault == COMES_BACK)
        send_signal(job, SIGCONT);
    if (job->trial.fault != KILL && job->trial.fault != STOP && !await_all(job, victims, DONE))
        blame(job, BROKEN, "a victim that lives does not end");
    else if (job->decision == DISAGREE || (job->decision != BROKEN && !victims_may(job, job->decision)))
        blame(job, DISAGREE, NULL);
}

static void conduct(struct job *job) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (job->trial.fault == CUT && !cables_open()) {
        job->decision = SKIPPED;
        _exit(0);
    }
    for (int rank = 0; rank < job->nranks; rank++) {
        const pid_t pid = fork();
        if (pid == 0)
            live(job, rank);
        job->pids[rank] = pid;
    }
    look(job);
    for (int rank = 0; rank < job->nranks; rank++)
        kill(job->pids[rank], SIGKILL);
    while (wait(NULL) > 0)
        ;
    _exit(0);
}

/* --------------------------------------------------------------------------------------------------------- many trials */

static struct job *run(const struct trial *trials, int n, int at_once) {
    struct job *jobs = ranks_share((size_t)n * sizeof *jobs);
    int begun = 0, running = 0;
    fflush(NULL);
    for (int ended = 0; ended < n; ended++) {
        while (begun < n && running < at_once) {
            struct job *job = &jobs[begun];
            job->trial = trials[begun++];
            job->nranks = job->trial.hosts * job->trial.per_host;
            running++;
            if (fork() == 0)
                conduct(job);
        }
        wait(NULL);
        running--;
    }
    return jobs;
}

/* Those of `make test`. All run at the same time, before the cases look at them. Rank 0 is the root of the tree and the judge. */
static const struct trial stops[] = {
    {STOP, 3, 2, true, 1 << 0, -1, 20, 0},          {STOP, 3, 2, false, 1 << 0, -1, 20, 0},
    {STOP, 2, 3, true, 1 << 0, -1, 20, 0},          {STOP, 3, 2, true, 1 << 4, -1, 20, 0},
    {STOP, 3, 2, true, 1 << 0 | 1 << 1, -1, 20, 0}, {KILL, 3, 2, true, 1 << 0, -1, 20, 0},
};
static const struct trial returns[] = {
    {COMES_BACK, 3, 2, false, 1 << 0, -1, 20, 0},
    {COMES_BACK, 3, 2, true, 1 << 1, -1, 20, 0},
};
static const struct trial cuts[] = {
    {CUT, 3, 2, true, 1 << 0, -1, 20, 0},
    {CUT, 3, 2, false, 1 << 0 | 1 << 1, -1, 20, 0},
};
static const struct trial debugged[] = {
    {COMES_BACK, 1, 4, false, 1 << 0, -1, 5, 0},
    {COMES_BACK, 1, 4, false, 1 << 2, -1, 5, 0},
};
#define COUNT(trials) (int)(sizeof(trials) / sizeof *(trials))
#define FAST (COUNT(stops) + COUNT(returns) + COUNT(cuts) + COUNT(debugged))
static struct job *fast_jobs;

static int run_fast_trials(void **state) {
    struct trial all[FAST], *at = all;
    (void)state;
    at = (struct trial *)memcpy(at, stops, sizeof stops) + COUNT(stops);
    at = (struct trial *)memcpy(at, returns, sizeof returns) + COUNT(returns);
    at = (struct trial *)memcpy(at, cuts, sizeof cuts) + COUNT(cuts);
    memcpy(at, debugged, sizeof debugged);
    fast_jobs = run(all, FAST, FAST);
    return 0;
}

static void check(int first, int n, enum decision expected) {
    bool good = true, skipped = false;
    for (struct job *job = &fast_jobs[first]; job < &fast_jobs[first + n]; job++) {
        skipped |= job->decision == SKIPPED;
        if (job->decision == expected || job->decision == SKIPPED)
            continue;
        good = false;
        if (job->why[0] == '\0')
            blame(job, job->decision, NULL);
        print_error("%s\n", job->why);
    }
    if (!good)
        fail();
    if (skipped)
        skip(); /* no networks of their own here */
}

static void whoever_is_stopped_or_killed_is_lost_to_all_others(void **state) {
    (void)state;
    check(0, COUNT(stops), WITHOUT);
}

static void who_goes_on_after_the_others_went_on_without_it_has_an_error(void **state) {
    (void)state;
    check(COUNT(stops), COUNT(returns), WITHOUT);
}

static void whoever_is_cut_off_is_lost_to_all_others(void **state) {
    (void)state;
    check(COUNT(stops) + COUNT(returns), COUNT(cuts), WITHOUT);
}

/* A debugger stops processes, too. So no rank of one host is lost by silence, and a shrink names the one that does not come. */
static void on_one_host_a_stopped_rank_is_alive_to_all_others(void **state) {
    (void)state;
    check(FAST - COUNT(debugged), COUNT(debugged), SAME_ERROR);
}

/* ----------------------------------------------------------------------------------------------------------- the campaign */

static int add_trials(struct trial *trials, int n, struct trial trial) {
    static const int moments_us[] = {-1, 0, 2000, 10000, 30000};
    const int nranks = trial.hosts * trial.per_host;
    trial.timeout_s = 20;
    for (int rank = 0; rank < nranks; rank++)
        for (size_t k = 0; k < sizeof moments_us / sizeof *moments_us; k++) {
            const unsigned mate = 1u << (trial.striped ? (rank + trial.hosts) % nranks : rank ^ 1);
            trial.after_us = moments_us[k];
            trial.glitch_ms = SILENCE_MS + 60 * (n % 12) - 240;
            trial.victims = 1u << rank | (n % 4 == 3 ? 1u << (rank + 1) % nranks : n % 7 == 5 ? mate : 0);
            if (n < TRIALS_MAX && (trial.fault != GLITCH || trial.after_us < 0))
                trials[n++] = trial;
        }
    return n;
}

static int choose(struct trial *trials, int n, int part, int parts) {
    int chosen = 0;
    for (int k = part - 1; k < n; k += parts)
        trials[chosen++] = trials[k];
    return chosen;
}

static bool print_table(const struct job *jobs, int n) {
    bool good = true;
    printf("%-20s %7s | %9s %9s %9s | %8s %6s | %7s %s\n", "fault", "trials", "smaller", "of all", "an error",
           "DISAGREE", "BROKEN", "skipped", "longest");
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        int counts[SKIPPED + 1] = {0}, trials = 0;
        uint64_t longest_ns = 0;
        for (int k = 0; k < n; k++) {
            if ((int)jobs[k].trial.fault != fault)
                continue;
            trials++;
            counts[jobs[k].decision]++;
            longest_ns = jobs[k].longest_ns > longest_ns ? jobs[k].longest_ns : longest_ns;
            if (jobs[k].why[0] != '\0')
                fprintf(stderr, "%s\n", jobs[k].why);
        }
        printf("%-20s %7d | %9d %9d %9d | %8d %6d | %7d %.1f s\n", fault_names[fault], trials, counts[WITHOUT],
               counts[ALL_THERE], counts[SAME_ERROR], counts[DISAGREE], counts[BROKEN] + counts[NOT_RUN],
               counts[SKIPPED], (double)longest_ns / 1e9);
        good &= counts[DISAGREE] + counts[BROKEN] + counts[NOT_RUN] == 0;
    }
    return good;
}

static int campaign(int part, int parts) {
    struct trial *trials = calloc(TRIALS_MAX, sizeof *trials);
    const char *at_once = getenv("TRIALS");
    int n = 0;
    for (int per_host = 2; per_host <= 4; per_host++)
        for (int striped = 0; striped < 2; striped++)
            for (int fault = 0; fault < FAULT_COUNT; fault++)
                n = add_trials(
                    trials, n,
                    (struct trial){.fault = (enum fault)fault, .hosts = 3, .per_host = per_host, .striped = striped});
    n = choose(trials, n, part, parts);
    struct job *jobs = run(trials, n, at_once != NULL ? atoi(at_once) : 6);
    const bool good = print_table(jobs, n);
    ranks_unshare(jobs, (size_t)n * sizeof *jobs);
    free(trials);
    return good ? 0 : 1;
}

int main(void) {
    const char *text = getenv("PART");
    int part, parts;
    if (text != NULL && sscanf(text, "%d/%d", &part, &parts) == 2 && part > 0 && parts > 0)
        return campaign(part, parts);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_is_stopped_or_killed_is_lost_to_all_others),
        cmocka_unit_test(who_goes_on_after_the_others_went_on_without_it_has_an_error),
        cmocka_unit_test(whoever_is_cut_off_is_lost_to_all_others),
        cmocka_unit_test(on_one_host_a_stopped_rank_is_alive_to_all_others),
    };
    return cmocka_run_group_tests_name("survivors_agree", tests, run_fast_trials, NULL);
}
