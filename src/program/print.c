/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints programs: a row a step, a column a rank; and what the rows add up to.
 *
 *      step   rank0   rank1        R  receives an operand         !  stores the result to OUT
 *         0   ...S 1  ...S 0       +  reduces several operands    S  sends it
 *         1   R+!. 0  R+!. 1       then the chunk the step is about
 */
#include "base/err.h"
#include "program/cast.h"

#include <stdlib.h>
#include <string.h>

static int digits_of(int number) {
    int digits = 1;
    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

/* The widths of a cell, and of its chunk number; wide enough for the title "rank12" too. */
struct widths {
    int cell, chunk;
};

static struct widths widths_of(const struct cast *cast) {
    const struct prog *prog = cast->members[0].prog;
    int nin = prog_chunks(prog, prog_in_layout(prog->collective));
    int nout = prog_chunks(prog, prog_out_layout(prog->collective));
    int chunk = digits_of((nin > nout ? nin : nout) - 1), title = 4 + digits_of(cast->nranks - 1);
    return (struct widths){.cell = 5 + chunk > title ? 5 + chunk : title, .chunk = chunk};
}

static void print_cell(const struct prog_step *step, struct widths widths, FILE *out) {
    int noperands = step->recv_count + (step->local_region != STEP_NONE ? 1 : 0);
    char text[32];
    snprintf(text, sizeof(text), "%c%c%c%c %*d", step->recv_count > 0 ? 'R' : '.', noperands > 1 ? '+' : '.',
             step->store_region != STEP_NONE ? '!' : '.', step->send_count > 0 ? 'S' : '.', widths.chunk,
             step->store_region != STEP_NONE ? step->store_chunk : step->local_chunk);
    fprintf(out, "%-*s", widths.cell, text);
}

/* Worker w's step s of a program, NULL if it has none. */
static const struct prog_step *find_step(const struct prog *prog, int w, int s) {
    if (w >= prog->nworkers || s >= prog->workers[w].nsteps)
        return NULL;
    return &prog->steps[prog->workers[w].first_step + s];
}

/* The columns after the last member that still has something in this row; no line ends in blanks. */
static int columns_of_row(const struct cast *cast, int w, int s) {
    int columns = cast->nmembers;
    while (columns > 0 && find_step(cast->members[columns - 1].prog, w, s) == NULL)
        columns--;
    return columns;
}

static void print_worker(const struct cast *cast, int w, struct widths widths, FILE *out) {
    fprintf(out, "step ");
    for (int m = 0; m < cast->nmembers; m++) {
        char title[32];
        snprintf(title, sizeof(title), "rank%d", cast->members[m].rank);
        fprintf(out, "  %-*s", m < cast->nmembers - 1 ? widths.cell : 0, title);
    }
    fputc('\n', out);
    for (int s = 0, columns; (columns = columns_of_row(cast, w, s)) > 0; s++) {
        fprintf(out, "%4d ", s);
        for (int m = 0; m < columns; m++) {
            const struct prog_step *step = find_step(cast->members[m].prog, w, s);
            fprintf(out, "  ");
            if (step != NULL)
                print_cell(step, widths, out);
            else
                fprintf(out, "%*s", widths.cell, "");
        }
        fputc('\n', out);
    }
}

/* What one rank does in a round, in chunks; and its connections. */
struct totals {
    int sends, reduces, stores, connections;
};

static struct totals totals_of(const struct prog *prog) {
    struct totals totals = {0};
    for (int s = 0; s < prog->nsteps; s++) {
        const struct prog_step *step = &prog->steps[s];
        totals.sends += step->send_count;
        totals.reduces += step->recv_count + (step->local_region != STEP_NONE ? 1 : 0) - 1;
        totals.stores += step->store_region != STEP_NONE ? 1 : 0;
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
    struct prog_peer *scratch = malloc(nuses * sizeof(*scratch));
    if (scratch == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to count %zu uses of connections", nuses);
    totals->connections = count_connections(prog, true, scratch) + count_connections(prog, false, scratch);
    free(scratch);
    return COLLET_SUCCESS;
}

/* One line for each run of ranks with the same totals. */
static enum collet_result print_totals(const struct cast *cast, FILE *out) {
    fprintf(out, "\n%-15s %8s %8s %8s %12s   in one round\n", "totals", "sends", "reduces", "stores", "connections");
    struct totals totals = {0}, before = {0};
    for (int m = 0, first = 0; m <= cast->nmembers; m++, before = totals) {
        if (m < cast->nmembers) {
            totals = totals_of(cast->members[m].prog);
            COLLET_TRY(add_connections(cast->members[m].prog, &totals));
        }
        if (m == 0 || (m < cast->nmembers && memcmp(&totals, &before, sizeof(totals)) == 0))
            continue;
        char ranks[40];
        snprintf(ranks, sizeof(ranks), m - first > 1 ? "ranks %d-%d" : "rank %d", cast->members[first].rank,
                 cast->members[m - 1].rank);
        fprintf(out, "%-15s %8d %8d %8d %12d\n", ranks, before.sends, before.reduces, before.stores,
                before.connections);
        first = m;
    }
    return COLLET_SUCCESS;
}

enum collet_result prog_print(const struct algorithm *algorithm, const struct prog_shape *shape, int root, FILE *out) {
    struct cast cast;
    COLLET_TRY(cast_create(algorithm, shape, root, &cast));
    int nworkers = 0;
    for (int m = 0; m < cast.nmembers; m++)
        nworkers = nworkers > cast.members[m].prog->nworkers ? nworkers : cast.members[m].prog->nworkers;
    for (int w = 0; w < nworkers; w++) {
        if (nworkers > 1)
            fprintf(out, "%sworker %d\n", w > 0 ? "\n" : "", w);
        print_worker(&cast, w, widths_of(&cast), out);
    }
    enum collet_result result = print_totals(&cast, out);
    cast_destroy(&cast);
    return result;
}
