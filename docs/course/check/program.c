/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict of labs 1 to 5. Each lab asks for a program that collet's verifier proves right, for several numbers of ranks,
 * and that keeps two limits. A *turn* is what all ranks can do side by side: each does at most one step in it.
 */
#include "check/program.h"

#include "base/err.h"
#include "layers/tools/prog/show.h"

#include <stdlib.h>

#define RANKS_MAX 33

struct task {
    enum prog_collective collective;
    const char *what;
    int nslots;
    double (*most_sent)(int n); /* by one rank, in buffers; NULL: no limit */
    int (*most_turns)(int n);   /* NULL: no limit */
    int only_doubles;           /* numbers of ranks are powers of two */
};

static int log2_up(int n) {
    int levels = 0;
    while (1 << levels < n)
        levels++;
    return levels;
}

static double sent_by_a_ring(int n) { return 2.0 * (n - 1) / n; }
static double sent_by_a_tree(int n) { return n > 2 ? 3 : 1; }
static double sent_by_doubling(int n) { return log2_up(n); }
static int turns_of_a_tree(int n) { return 2 * log2_up(n) + 1; }
static int turns_of_doubling(int n) { return log2_up(n) + 1; }

/* Lab 1 first. */
static const struct task tasks[] = {
    {PROG_ALLREDUCE, "an allreduce that is right", 2, NULL, NULL, 0},
    {PROG_ALLREDUCE, "an allreduce that sends as little as a ring", 2, sent_by_a_ring, NULL, 0},
    {PROG_ALLREDUCE, "an allreduce with as few turns as a tree", 2, sent_by_a_tree, turns_of_a_tree, 0},
    {PROG_ALLREDUCE, "an allreduce by recursive doubling", 2, sent_by_doubling, turns_of_doubling, 1},
    {PROG_ALLGATHER, "an allgather that needs one slot per connection", 1, NULL, NULL, 0},
};

static const struct task *task;
static struct algorithm algorithm = {.name = "lab", .build = lab_build, .about = "yours"};

/* ---- what a program costs ---- */

static double sent_by(const struct prog *prog) {
    double blocks = 0;
    for (int k = 0; k < prog->nsteps; k++)
        blocks += prog->steps[k].count * prog->steps[k].send_count;
    return blocks / prog_region_blocks(prog, STEP_OUT);
}

static double most_sent(const struct prog_shape *shape) {
    struct cast cast;
    double most = 0;
    if (cast_create(&algorithm, shape, 0, &cast) != COLLET_SUCCESS)
        return 0;
    for (int m = 0; m < cast.nmembers; m++)
        most = sent_by(cast.members[m].prog) > most ? sent_by(cast.members[m].prog) : most;
    cast_destroy(&cast);
    return most;
}

static void note_turn(const struct rehearsal *m, int turn, void *turns) {
    (void)m;
    *(int *)turns = turn;
}

static int turns_of(const struct prog_shape *shape) {
    int turns = 0;
    char why[ERR_TEXT_BYTES];
    struct rehearsal_watcher watcher = {.turn = note_turn, .context = &turns};
    struct rehearsal_rules rules = {.nslots = task->nslots, .watcher = &watcher};
    prog_check_by(&algorithm, shape, 0, &rules, why, sizeof why);
    return turns;
}

/* ---- the verdict ---- */

static int is_right(const struct prog_shape *shape) {
    char why[ERR_TEXT_BYTES];
    for (int in_place = 0; in_place < 2; in_place++)
        if (!show_check(&algorithm, shape, 0, task->nslots, in_place == 1, false, stdout, why, sizeof why)) {
            printf("\n%3d ranks%s: %s\n", shape->nranks, in_place == 1 ? ", in place" : "", why);
            return 0;
        }
    return 1;
}

static int keeps_limits(const struct prog_shape *shape) {
    int n = shape->nranks, turns = turns_of(shape);
    double sent = most_sent(shape);
    printf("%3d ranks: right, %2d turns, the busiest rank sends %5.2f buffers\n", n, turns, sent);
    if (task->most_sent != NULL && sent > task->most_sent(n) + 1e-9)
        printf("           too much: %.2f buffers do\n", task->most_sent(n));
    else if (task->most_turns != NULL && turns > task->most_turns(n))
        printf("           too many turns: %d do\n", task->most_turns(n));
    else
        return 1;
    return 0;
}

int main(int argc, char **argv) {
    int number = argc == 2 ? atoi(argv[1]) : 0, ntasks = (int)(sizeof tasks / sizeof *tasks);
    if (number < 1 || number > ntasks) {
        fprintf(stderr, "usage: %s 1…%d\n", argv[0], ntasks);
        return 2;
    }
    task = &tasks[number - 1];
    algorithm.collective = task->collective;
    printf("lab %d: %s\n\n", number, task->what);
    for (int n = 2; n <= RANKS_MAX; n = task->only_doubles ? 2 * n : n < 9 ? n + 1 : 2 * n - 1)
        if (!is_right(&PROG_FLAT(n)) || !keeps_limits(&PROG_FLAT(n))) {
            printf("\nnot yet. HINT=1 gives a hint.\n");
            return 1;
        }
    printf("\npassed\n");
    return 0;
}
