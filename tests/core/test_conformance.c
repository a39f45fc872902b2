/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformance: does every collective give the right result, the same bits on every rank, and touch nothing else?
 *
 *      a case   algorithm × protocol × setting × layout × ranks × type × op × count × place       (matrix.h; cover.h chooses)
 *      a set    the cases of one layout and number of ranks: run by one set of processes
 *      a team   the communicators of one algorithm, protocol and setting: used for case after case
 *
 * A wrong value is noted and the set goes on; a call that fails, crashes or hangs ends the set's processes, which are
 * started anew behind that case.
 *
 *      test_conformance            what the level asks for (level.h)
 *      test_conformance WORD…      all cases of the product that have all these words in their names, e.g.
 *                                  test_conformance allreduce/ring LL n=5 shm
 *
 * The full product has nearly two million cases. `make test-full` runs it in shards, COLLET_TEST_SECONDS long (one hour),
 * from COLLET_TEST_FIRST_SHARD (0) on, and says how far it came.
 */
#include "common/level.h"
#include "common/matrix.h"
#include "common/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------- in the ranks */

#define REPETITIONS 3 /* two inputs, and the first again */
#define LONG_COUNT 10000

/* What the processes of a set and their parent share. */
struct board {
    size_t now;                           /* the case under way */
    int failed_now;                       /* whether it has failed */
    uint64_t digest[2][MATRIX_RANKS_MAX]; /* of odd and even repetitions */
};

struct set {
    const struct cover_case *cases;
    size_t from, to;
    struct board *board;
    size_t *nfailed; /* shared too */
};

/* The ranks that one thread drives, and their communicators. */
struct team {
    struct ranks *ranks;
    struct set *set;
    int driver, first, count;
    struct collet_comm *comms[MATRIX_RANKS_MAX];
};

static struct collet_comm *process_comms[MATRIX_RANKS_MAX];

static void team_meet_in_process(struct team *team, int nranks) {
    if (team->driver == 0)
        ranks_try(team->ranks, 0, collet_comm_init_all(process_comms, nranks, NULL));
    ranks_barrier(team->ranks);
    for (int k = 0; k < team->count; k++)
        team->comms[k] = process_comms[team->first + k];
}

static void team_meet_by_id(struct team *team, int nranks) {
    ranks_new_id(team->ranks, team->driver);
    if (team->count > 1)
        ranks_try(team->ranks, team->first, collet_group_start());
    for (int k = 0; k < team->count; k++)
        ranks_try(team->ranks, team->first + k,
                  collet_comm_init_rank(&team->comms[k], nranks, team->ranks->id, team->first + k));
    if (team->count > 1)
        ranks_try(team->ranks, team->first, collet_group_end());
}

static void team_create(struct team *team, const struct cover_case *c) {
    bool in_process = c->value[LAYOUT] == GROUP || c->value[LAYOUT] == THREADS;
    ranks_barrier(team->ranks);
    if (!in_process || team->driver == 0)
        matrix_set_environment(c);
    if (in_process)
        team_meet_in_process(team, matrix_nranks(c));
    else
        team_meet_by_id(team, matrix_nranks(c));
    for (int k = 0; k < team->count; k++)
        ranks_show_on_hang(team->comms[k]);
}

static void team_destroy(struct team *team) {
    for (int k = 0; k < team->count; k++)
        ranks_try(team->ranks, team->first + k, collet_comm_destroy(team->comms[k]));
}

static void note(struct team *team, const char *why) {
    struct board *board = team->set->board;
    if (__atomic_exchange_n(&board->failed_now, 1, __ATOMIC_ACQ_REL))
        return;
    char name[MATRIX_NAME_BYTES];
    matrix_name(&team->set->cases[board->now], name);
    printf("FAIL  %s\n      %s\n", name, why);
    fflush(stdout);
    __atomic_add_fetch(team->set->nfailed, 1, __ATOMIC_RELAXED);
}

static void run_calls(struct team *team, struct trial *trials) {
    if (team->count > 1)
        ranks_try(team->ranks, team->first, collet_group_start());
    for (int k = 0; k < team->count; k++)
        ranks_try(team->ranks, team->first + k, trial_run(&trials[k], team->comms[k]));
    if (team->count > 1)
        ranks_try(team->ranks, team->first, collet_group_end());
}

static void compare_digests(struct team *team, const uint64_t *digest) {
    char why[TRIAL_WHY_BYTES];
    for (int k = 0; k < team->count; k++)
        if (digest[team->first + k] != digest[0]) {
            snprintf(why, sizeof(why), "ranks 0 and %d have different bits", team->first + k);
            note(team, why);
        }
}

/* Where all results are the same bits, one rank's comparison of a long one with the reference is enough. */
static bool check(const struct trial *trial, char *why) {
    const struct trial_call *c = &trial->call;
    bool spared = c->count > LONG_COUNT && trial_same_everywhere(c->collective) &&
                  (uint64_t)trial->rank != c->seed % (uint64_t)c->nranks;
    return (spared || trial_is_right(trial, why)) && trial_is_clean(trial, why);
}

static void run_case(struct team *team, const struct cover_case *c) {
    struct trial trials[MATRIX_RANKS_MAX];
    struct trial_call call = matrix_call(c);
    uint64_t first_digest[MATRIX_RANKS_MAX] = {0};
    char why[TRIAL_WHY_BYTES];
    int repetitions = call.count > LONG_COUNT ? REPETITIONS - 1 : REPETITIONS;
    for (int repetition = 0; repetition < repetitions; repetition++) {
        uint64_t *digest = team->set->board->digest[repetition % 2];
        call.seed = matrix_seed(c) + (repetition == 1);
        for (int k = 0; k < team->count; k++)
            trial_prepare(&trials[k], &call, team->first + k);
        run_calls(team, trials);
        for (int k = 0; k < team->count; k++) {
            if (!check(&trials[k], why))
                note(team, why);
            digest[team->first + k] = trial_digest(&trials[k]);
            if (repetition == 0)
                first_digest[k] = digest[team->first + k];
            if (repetition == 2 && digest[team->first + k] != first_digest[k])
                note(team, "the same call gave different bits the second time");
            trial_destroy(&trials[k]);
        }
        ranks_barrier(team->ranks);
        if (trial_same_everywhere(call.collective))
            compare_digests(team, digest);
    }
}

static void begin_case(struct team *team, size_t number) {
    char name[MATRIX_NAME_BYTES];
    ranks_barrier(team->ranks); /* the last case is over everywhere */
    if (team->driver == 0) {
        team->set->board->now = number;
        team->set->board->failed_now = 0;
        matrix_name(&team->set->cases[number], name);
        ranks_doing(team->ranks, "%s", name);
    }
    ranks_barrier(team->ranks);
}

static void drive(struct ranks *ranks, int driver) {
    struct set *set = ranks->argument;
    int nranks = matrix_nranks(&set->cases[set->from]);
    int first = driver * nranks / ranks->nranks;
    struct team team = {ranks, set, driver, first, (driver + 1) * nranks / ranks->nranks - first, {NULL}};
    for (size_t k = set->from; k < set->to; k++) {
        bool fresh = k == set->from || matrix_by_team(&set->cases[k - 1], &set->cases[k]) != 0;
        begin_case(&team, k);
        if (fresh && k > set->from)
            team_destroy(&team);
        if (fresh)
            team_create(&team, &set->cases[k]);
        run_case(&team, &set->cases[k]);
    }
    team_destroy(&team);
}

/* ------------------------------------------------------------------------------------------------------ in the parent */

#define BREAKS_MAX 10 /* after so many broken cases a set is given up */

static struct ranks_job job_of(const struct cover_case *c, void *set) {
    int nranks = matrix_nranks(c);
    struct ranks_job job = {.run = drive, .argument = set, .processes = nranks, .threads = 1};
    if (c->value[LAYOUT] == GROUP)
        job.processes = 1;
    if (c->value[LAYOUT] == HYBRID)
        job.processes = nranks < 2 ? nranks : 2;
    if (c->value[LAYOUT] == THREADS) {
        job.processes = 1;
        job.threads = nranks;
    }
    return job;
}

static void run_set(struct set *set) {
    char why[RANKS_TEXT_BYTES], name[MATRIX_NAME_BYTES];
    for (int breaks = 0; set->from < set->to; breaks++) {
        if (breaks == BREAKS_MAX) {
            printf("FAIL  %zu more cases: given up\n", set->to - set->from);
            *set->nfailed += set->to - set->from;
            return;
        }
        struct ranks_job job = job_of(&set->cases[set->from], set);
        set->board->now = set->from;
        set->board->failed_now = 0;
        if (ranks_run(&job, why))
            return;
        matrix_name(&set->cases[set->board->now], name);
        printf("FAIL  %s\n      %s\n", name, why);
        *set->nfailed += !set->board->failed_now;
        set->from = set->board->now + 1;
    }
}

static size_t run_sets(const struct cover_case *cases, size_t ncases) {
    struct board *board = ranks_share(sizeof(*board));
    size_t *nfailed = ranks_share(sizeof(*nfailed));
    for (size_t from = 0, to; from < ncases; from = to) {
        for (to = from; to < ncases && cases[to].value[LAYOUT] == cases[from].value[LAYOUT] &&
                        cases[to].value[NRANKS] == cases[from].value[NRANKS];
             to++) {
        }
        uint64_t start_ns = ranks_now_ns();
        struct set set = {cases, from, to, board, nfailed};
        run_set(&set);
        printf("%-8s n=%d  %5zu cases  %.1f s\n", matrix_layout_name(&cases[from]), matrix_nranks(&cases[from]),
               to - from, (double)(ranks_now_ns() - start_ns) / 1e9);
        fflush(stdout);
    }
    size_t result = *nfailed;
    ranks_unshare(board, sizeof(*board));
    ranks_unshare(nfailed, sizeof(*nfailed));
    return result;
}

/* ---- which cases ---- */

#define SHARDS 2048u

/* words ends with NULL, or is NULL. */
static bool has_words(const struct cover_case *c, char **words) {
    char name[MATRIX_NAME_BYTES], padded[MATRIX_NAME_BYTES + 2], word[MATRIX_NAME_BYTES];
    if (words == NULL)
        return true;
    matrix_name(c, name);
    snprintf(padded, sizeof(padded), " %s ", name);
    for (; *words != NULL; words++) {
        snprintf(word, sizeof(word), " %s ", *words);
        if (strstr(padded, word) == NULL)
            return false;
    }
    return true;
}

/* Of the product, the possible cases of one shard that have all the words. */
static size_t choose_from_product(const struct cover *cover, unsigned shard, unsigned shards, char **words,
                                  struct cover_case **cases_p) {
    size_t ncases = 0, room = 0;
    struct cover_case one, *cases = NULL;
    for (size_t k = 0; k < cover_product(cover); k++) {
        if (numbers_hash(1, 1, k) % shards != shard || !cover_nth(cover, k, &one) || !has_words(&one, words))
            continue;
        if (ncases == room) {
            room = 2 * room + 1000;
            cases = realloc(cases, room * sizeof(*cases));
            if (cases == NULL)
                abort();
        }
        cases[ncases++] = one;
    }
    *cases_p = cases;
    return ncases;
}

struct count {
    size_t run, failed;
};

/* Runs and frees cases. */
static void run(struct cover_case *cases, size_t ncases, struct count *count) {
    qsort(cases, ncases, sizeof(*cases), matrix_by_set_and_team);
    count->failed += run_sets(cases, ncases);
    count->run += ncases;
    free(cases);
}

static unsigned read_number(const char *variable, unsigned otherwise) {
    const char *text = getenv(variable);
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : otherwise;
}

/* Shards of the product until all are done or the time is up. */
static void run_product(const struct cover *cover, struct count *count) {
    unsigned shard = read_number("COLLET_TEST_FIRST_SHARD", 0), limit_s = read_number("COLLET_TEST_SECONDS", 3600);
    uint64_t end_ns = ranks_now_ns() + limit_s * 1000000000ull;
    for (; shard < SHARDS && ranks_now_ns() < end_ns; shard++) {
        struct cover_case *cases;
        size_t ncases = choose_from_product(cover, shard, SHARDS, NULL, &cases);
        run(cases, ncases, count);
        printf("shard %u of %u is done\n", shard, SHARDS);
    }
    if (shard < SHARDS)
        printf("the time (COLLET_TEST_SECONDS) is up: go on with COLLET_TEST_FIRST_SHARD=%u\n", shard);
}

int main(int argc, char **argv) {
    struct cover cover = matrix_create();
    struct cover_case *cases;
    struct count count = {0, 0};
    if (argc > 1) {
        size_t ncases = choose_from_product(&cover, 0, 1, argv + 1, &cases);
        if (ncases == 0) {
            fprintf(stderr, "no case has all these words in its name\n");
            return 2;
        }
        run(cases, ncases, &count);
    } else {
        size_t ncases = cover_choose(&cover, level_now() == LEVEL_FAST ? 2 : 3, &cases);
        run(cases, ncases, &count);
        if (level_now() == LEVEL_FULL)
            run_product(&cover, &count);
    }
    printf("%zu passed, %zu failed\n", count.run - count.failed, count.failed);
    return count.failed > 0;
}
