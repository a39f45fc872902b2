/* SPDX-License-Identifier: Apache-2.0
 *
 * Every collective × type × operator × place, in each protocol. First a sample, drawn by the seed, that shows each pair of
 * (collective, type), (collective, operator), (operator, type) and (collective, place); then the rest of the table; then all again
 * with other sizes while there is time. So a part that is cut off early has seen a bit of everything.
 */
#include "gpu/accept.h"

#include "base/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_EVERY 50 /* one case in so many has a count above MOST_COUNT */
#define HOST_EVERY 20  /* one in so many is checked by the host */
#define MOST_COUNT 70000
#define LARGE_COUNT 1000000

size_t random_count(void) {
    static const uint32_t largest[] = {8, 100, 5000, MOST_COUNT};
    if (!slow && random_below(LARGE_EVERY) == 0)
        return 1 + random_below(LARGE_COUNT);
    return 1 + random_below(largest[random_below(slow ? 3 : 4)]);
}

struct trial_call call_of(enum prog_collective collective, int type, int op, bool in_place, int nranks) {
    return (struct trial_call){
        .collective = collective,
        .type = (enum collet_type)type,
        .op = (enum collet_op)op,
        .count = random_count(),
        .root = trial_has_root(collective) ? (int)random_below((uint32_t)nranks) : 0,
        .nranks = nranks,
        .in_place = in_place,
        .seed = random_now(),
    };
}

/* ---- the table ---- */

struct entry {
    uint8_t collective, type, op, in_place;
};
#define ENTRIES_MAX (PROG_ALLGATHERV * COLLET_TYPE_COUNT * COLLET_OP_COUNT * 2)

static int list_entries(struct entry *entries) {
    int n = 0;
    for (int c = 0; c < PROG_ALLGATHERV; c++)
        for (int type = 0; type < COLLET_TYPE_COUNT; type++)
            for (int op = 0; op < (trial_reduces((enum prog_collective)c) ? COLLET_OP_COUNT : 1); op++)
                for (int place = 0; place <= trial_may_be_in_place((enum prog_collective)c); place++)
                    if (op_takes((enum collet_op)op, (enum collet_type)type))
                        entries[n++] = (struct entry){(uint8_t)c, (uint8_t)type, (uint8_t)op, (uint8_t)place};
    return n;
}

static void swap_entries(struct entry *a, struct entry *b) {
    struct entry entry = *a;
    *a = *b;
    *b = entry;
}

static void shuffle_entries(struct entry *entries, int n) {
    for (int k = n - 1; k > 0; k--)
        swap_entries(&entries[k], &entries[random_below((uint32_t)k + 1)]);
}

/* What has been shown. */
struct shown {
    bool type_of[PROG_ALLGATHERV][COLLET_TYPE_COUNT], op_of[PROG_ALLGATHERV][COLLET_OP_COUNT];
    bool op_on[COLLET_OP_COUNT][COLLET_TYPE_COUNT], place_of[PROG_ALLGATHERV][2];
};

static bool shows_more(struct shown *shown, const struct entry *e) {
    bool *marks[] = {&shown->type_of[e->collective][e->type], &shown->op_of[e->collective][e->op],
                     &shown->op_on[e->op][e->type], &shown->place_of[e->collective][e->in_place]};
    bool more = false;
    for (int k = 0; k < 4; k++) {
        more |= !*marks[k];
        *marks[k] = true;
    }
    return more;
}

/* The sample to the front; how large it is. */
static int sample_first(struct entry *entries, int n) {
    struct shown shown;
    int sample = 0;
    memset(&shown, 0, sizeof(shown));
    for (int k = 0; k < n; k++)
        if (shows_more(&shown, &entries[k]))
            swap_entries(&entries[sample++], &entries[k]);
    return sample;
}

/* ---- the parts ---- */

static const int sizes[] = {4, 2, 3, 8};
#define TEAMS (slow ? 3 : 4)

struct teams {
    struct team of[4];
};

static void teams_create(struct teams *teams, const char *protocol) {
    for (int k = 0; k < TEAMS; k++) {
        report_doing("%d ranks, %s", sizes[k], protocol[0] != '\0' ? protocol : "as chosen");
        team_create(&teams->of[k], sizes[k], protocol);
    }
}

static void teams_destroy(struct teams *teams) {
    for (int k = 0; k < TEAMS; k++)
        team_destroy(&teams->of[k]);
}

/* Half of the cases have four ranks. */
static void run_entry(const struct teams *teams, const struct entry *e) {
    const struct team *team = &teams->of[random_below(2) ? 0 : random_below((uint32_t)TEAMS)];
    struct trial_call call = call_of((enum prog_collective)e->collective, e->type, e->op, e->in_place, team->nranks);
    call = case_fitted(&call);
    if (random_below(HOST_EVERY) > 0)
        return run_case(team, &call);
    call.count = call.count < MOST_COUNT ? call.count : MOST_COUNT;
    run_mirrored(team, &call, MEMORY_PLAIN);
}

static bool may_go_on(void) { return part_seconds == 0 || !report_time_is_up(); }

/* How many of them; all, unless the time is up. */
static int run_entries(const struct teams *teams, const struct entry *entries, int n) {
    int k = 0;
    for (; k < n && may_go_on(); k++)
        run_entry(teams, &entries[k]);
    return k;
}

static void conformance(const char *protocol) {
    static struct entry entries[ENTRIES_MAX];
    struct teams teams;
    const int n = list_entries(entries);
    shuffle_entries(entries, n);
    const int sample = sample_first(entries, n);
    report_expect(n);
    case_prepare();
    teams_create(&teams, protocol);
    int done = run_entries(&teams, entries, sample);
    printf("  of the sample %d of %d\n", done, sample);
    done += run_entries(&teams, entries + sample, n - sample);
    printf("  of the table %d of %d\n", done, n);
    while (part_seconds > 0 && may_go_on() && !slow)
        run_entries(&teams, entries, n);
    teams_destroy(&teams);
    case_finish();
}

void part_simple(void) { conformance("Simple"); }
void part_ll(void) { conformance("LL"); }
void part_chosen(void) { conformance(""); }

/* Are GPUs 0 and 1 joined by NVLink, as collet sees it? */
bool lines_go_between_gpus(void) {
    struct collet_comm *comms[2];
    setenv("COLLET_PROTO", "LL128", 1);
    enum collet_result result =
        collet_comm_init_all(comms, 2, (const int[]){COLLET_DEVICE_CUDA(0), COLLET_DEVICE_CUDA(1)});
    unsetenv("COLLET_PROTO");
    for (int k = 0; k < 2 && result == COLLET_SUCCESS; k++)
        must(collet_comm_destroy(comms[k]), "collet_comm_destroy");
    if (result != COLLET_SUCCESS)
        printf("  on one GPU alone: %s\n", collet_last_error(NULL));
    return result == COLLET_SUCCESS;
}

/* Ranks on two GPUs first, where there are two: what lies between them is what one GPU cannot show. */
static void in_lines(void (*run)(const char *protocol)) {
    int all = ngpus;
    ngpus = 2;
    if (all > 1 && lines_go_between_gpus())
        run("LL128");
    ngpus = 1;
    run("LL128");
    ngpus = all;
}

void part_ll128(void) { in_lines(conformance); }

/* For tools that make everything slow, and that look beyond the ends of each piece of memory. */
static void a_few(const char *protocol) {
    struct team team;
    team_create(&team, 2, protocol);
    report_expect(PROG_ALLGATHERV);
    for (int c = 0; c < PROG_ALLGATHERV; c++) {
        struct trial_call call = call_of((enum prog_collective)c, c % COLLET_TYPE_COUNT, c % COLLET_BAND, false, 2);
        call.count = 1 + random_below(2000);
        run_mirrored(&team, &call, MEMORY_PLAIN);
    }
    team_destroy(&team);
}

void part_small(void) {
    a_few("Simple");
    a_few("LL");
}

void part_small128(void) { in_lines(a_few); }

void part_memory(void) {
    struct team team;
    team_create(&team, RANKS, "");
    report_expect(MEMORY_KINDS * PROG_ALLGATHERV);
    for (int kind = 0; kind < MEMORY_KINDS; kind++)
        for (int c = 0; c < PROG_ALLGATHERV; c++) {
            struct trial_call call = call_of((enum prog_collective)c, COLLET_FLOAT32, COLLET_SUM, false, RANKS);
            run_mirrored(&team, &call, (enum gpu_side_memory)kind);
        }
    team_destroy(&team);
}
