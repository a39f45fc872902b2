/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints programs: one row per step, one column per rank; and what the rows add up to.
 *
 *      step   rank0   rank1        R  receives an operand         !  stores the result
 *         0   ...S 1  ...S 0       +  reduces several operands    S  sends it
 *         1   R+!. 0  R+!. 1       then the blocks that the step is about: 3, or 4-7, or 2,3,6,7
 *
 * With peers: R+!S 2 <3 >1 receives from rank 3 and sends to rank 1.
 */
#include "base/memory.h"
#include "program/cast.h"

#include <stdlib.h>
#include <string.h>

static int digits_of(int number) {
    int digits = 1;
    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

/* Tables are for the eye: what is beyond these is counted, not shown. */
enum { RANKS_SHOWN = 32, STEPS_SHOWN = 256, TOTALS_SHOWN = 64 };

/* The lists of numbers that a step has. */
enum list { BLOCKS, SENDERS, RECEIVERS };
#define LIST_TEXT_BYTES 28

static int length_of_list(const struct prog_step *step, enum list list) {
    return list == BLOCKS ? step->count : list == SENDERS ? step->recv_count : step->send_count;
}

static int number_in_list(const struct prog *prog, const struct prog_step *step, enum list list, int i) {
    if (list != BLOCKS)
        return prog->peers[(list == SENDERS ? step->recv_first : step->send_first) + i].rank;
    int nblocks = prog_region_blocks(prog, (enum step_region)step->about_region);
    return (int)geometry_block(&step->about, (uint32_t)i, (uint32_t)nblocks);
}

/* From where in the list on numbers no longer follow each other. */
static int end_of_row(const struct prog *prog, const struct prog_step *step, enum list list, int i) {
    int number = number_in_list(prog, step, list, i++);
    while (i < length_of_list(step, list) && number_in_list(prog, step, list, i) == ++number)
        i++;
    return i;
}

/* Writes a list of a step; what does not fit is "..". */
static void print_list(const struct prog *prog, const struct prog_step *step, enum list list,
                       char text[LIST_TEXT_BYTES]) {
    int room = LIST_TEXT_BYTES, at = 0, count = length_of_list(step, list);
    text[0] = '\0';
    for (int i = 0, end; i < count; i = end) {
        end = end_of_row(prog, step, list, i);
        end = end - i == 2 ? i + 1 : end; /* 2,3 and not 2-3 */
        int first = number_in_list(prog, step, list, i);
        char row[28];
        snprintf(row, sizeof(row), end - i > 1 ? "%s%d-%d" : "%s%d", i > 0 ? "," : "", first, first + end - i - 1);
        bool fits = at + (int)strlen(row) < room - (end < count ? 4 : 0);
        at += snprintf(text + at, (size_t)(room - at), "%s", fits ? row : ",..");
        if (!fits)
            return;
    }
}

/* How a table looks: the widths of a cell, and of its blocks; wide enough for the title "rank12" too. */
struct look {
    bool peers;
    int shown; /* members that have a column */
    int cell, blocks;
};

static void print_peers(const struct prog *prog, const struct prog_step *step, char *text, size_t bytes) {
    char senders[LIST_TEXT_BYTES], receivers[LIST_TEXT_BYTES];
    print_list(prog, step, SENDERS, senders);
    print_list(prog, step, RECEIVERS, receivers);
    snprintf(text, bytes, "%s%s%s%s", step->recv_count > 0 ? " <" : "", senders, step->send_count > 0 ? " >" : "",
             receivers);
}

#define CELL_TEXT_BYTES 100
static void write_cell(const struct prog *prog, const struct prog_step *step, struct look look,
                       char text[CELL_TEXT_BYTES]) {
    char blocks[LIST_TEXT_BYTES], peers[2 * LIST_TEXT_BYTES + 4] = "";
    print_list(prog, step, BLOCKS, blocks);
    if (look.peers)
        print_peers(prog, step, peers, sizeof(peers));
    snprintf(text, CELL_TEXT_BYTES, "%c%c%c%c %*s%s", step->recv_count > 0 ? 'R' : '.',
             step->recv_count + step->locals_count > 1 ? '+' : '.', step->store_region != STEP_NONE ? '!' : '.',
             step->send_count > 0 ? 'S' : '.', look.blocks, blocks, peers);
}

static int longer(int width, const char *text) { return (int)strlen(text) > width ? (int)strlen(text) : width; }

static struct look look_of(const struct cast *cast, bool peers) {
    struct look look = {.peers = peers, .shown = cast->nmembers < RANKS_SHOWN ? cast->nmembers : RANKS_SHOWN};
    const struct prog *prog = cast->members[0].prog;
    int nin = prog_region_blocks(prog, STEP_IN), nout = prog_region_blocks(prog, STEP_OUT);
    look.blocks = digits_of((nin > nout ? nin : nout) - 1);
    look.cell = 4 + digits_of(cast->nranks - 1);
    for (int pass = 0; pass < 2; pass++) /* cells are as wide as the widest blocks make them */
        for (int m = 0; m < look.shown; m++)
            for (int s = 0; s < cast->members[m].prog->nsteps; s++) {
                char text[CELL_TEXT_BYTES];
                print_list(cast->members[m].prog, &cast->members[m].prog->steps[s], BLOCKS, text);
                look.blocks = longer(look.blocks, text);
                write_cell(cast->members[m].prog, &cast->members[m].prog->steps[s], look, text);
                look.cell = pass == 1 ? longer(look.cell, text) : look.cell;
            }
    return look;
}

/* Worker w's step s of a program, NULL if it has none. */
static const struct prog_step *find_step(const struct prog *prog, int w, int s) {
    if (w >= prog->nworkers || s >= prog->workers[w].nsteps)
        return NULL;
    return &prog->steps[prog->workers[w].first_step + s];
}

/* The columns after the last member that still has something in this row; no line ends in blanks. */
static int columns_of_row(const struct cast *cast, int shown, int w, int s) {
    int columns = shown;
    while (columns > 0 && find_step(cast->members[columns - 1].prog, w, s) == NULL)
        columns--;
    return columns;
}

static void print_row(const struct cast *cast, int w, int s, struct look look, int columns, FILE *out) {
    fprintf(out, "%4d ", s);
    for (int m = 0; m < columns; m++) {
        const struct prog_step *step = find_step(cast->members[m].prog, w, s);
        char text[CELL_TEXT_BYTES] = "";
        if (step != NULL)
            write_cell(cast->members[m].prog, step, look, text);
        fprintf(out, "  %-*s", m < columns - 1 ? look.cell : 0, text);
    }
    fputc('\n', out);
}

static void print_worker(const struct cast *cast, int w, struct look look, FILE *out) {
    fprintf(out, "step ");
    for (int m = 0; m < look.shown; m++) {
        char title[32];
        snprintf(title, sizeof(title), "rank%d", cast->members[m].rank);
        fprintf(out, "  %-*s", m < look.shown - 1 ? look.cell : 0, title);
    }
    fputc('\n', out);
    int s = 0;
    for (int columns; (columns = columns_of_row(cast, look.shown, w, s)) > 0; s++)
        if (s < STEPS_SHOWN)
            print_row(cast, w, s, look, columns, out);
    if (s > STEPS_SHOWN)
        fprintf(out, "steps %d-%d are not shown\n", STEPS_SHOWN, s - 1);
}

/* What one rank does in a round, in blocks; and its connections. */
struct totals {
    int sends, reduces, stores, connections;
};

static struct totals totals_of(const struct prog *prog) {
    struct totals totals = {0};
    for (int s = 0; s < prog->nsteps; s++) {
        const struct prog_step *step = &prog->steps[s];
        totals.sends += step->send_count * step->count;
        totals.reduces += (step->recv_count + step->locals_count - 1) * step->count;
        totals.stores += step->store_region != STEP_NONE ? step->count : 0;
    }
    return totals;
}

static int compare_peers(const void *a, const void *b) {
    const struct prog_peer *x = a, *y = b;
    return x->rank != y->rank ? x->rank - y->rank : x->lane - y->lane;
}

/* How many different (rank, lane) the steps send to, or receive from. Scratch has room for all uses. */
static int count_connections(const struct prog *prog, bool sending, struct prog_peer *scratch) {
    int nuses = 0, nconns = 0;
    for (int s = 0; s < prog->nsteps; s++) {
        const struct prog_step *step = &prog->steps[s];
        int first = sending ? step->send_first : step->recv_first,
            count = sending ? step->send_count : step->recv_count;
        for (int i = first; i < first + count; i++)
            scratch[nuses++] = prog->peers[i];
    }
    qsort(scratch, (size_t)nuses, sizeof(*scratch), compare_peers);
    for (int i = 0; i < nuses; i++)
        nconns += i == 0 || compare_peers(&scratch[i - 1], &scratch[i]) != 0 ? 1 : 0;
    return nconns;
}

static enum collet_result add_connections(const struct prog *prog, struct totals *totals) {
    size_t nuses = 1;
    for (int s = 0; s < prog->nsteps; s++)
        nuses += (size_t)(prog->steps[s].send_count + prog->steps[s].recv_count);
    SCOPED_FREE struct prog_peer *scratch = NULL;
    COLLET_TRY(memory_get(&scratch, nuses, sizeof(*scratch), "no memory to count %zu uses of connections", nuses));
    totals->connections = count_connections(prog, true, scratch) + count_connections(prog, false, scratch);
    return COLLET_SUCCESS;
}

/* One line for each run of ranks with the same totals. */
static enum collet_result print_totals(const struct cast *cast, FILE *out) {
    fprintf(out, "\n%-15s %8s %8s %8s %12s   in one round\n", "totals", "sends", "reduces", "stores", "connections");
    struct totals totals = {0}, before = {0};
    for (int m = 0, first = 0, lines = 0; m <= cast->nmembers; m++, before = totals) {
        if (m < cast->nmembers) {
            totals = totals_of(cast->members[m].prog);
            COLLET_TRY(add_connections(cast->members[m].prog, &totals));
        }
        if (m == 0 || (m < cast->nmembers && memcmp(&totals, &before, sizeof(totals)) == 0))
            continue;
        if (lines++ == TOTALS_SHOWN) {
            fprintf(out, "those of ranks %d-%d are not shown\n", cast->members[first].rank, cast->nranks - 1);
            break;
        }
        char ranks[40];
        snprintf(ranks, sizeof(ranks), m - first > 1 ? "ranks %d-%d" : "rank %d", cast->members[first].rank,
                 cast->members[m - 1].rank);
        fprintf(out, "%-15s %8d %8d %8d %12d\n", ranks, before.sends, before.reduces, before.stores,
                before.connections);
        first = m;
    }
    return COLLET_SUCCESS;
}

enum collet_result prog_print(const struct algorithm *algorithm, const struct prog_shape *shape, int root, bool peers,
                              FILE *out) {
    struct cast cast;
    COLLET_TRY(cast_create(algorithm, shape, root, &cast));
    struct look look = look_of(&cast, peers);
    int nworkers = 0;
    for (int m = 0; m < cast.nmembers; m++)
        nworkers = nworkers > cast.members[m].prog->nworkers ? nworkers : cast.members[m].prog->nworkers;
    for (int w = 0; w < nworkers; w++) {
        if (nworkers > 1)
            fprintf(out, "%sworker %d\n", w > 0 ? "\n" : "", w);
        print_worker(&cast, w, look, out);
    }
    if (look.shown < cast.nmembers)
        fprintf(out, "\nranks %d-%d are not shown\n", look.shown, cast.nranks - 1);
    enum collet_result result = print_totals(&cast, out);
    cast_destroy(&cast);
    return result;
}
