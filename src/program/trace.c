/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of what ranks hold: trace.h has the picture.
 */
#include "program/trace.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_SHOWN = 32, BLOCKS_SHOWN = 16, TURNS_SHOWN = 64, LEAVES_SHOWN = 64, FIELD_BYTES = 160 };

/* A table: a row per member, a column per field. */
struct frame {
    const struct machine *m;
    int round, turn; /* turn 0: the table tells no turn */
    int members[RANKS_SHOWN], rows;
    int first_out, nout, ntmp; /* blocks that have a column */
};

/* ---- fields ---- */

/* Appends to a field; what does not fit ends in "..". */
static void __attribute__((format(printf, 2, 3))) add(char field[FIELD_BYTES], const char *format, ...) {
    size_t used = strlen(field), room = FIELD_BYTES - used;
    va_list args;
    va_start(args, format);
    if ((size_t)vsnprintf(field + used, room, format, args) >= room)
        strcpy(field + FIELD_BYTES - 3, "..");
    va_end(args);
}

static int compare_leaves(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void add_leaf(const struct machine *m, int32_t leaf, int home, char field[FIELD_BYTES]) {
    int block = leaf % m->exprs.nblocks;
    add(field, "r%d", m->cast->members[leaf / m->exprs.nblocks].rank);
    if (block != home && m->exprs.nblocks > 1)
        add(field, "[%d]", block);
}

/* The sum of the contributions, in the order of ranks. home: the block of IN that belongs here. */
static void add_value(const struct machine *m, int32_t value, int home, char field[FIELD_BYTES]) {
    int32_t leaves[LEAVES_SHOWN];
    if (value == EXPR_NONE) {
        add(field, "-");
        return;
    }
    int n = expr_list_leaves(&m->exprs, value, leaves, LEAVES_SHOWN);
    qsort(leaves, (size_t)n, sizeof(*leaves), compare_leaves);
    add(field, "%s", expr_is_finish(&m->exprs, value) ? "=" : "");
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && leaves[end] == leaves[end - 1] + m->exprs.nblocks;)
            end++;
        bool row = end - i > 3;
        add(field, "%s", i > 0 ? "+" : "");
        add_leaf(m, leaves[i], home, field);
        add(field, "%s", row ? "+..+" : "");
        if (row)
            add_leaf(m, leaves[end - 1], home, field);
        else
            end = i + 1;
    }
    add(field, "%s", n < expr_nleaves(&m->exprs, value) ? "+.." : "");
}

static void add_steps(const struct frame *f, int member, char field[FIELD_BYTES]) {
    const struct machine *m = f->m;
    int nworkers = m->cast->members[member].prog->nworkers;
    for (int i = 0; i < nworkers; i++) {
        const struct machine_worker *w = &m->workers[m->first_worker[member] + i];
        if (w->turned >= 0 && nworkers > 1)
            add(field, "%sw%d:", field[0] != '\0' ? " " : "", i);
        if (w->turned >= 0)
            add(field, "%d", w->turned);
    }
}

/* What a message that was not read yet carries, block by block. */
static void add_message(const struct machine *m, const struct machine_conn *conn, uint32_t at,
                        char field[FIELD_BYTES]) {
    size_t slot = (size_t)(conn - m->conns) * (size_t)m->nslots + at % (uint32_t)m->nslots;
    const int32_t *values = &m->values[conn->first_value + at % (uint32_t)m->nslots * (size_t)conn->longest];
    const struct prog_step *sent = &m->cast->members[conn->src].prog->steps[m->slots[slot].step];
    add(field, "%s<%d", field[0] != '\0' ? "  " : "", m->cast->members[conn->src].rank);
    for (int i = 0; i < sent->count; i++) {
        struct machine_place about = machine_about(m, conn->src, sent, i);
        int home = about.region == STEP_OUT ? cast_source_of(m->cast, conn->src, about.block).block : about.block;
        add(field, " %d:", about.block);
        add_value(m, values[i], home, field);
    }
}

static void add_messages(const struct machine *m, int member, char field[FIELD_BYTES]) {
    for (int c = 0; c < m->nconns; c++)
        for (uint32_t at = m->conns[c].head; m->conns[c].dst == member && at != m->conns[c].tail; at++)
            add_message(m, &m->conns[c], at, field);
}

/* ---- tables ---- */

static int columns_of(const struct frame *f) { return 2 + f->nout + f->ntmp + 1; }

static void write_title(const struct frame *f, int column, char field[FIELD_BYTES]) {
    if (column == 0 && f->turn > 0)
        add(field, "turn %d", f->turn);
    else if (column == 1 && f->turn > 0)
        add(field, "step");
    else if (column >= 2 + f->nout && column < columns_of(f) - 1)
        add(field, "TMP %d", column - 2 - f->nout);
    else if (column >= 2)
        column < columns_of(f) - 1 ? add(field, "OUT %d", f->first_out + column - 2) : add(field, "in slots");
}

static void write_field(const struct frame *f, int member, int column, char field[FIELD_BYTES]) {
    const struct machine *m = f->m;
    int out = f->first_out + column - 2, tmp = column - 2 - f->nout;
    if (column == 0)
        add(field, "rank %d", m->cast->members[member].rank);
    else if (column == 1)
        add_steps(f, member, field);
    else if (column == columns_of(f) - 1)
        add_messages(m, member, field);
    else if (tmp < 0)
        add_value(m, machine_out(m, f->round, member, out)->value, cast_source_of(m->cast, member, out).block, field);
    else
        add_value(m, m->tmp[(size_t)member * (size_t)m->ntmp + (size_t)tmp].value, -1, field);
    if (field[0] == '\0' && (f->turn > 0 || column != 1))
        add(field, "-");
}

/* Row −1 has the titles. */
static void write_any(const struct frame *f, int row, int column, char field[FIELD_BYTES]) {
    field[0] = '\0';
    if (row < 0)
        write_title(f, column, field);
    else
        write_field(f, f->members[row], column, field);
}

static void print_frame(const struct frame *f, FILE *out) {
    char field[FIELD_BYTES];
    int widths[3 + 2 * BLOCKS_SHOWN] = {0};
    for (int pass = 0; pass < 2; pass++) /* measures, then prints */
        for (int row = -1; row < f->rows; row++)
            for (int c = 0; c < columns_of(f); c++) {
                bool last = c == columns_of(f) - 1;
                write_any(f, row, c, field);
                widths[c] = (int)strlen(field) > widths[c] ? (int)strlen(field) : widths[c];
                if (pass == 1 && (c != 1 || f->turn > 0))
                    fprintf(out, "%-*s%s", last ? 0 : widths[c], field, last ? "\n" : "  ");
            }
}

static int least(int a, int b) { return a < b ? a : b; }

static struct frame frame_of(const struct machine *m, int round, int first_out) {
    return (struct frame){.m = m,
                          .round = round,
                          .first_out = first_out,
                          .nout = least(m->nout - first_out, BLOCKS_SHOWN),
                          .ntmp = least(m->ntmp, BLOCKS_SHOWN)};
}

bool trace_turns(struct machine *m, FILE *out) {
    struct frame frame = frame_of(m, 0, 0);
    for (; frame.rows < least(m->cast->nmembers, RANKS_SHOWN); frame.rows++)
        frame.members[frame.rows] = frame.rows;
    int moved = 0;
    for (int turn = 1; (moved = machine_turn(m, 0)) > 0; turn++) {
        frame.turn = turn;
        if (turn <= TURNS_SHOWN)
            print_frame(&frame, out);
        if (turn <= TURNS_SHOWN)
            fputc('\n', out);
    }
    if (frame.turn > TURNS_SHOWN)
        fprintf(out, "turns %d-%d are not shown\n", TURNS_SHOWN + 1, frame.turn);
    if (frame.rows < m->cast->nmembers)
        fprintf(out, "ranks %d-%d are not shown\n", frame.rows, m->cast->nmembers - 1);
    if (frame.nout < m->nout || frame.ntmp < m->ntmp)
        fprintf(out, "of OUT and TMP the first %d blocks are shown\n", BLOCKS_SHOWN);
    return moved == 0;
}

/* Adds the rank, if it has no row yet. */
static void add_row(struct frame *frame, int member) {
    for (int i = 0; i < frame->rows; i++)
        if (frame->members[i] == member)
            return;
    if (frame->rows < BLOCKS_SHOWN)
        frame->members[frame->rows++] = member;
}

void trace_failure(const struct machine *m, FILE *out) {
    const struct machine_failure *failed = &m->failed;
    if (failed->member < 0 || m->nsteps_done == 0)
        return;
    const struct prog *prog = m->cast->members[failed->member].prog;
    const struct prog_step *step = failed->step >= 0 ? &prog->steps[failed->step] : NULL;
    int block = step != NULL && step->about_region == STEP_OUT ? step->about.first : 0;
    struct frame frame = frame_of(m, least(failed->round, m->nrounds - 1), m->nout > BLOCKS_SHOWN ? block : 0);
    add_row(&frame, failed->member);
    for (int i = 0; step != NULL && i < step->recv_count; i++)
        add_row(&frame, cast_peer_of(m->cast, failed->member, prog->peers[step->recv_first + i].rank));
    for (int i = 0; step != NULL && i < step->send_count; i++)
        add_row(&frame, cast_peer_of(m->cast, failed->member, prog->peers[step->send_first + i].rank));
    fprintf(out, "in round %d:\n", frame.round);
    print_frame(&frame, out);
}
