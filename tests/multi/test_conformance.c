/* SPDX-License-Identifier: Apache-2.0
 *
 * Conformance: does every collective give the right result, the same bits on every rank, and touch nothing else?
 *
 *      a case   algorithm × protocol × setting × layout × ranks × type × op × count × place       (cover.h chooses some)
 *      a set    the cases of one layout and number of ranks: run by one set of processes
 *      a team   the communicators of one algorithm, protocol and setting: used for case after case
 *
 * A wrong value is noted and the set goes on; a call that fails, crashes or hangs ends the set's processes, which are
 * started anew behind that case.
 *
 *      test_conformance            what the level asks for (level.h)
 *      test_conformance WORD…      all cases of the product that have all these words in their names, e.g.
 *                                  test_conformance allreduce/ring LL n=5 shm
 *      COLLET_TEST_SHARD=2/8       the third eighth of the product
 */
#include "common/cover.h"
#include "common/level.h"
#include "common/ranks.h"
#include "common/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- parameters */

enum parameter { ALGORITHM, PROTOCOL, SETTING, LAYOUT, NRANKS, TYPE, OP, COUNT, PLACE, NPARAMETERS };

static const struct algorithm *candidates[64]; /* of the library's registry, those of collectives */
static int ncandidates;

static const char *const protocols[] = {"Simple", "LL"};

#define VARIABLES_MAX 3
static const struct setting {
    const char *name;
    const char *variables[VARIABLES_MAX][2];
} settings[] = {
    {"as-is", {{NULL}}},
    {"small", {{"COLLET_BUFFSIZE", "4096"}, {"COLLET_CHUNKSIZE", "1000"}}}, /* many rounds; chunks of odd sizes */
    {"lanes", {{"COLLET_NCHANNELS", "3"}, {"COLLET_BUFFSIZE", "65536"}}},
    {"wrap32", {{"COLLET_FIRST_STEP", "4294967293"}, {"COLLET_LL_FLAG_BITS", "5"}, {"COLLET_BUFFSIZE", "16384"}}},
    {"wrap64", {{"COLLET_FIRST_STEP", "-3"}, {"COLLET_CHUNKSIZE", "100"}}},
};

/* Where the ranks live. */
enum layout {
    GROUP,   /* one thread drives all */
    THREADS, /* of one process */
    HYBRID,  /* two processes, whose threads drive half of them each */
    SHM,     /* a process each */
    TCP,
};
static const char *const layouts[] = {"group", "threads", "hybrid", "shm", "tcp"};

static const int ranks_of[] = {1, 2, 3, 4, 5, 8};
static const long counts[] = {0, 1, -1 /* ranks − 1 */, 17, 1000, 4099, 70001};

#define LENGTH(array) (int)(sizeof(array) / sizeof(*(array)))

/* Only algorithm and op, and algorithm and place, exclude each other. */
static bool possible(const struct cover_case *c) {
    if (c->value[ALGORITHM] == COVER_OPEN)
        return true;
    enum prog_collective collective = candidates[c->value[ALGORITHM]]->collective;
    return (c->value[OP] <= COLLET_SUM || trial_reduces(collective)) &&
           (c->value[PLACE] <= 0 || trial_may_be_in_place(collective));
}

static struct cover parameters(void) {
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        if (a->collective != PROG_SEND && a->collective != PROG_RECV)
            candidates[ncandidates++] = a;
    return (struct cover){
        NPARAMETERS,
        {ncandidates, LENGTH(protocols), LENGTH(settings), LENGTH(layouts), LENGTH(ranks_of), COLLET_TYPE_COUNT,
         COLLET_OP_COUNT, LENGTH(counts), 2},
        possible};
}

static uint64_t seed_of(const struct cover_case *c) {
    uint64_t seed = 1;
    for (int p = 0; p < NPARAMETERS; p++)
        seed = numbers_hash(seed, (uint64_t)p, (uint64_t)c->value[p]);
    return seed;
}

static struct trial_call call_of(const struct cover_case *c) {
    int nranks = ranks_of[c->value[NRANKS]];
    long count = counts[c->value[COUNT]];
    return (struct trial_call){
        .collective = candidates[c->value[ALGORITHM]]->collective,
        .type = (enum collet_type)c->value[TYPE],
        .op = (enum collet_op)c->value[OP],
        .count = (size_t)(count < 0 ? nranks - 1 : count),
        .root = (int)(seed_of(c) % (uint64_t)nranks),
        .nranks = nranks,
        .in_place = c->value[PLACE] == 1,
        .seed = seed_of(c),
    };
}

static void name_of(const struct cover_case *c, char *name, size_t room) {
    char call[TRIAL_NAME_BYTES];
    struct trial_call what = call_of(c);
    trial_name(&what, call);
    const struct algorithm *algorithm = candidates[c->value[ALGORITHM]];
    snprintf(name, room, "%s/%s %s %s %s%s", prog_collective_name(algorithm->collective), algorithm->name,
             protocols[c->value[PROTOCOL]], settings[c->value[SETTING]].name, layouts[c->value[LAYOUT]],
             strchr(call, ' '));
}

/* What a communicator depends on: COLLET_ALGO names algorithms of several collectives alike. */
static int by_team(const struct cover_case *a, const struct cover_case *b) {
    int order = a->value[SETTING] - b->value[SETTING];
    if (order == 0)
        order = strcmp(candidates[a->value[ALGORITHM]]->name, candidates[b->value[ALGORITHM]]->name);
    return order != 0 ? order : a->value[PROTOCOL] - b->value[PROTOCOL];
}

/* Cases of one team in an order that mixes collectives, types and counts. */
static int by_set_and_team(const void *first, const void *second) {
    const struct cover_case *a = first, *b = second;
    int order = a->value[LAYOUT] - b->value[LAYOUT];
    if (order == 0)
        order = a->value[NRANKS] - b->value[NRANKS];
    if (order == 0)
        order = by_team(a, b);
    uint64_t x = seed_of(a), y = seed_of(b);
    return order != 0 ? order : (x > y) - (x < y);
}

/* -------------------------------------------------------------------------------------------------------- in the ranks */

#define MOST_RANKS 8
#define REPETITIONS 3 /* two inputs, and the first again */
#define LONG_COUNT 10000

/* What the processes of a set and their parent share. */
struct board {
    size_t now;     /* the case under way */
    int failed_now; /* whether it has failed */
    uint64_t digest[2][MOST_RANKS];
    char why[TRIAL_WHY_BYTES];
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
    struct collet_comm *comms[MOST_RANKS];
};

static struct collet_comm *process_comms[MOST_RANKS];

static void team_set_environment(const struct cover_case *c) {
    const struct setting *setting = &settings[c->value[SETTING]];
    unsetenv("COLLET_BUFFSIZE");
    unsetenv("COLLET_CHUNKSIZE");
    unsetenv("COLLET_NCHANNELS");
    unsetenv("COLLET_FIRST_STEP");
    unsetenv("COLLET_LL_FLAG_BITS");
    for (int k = 0; k < VARIABLES_MAX && setting->variables[k][0] != NULL; k++)
        setenv(setting->variables[k][0], setting->variables[k][1], 1);
    setenv("COLLET_ALGO", candidates[c->value[ALGORITHM]]->name, 1);
    setenv("COLLET_PROTO", protocols[c->value[PROTOCOL]], 1);
    bool one_transport = c->value[LAYOUT] == SHM || c->value[LAYOUT] == TCP;
    setenv("COLLET_TRANSPORT", one_transport ? layouts[c->value[LAYOUT]] : "", 1);
}

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
        team_set_environment(c);
    if (in_process)
        team_meet_in_process(team, ranks_of[c->value[NRANKS]]);
    else
        team_meet_by_id(team, ranks_of[c->value[NRANKS]]);
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
    char name[256];
    name_of(&team->set->cases[board->now], name, sizeof(name));
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
    struct trial trials[MOST_RANKS];
    struct trial_call call = call_of(c);
    uint64_t first_digest[MOST_RANKS] = {0};
    char why[TRIAL_WHY_BYTES];
    int repetitions = call.count > LONG_COUNT ? REPETITIONS - 1 : REPETITIONS;
    for (int repetition = 0; repetition < repetitions; repetition++) {
        uint64_t *digest = team->set->board->digest[repetition % 2];
        call.seed = seed_of(c) + (repetition == 1);
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
    char name[256];
    ranks_barrier(team->ranks); /* the last case is over everywhere */
    if (team->driver == 0) {
        team->set->board->now = number;
        team->set->board->failed_now = 0;
        name_of(&team->set->cases[number], name, sizeof(name));
        ranks_doing(team->ranks, "%s", name);
    }
    ranks_barrier(team->ranks);
}

static void drive(struct ranks *ranks, int driver) {
    struct set *set = ranks->argument;
    int nranks = ranks_of[set->cases[set->from].value[NRANKS]];
    int first = driver * nranks / ranks->nranks;
    struct team team = {ranks, set, driver, first, (driver + 1) * nranks / ranks->nranks - first, {NULL}};
    for (size_t k = set->from; k < set->to; k++) {
        bool fresh = k == set->from || by_team(&set->cases[k - 1], &set->cases[k]) != 0;
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
    int nranks = ranks_of[c->value[NRANKS]];
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
    char why[RANKS_TEXT_BYTES], name[256];
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
        name_of(&set->cases[set->board->now], name, sizeof(name));
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
        printf("%-8s n=%d  %5zu cases  %.1f s\n", layouts[cases[from].value[LAYOUT]],
               ranks_of[cases[from].value[NRANKS]], to - from, (double)(ranks_now_ns() - start_ns) / 1e9);
        fflush(stdout);
    }
    return *nfailed;
}

/* ---- which cases ---- */

static bool has_words(const struct cover_case *c, char **words) {
    char name[256], padded[260], word[260];
    name_of(c, name, sizeof(name));
    snprintf(padded, sizeof(padded), " %s ", name);
    for (; *words != NULL; words++) {
        snprintf(word, sizeof(word), " %s ", *words);
        if (strstr(padded, word) == NULL)
            return false;
    }
    return true;
}

/* Of the product, the cases of this shard that `wanted` wants; appended to cases. */
static size_t choose_from_product(const struct cover *cover, bool (*wanted)(const struct cover_case *, char **),
                                  char **words, struct cover_case **cases, size_t ncases) {
    unsigned long shard = 0, shards = 1;
    const char *text = getenv("COLLET_TEST_SHARD");
    if (text != NULL && (sscanf(text, "%lu/%lu", &shard, &shards) != 2 || shard >= shards)) {
        fprintf(stderr, "COLLET_TEST_SHARD=%s: expected 0/8 … 7/8\n", text);
        exit(2);
    }
    *cases = realloc(*cases, (ncases + cover_product(cover)) * sizeof(**cases));
    if (*cases == NULL)
        abort();
    for (size_t k = shard; k < cover_product(cover); k += shards)
        if (cover_nth(cover, k, &(*cases)[ncases]) && wanted(&(*cases)[ncases], words))
            ncases++;
    return ncases;
}

static bool is_as_is(const struct cover_case *c, char **words) {
    (void)words;
    return c->value[SETTING] == 0;
}

static size_t choose(const struct cover *cover, char **words, struct cover_case **cases) {
    *cases = NULL;
    if (*words != NULL)
        return choose_from_product(cover, has_words, words, cases, 0);
    size_t ncases = cover_choose(cover, level_now() == LEVEL_FAST ? 2 : 3, cases);
    return level_now() == LEVEL_FULL ? choose_from_product(cover, is_as_is, NULL, cases, ncases) : ncases;
}

int main(int argc, char **argv) {
    (void)argc;
    struct cover cover = parameters();
    struct cover_case *cases;
    size_t ncases = choose(&cover, argv + 1, &cases);
    qsort(cases, ncases, sizeof(*cases), by_set_and_team);
    size_t nfailed = run_sets(cases, ncases);
    free(cases);
    printf("%zu passed, %zu failed\n", ncases - nfailed, nfailed);
    return nfailed > 0;
}
