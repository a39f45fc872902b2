/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows programs: one row per step, one column per rank; and what the rows add up to.
 *
 *      step   rank0   rank1        R  receives an operand         !  stores the result
 *         0   ...S 1  ...S 0       +  reduces several operands    S  sends it
 *         1   R+!. 0  R+!. 1       then the blocks that the step is about: 3, or 4-7, or 2,3,6,7
 *
 * With peers: R+!S 2 <3 >1 receives from rank 3 and sends to rank 1. With loans, L sends by a loan (layers/memory/loan.h), and E stores
 * what may land early.
 */
#include "layers/tools/prog/show.h"

#include <string.h>

/* Tables are read by people: ranks and steps beyond these numbers are counted, but not shown. */
enum { RANKS_SHOWN = 32, STEPS_SHOWN = 256, TOTALS_SHOWN = 64, LIST_TEXT_BYTES = 28 };

/* The three lists of numbers of a step: its blocks, the ranks that it receives from, and the ranks that it sends to. */
enum list { BLOCKS, SENDERS, RECEIVERS };

static int length_of_list(const struct prog_step *step, enum list list) {
    return list == BLOCKS ? step->count : list == SENDERS ? step->recv_count : step->send_count;
}

static int number_in_list(const struct prog *prog, const struct prog_step *step, enum list list, int i) {
    if (list != BLOCKS)
        return prog->peers[(list == SENDERS ? step->recv_first : step->send_first) + i].rank;
    int nblocks = prog_region_blocks(prog, (enum step_region)step->about_region);
    return (int)geometry_block(&step->about, (uint32_t)i, (uint32_t)nblocks);
}

/* Index behind the row of consecutive numbers that begins at index i of the list. */
static int end_of_row(const struct prog *prog, const struct prog_step *step, enum list list, int i) {
    int number = number_in_list(prog, step, list, i++);
    while (i < length_of_list(step, list) && number_in_list(prog, step, list, i) == ++number)
        i++;
    return i;
}

/* Writes a list of a step. If the list does not fit, its rest becomes "..". */
static void write_list(const struct prog *prog, const struct prog_step *step, enum list list,
                       char text[LIST_TEXT_BYTES]) {
    int room = LIST_TEXT_BYTES, at = 0, count = length_of_list(step, list);
    text[0] = '\0';
    for (int i = 0, end; i < count; i = end) {
        end = end_of_row(prog, step, list, i);
        end = end - i == 2 ? i + 1 : end; /* Prints 2,3 and not 2-3 */
        int first = number_in_list(prog, step, list, i);
        char row[28];
        snprintf(row, sizeof(row), end - i > 1 ? "%s%d-%d" : "%s%d", i > 0 ? "," : "", first, first + end - i - 1);
        bool fits = at + (int)strlen(row) < room - (end < count ? 4 : 0);
        at += snprintf(text + at, (size_t)(room - at), "%s", fits ? row : ",..");
        if (!fits)
            return;
    }
}

/* The table of one worker of all ranks. */
struct steps_view {
    const struct cast *cast;
    struct show_cells cells;
    int shown;  /* Number of members that have a column */
    int blocks; /* Width of the list of blocks in a cell, in characters */
    int worker;
};

/* Step s of worker w of a program. NULL: the program has no such step. */
static const struct prog_step *find_step(const struct prog *prog, int w, int s) {
    if (w >= prog->nworkers || s >= prog->workers[w].nsteps)
        return NULL;
    return &prog->steps[prog->workers[w].first_step + s];
}

static void write_cell(const void *what, int row, int column, char field[SHOW_FIELD_BYTES]) {
    const struct steps_view *view = what;
    const struct cast_member *member = &view->cast->members[column > 0 ? column - 1 : 0];
    if (column == 0)
        return row < 0 ? show_add(field, "step ") : show_add(field, "%4d ", row);
    if (row < 0)
        return show_add(field, "rank%d", member->rank);
    const struct prog_step *step = find_step(member->prog, view->worker, row);
    char list[LIST_TEXT_BYTES];
    if (step == NULL)
        return;
    write_list(member->prog, step, BLOCKS, list);
    const char store = view->cells.loans && step->lands == STEP_LANDS_EARLY ? 'E' : '!';
    const char send = view->cells.loans && step->lends != STEP_LENDS_NOTHING ? 'L' : 'S';
    show_add(field, "%c%c%c%c %*s", step->recv_count > 0 ? 'R' : '.',
             step->recv_count + step->locals_count > 1 ? '+' : '.', step->store_region != STEP_NONE ? store : '.',
             step->send_count > 0 ? send : '.', view->blocks, list);
    for (enum list of = SENDERS; of <= RECEIVERS && view->cells.peers; of++) {
        write_list(member->prog, step, of, list);
        show_add(field, "%s%s", list[0] == '\0' ? "" : of == SENDERS ? " <" : " >", list);
    }
}

static void show_worker(struct steps_view view, int w, FILE *out) {
    int rows = 0;
    view.worker = w;
    for (int m = 0; m < view.shown; m++) {
        const struct prog *prog = view.cast->members[m].prog;
        rows = w < prog->nworkers && prog->workers[w].nsteps > rows ? prog->workers[w].nsteps : rows;
    }
    show_table(&view, write_cell, rows < STEPS_SHOWN ? rows : STEPS_SHOWN, 1 + view.shown, true, out);
    if (rows > STEPS_SHOWN)
        fprintf(out, "steps %d-%d are not shown\n", STEPS_SHOWN, rows - 1);
}

/* ---- totals ---- */

/* Numbers of blocks that one rank sends, reduces and stores in a round, and the number of its connections. */
struct totals {
    int sends, reduces, stores, connections;
};

static void add_steps(const struct prog *prog, struct totals *totals) {
    for (int s = 0; s < prog->nsteps; s++) {
        const struct prog_step *step = &prog->steps[s];
        totals->sends += step->send_count * step->count;
        totals->reduces += (step->recv_count + step->locals_count - 1) * step->count;
        totals->stores += step->store_region != STEP_NONE ? step->count : 0;
    }
}

/* Prints one line for each row of neighbouring ranks with equal totals. */
static void show_totals(const struct cast *cast, const struct totals *totals, FILE *out) {
    fprintf(out, "\n%-15s %8s %8s %8s %12s   in one round\n", "totals", "sends", "reduces", "stores", "connections");
    for (int m = 0, next, lines = 0; m < cast->nmembers; m = next) {
        const struct totals *of = &totals[m];
        for (next = m + 1; next < cast->nmembers && memcmp(of, &totals[next], sizeof(*of)) == 0;)
            next++;
        if (lines++ == TOTALS_SHOWN) {
            fprintf(out, "those of ranks %d-%d are not shown\n", cast->members[m].rank, cast->nranks - 1);
            return;
        }
        char ranks[40];
        snprintf(ranks, sizeof(ranks), next - m > 1 ? "ranks %d-%d" : "rank %d", cast->members[m].rank,
                 cast->members[next - 1].rank);
        fprintf(out, "%-15s %8d %8d %8d %12d\n", ranks, of->sends, of->reduces, of->stores, of->connections);
    }
}

static enum collet_result count_totals(const struct cast *cast, FILE *out) {
    struct cast_conns conns;
    bool enough = cast_connect(cast, &conns);
    struct totals *totals = arena_get(&conns.arena, (size_t)cast->nmembers, sizeof(*totals));
    enough = enough && totals != NULL;
    for (int c = 0; c < conns.count && enough; c++) {
        totals[conns.list[c].src].connections++;
        totals[conns.list[c].dst].connections++;
    }
    for (int m = 0; m < cast->nmembers && enough; m++)
        add_steps(cast->members[m].prog, &totals[m]);
    if (enough)
        show_totals(cast, totals, out);
    cast_disconnect(&conns);
    return enough ? COLLET_SUCCESS : err_set(COLLET_ERR_NO_MEMORY, "no memory to count connections");
}

enum collet_result show_steps(const struct cast *cast, struct show_cells cells, FILE *out) {
    struct steps_view view = {.cast = cast, .cells = cells};
    view.shown = cast->nmembers < RANKS_SHOWN ? cast->nmembers : RANKS_SHOWN;
    int nworkers = 0;
    for (int m = 0; m < cast->nmembers; m++) {
        const struct prog *prog = cast->members[m].prog;
        nworkers = nworkers > prog->nworkers ? nworkers : prog->nworkers;
        for (int s = 0; m < view.shown && s < prog->nsteps; s++) {
            char text[LIST_TEXT_BYTES];
            write_list(prog, &prog->steps[s], BLOCKS, text);
            view.blocks = (int)strlen(text) > view.blocks ? (int)strlen(text) : view.blocks;
        }
    }
    for (int w = 0; w < nworkers; w++) {
        if (nworkers > 1)
            fprintf(out, "%sworker %d\n", w > 0 ? "\n" : "", w);
        show_worker(view, w, out);
    }
    if (view.shown < cast->nmembers)
        fprintf(out, "\nranks %d-%d are not shown\n", view.shown, cast->nranks - 1);
    return count_totals(cast, out);
}
