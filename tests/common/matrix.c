/* SPDX-License-Identifier: Apache-2.0 */
#include "common/matrix.h"

#include "common/whole.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX 64
static const struct algorithm *candidates[CANDIDATES_MAX]; /* of the library's registry, those of collectives */
static int ncandidates;

static const char *const protocols[] = {"Simple", "LL", "LL128"};

#define VARIABLES_MAX 5
static const struct setting {
    const char *name;
    const char *variables[VARIABLES_MAX][2];
} settings[] = {
    {"as-is", {{NULL}}},
    {"small", {{"COLLET_BUFFSIZE", "4096"}, {"COLLET_CHUNKSIZE", "1000"}}}, /* many rounds; chunks of odd sizes */
    {"lanes", {{"COLLET_NCHANNELS", "3"}, {"COLLET_BUFFSIZE", "65536"}}},
    {"wrap32", {{"COLLET_FIRST_STEP", "4294967293"}, {"COLLET_LL_FLAG_BITS", "5"}, {"COLLET_BUFFSIZE", "16384"}}},
    {"lent", {{"COLLET_DIRECT", "process,cma,wire"}, {"COLLET_KERNEL_COPIES", "faster"}, {"COLLET_DIRECT_BYTES", "1"}}},
    {"lent-small",
     {{"COLLET_DIRECT", "process,cma,wire"},
      {"COLLET_KERNEL_COPIES", "faster"},
      {"COLLET_DIRECT_BYTES", "1"},
      {"COLLET_BUFFSIZE", "4096"},
      {"COLLET_CHUNKSIZE", "1000"}}},
    {"wrap64", {{"COLLET_FIRST_STEP", "-3"}, {"COLLET_CHUNKSIZE", "500"}}},
};

static const char *const layouts[] = {"group", "threads", "hybrid", "shm", "tcp"};

static const int ranks_of[] = {1, 2, 3, 4, 5, 8};
static const long counts[] = {0, 1, -1 /* ranks − 1 */, 17, 1000, 4099, 70001};

#define LENGTH(array) (int)(sizeof(array) / sizeof(*(array)))

/* Only algorithm and op, algorithm and place, and type and op exclude each other. Created operators are a layer's. */
static bool possible(const struct cover_case *c) {
    if (!library_is_whole && c->value[OP] == COLLET_PREMULSUM)
        return false;
    if (c->value[TYPE] != COVER_OPEN && c->value[OP] != COVER_OPEN &&
        !op_takes((enum collet_op)c->value[OP], (enum collet_type)c->value[TYPE]))
        return false;
    if (c->value[ALGORITHM] == COVER_OPEN)
        return true;
    enum prog_collective collective = candidates[c->value[ALGORITHM]]->collective;
    return (c->value[OP] <= COLLET_SUM || trial_reduces(collective)) &&
           (c->value[PLACE] <= 0 || trial_may_be_in_place(collective));
}

struct cover matrix_create(void) {
    ncandidates = 0;
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        if (a->collective != PROG_SEND && a->collective != PROG_RECV && ncandidates < CANDIDATES_MAX &&
            (library_is_whole || !prog_is_counted(a->collective)))
            candidates[ncandidates++] = a;
    return (struct cover){NPARAMETERS,
                          {ncandidates, LENGTH(protocols), LENGTH(settings), LENGTH(layouts), LENGTH(ranks_of),
                           COLLET_TYPE_COUNT, COLLET_OP_COUNT, LENGTH(counts), 2},
                          possible};
}

uint64_t matrix_seed(const struct cover_case *c) {
    uint64_t seed = 1;
    for (int p = 0; p < NPARAMETERS; p++)
        seed = numbers_hash(seed, (uint64_t)p, (uint64_t)c->value[p]);
    return seed;
}

struct trial_call matrix_call(const struct cover_case *c) {
    int nranks = matrix_nranks(c);
    long count = counts[c->value[COUNT]];
    return (struct trial_call){
        .collective = candidates[c->value[ALGORITHM]]->collective,
        .type = (enum collet_type)c->value[TYPE],
        .op = (enum collet_op)c->value[OP],
        .count = (size_t)(count < 0 ? nranks - 1 : count),
        .root = (int)(matrix_seed(c) % (uint64_t)nranks),
        .nranks = nranks,
        .in_place = c->value[PLACE] == 1,
        .seed = matrix_seed(c),
    };
}

void matrix_name(const struct cover_case *c, char name[MATRIX_NAME_BYTES]) {
    char call[TRIAL_NAME_BYTES];
    struct trial_call what = matrix_call(c);
    trial_name(&what, call);
    const struct algorithm *algorithm = candidates[c->value[ALGORITHM]];
    snprintf(name, MATRIX_NAME_BYTES, "%s/%s %s %s %s%s", prog_collective_name(algorithm->collective), algorithm->name,
             protocols[c->value[PROTOCOL]], settings[c->value[SETTING]].name, layouts[c->value[LAYOUT]],
             strchr(call, ' '));
}

/* What a communicator depends on: COLLET_ALGO names algorithms of several collectives alike. */
int matrix_by_team(const struct cover_case *a, const struct cover_case *b) {
    int order = a->value[SETTING] - b->value[SETTING];
    if (order == 0)
        order = strcmp(candidates[a->value[ALGORITHM]]->name, candidates[b->value[ALGORITHM]]->name);
    return order != 0 ? order : a->value[PROTOCOL] - b->value[PROTOCOL];
}

/* Cases of one team in an order that mixes collectives, types and counts. */
int matrix_by_set_and_team(const void *first, const void *second) {
    const struct cover_case *a = first, *b = second;
    int order = a->value[LAYOUT] - b->value[LAYOUT];
    if (order == 0)
        order = a->value[NRANKS] - b->value[NRANKS];
    if (order == 0)
        order = matrix_by_team(a, b);
    uint64_t x = matrix_seed(a), y = matrix_seed(b);
    return order != 0 ? order : (x > y) - (x < y);
}

const char *matrix_layout_name(const struct cover_case *c) { return layouts[c->value[LAYOUT]]; }

int matrix_nranks(const struct cover_case *c) { return ranks_of[c->value[NRANKS]]; }

void matrix_set_environment(const struct cover_case *c) {
    const struct setting *setting = &settings[c->value[SETTING]];
    unsetenv("COLLET_BUFFSIZE");
    unsetenv("COLLET_CHUNKSIZE");
    unsetenv("COLLET_DIRECT");
    unsetenv("COLLET_DIRECT_BYTES");
    unsetenv("COLLET_NCHANNELS");
    unsetenv("COLLET_FIRST_STEP");
    unsetenv("COLLET_LL_FLAG_BITS");
    for (int k = 0; k < VARIABLES_MAX && setting->variables[k][0] != NULL; k++)
        setenv(setting->variables[k][0], setting->variables[k][1], 1);
    setenv("COLLET_ALGO", candidates[c->value[ALGORITHM]]->name, 1);
    setenv("COLLET_PROTO", protocols[c->value[PROTOCOL]], 1);
    const char *wire = getenv("COLLET_TEST_WIRE"); /* in place of tcp */
    bool one_transport = c->value[LAYOUT] == SHM || c->value[LAYOUT] == TCP;
    const char *transport = wire != NULL && c->value[LAYOUT] == TCP ? wire : layouts[c->value[LAYOUT]];
    setenv("COLLET_TRANSPORT", one_transport ? transport : "", 1);
}
