/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows what ranks hold while the rehearsal runs:
 *
 *      turn 2  step  OUT 0     OUT 1  in slots       rank 1 did step 1 in this turn; its OUT block 0 has the finished sum
 *      rank 0     1  =r0+r1    -      -              (=) of both contributions, its block 1 nothing. Block 1 of rank 0
 *      rank 1     1  -         r1     <0 1:=r0+r1    arrived from rank 0 (<0) and was not read yet.
 *
 * r2[3] is block 3 of rank 2's IN; the number is left out where block 3 belongs. More than 3 ranks in a row: r0+..+r7.
 */
#include "layers/tools/prog/show.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS_SHOWN = 32, BLOCKS_SHOWN = 16, TURNS_SHOWN = 64, LEAVES_SHOWN = 64 };

/* A table: a row per member, a column per field. */
struct turn_table {
    const struct rehearsal *m;
    int round, turn; /* turn 0: the table does not belong to a turn */
    int members[RANKS_SHOWN], rows;
    /* Blocks that have a column: number of the first block of OUT, number of blocks of OUT, number of blocks of TMP */
    int first_out, nout, ntmp;
};

/* ---- fields ---- */

static int compare_leaves(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void add_leaf(const struct rehearsal *m, int32_t leaf, int home, char *field) {
    int block = leaf % m->exprs.nblocks;
    show_add(field, "r%d", m->cast->members[leaf / m->exprs.nblocks].rank);
    if (block != home && m->exprs.nblocks > 1)
        show_add(field, "[%d]", block);
}

/* Appends the contributions of a value, in the order of ranks. home: contributions from this block of IN are written without its number. */
static void add_value(const struct rehearsal *m, int32_t value, int home, char *field) {
    int32_t leaves[LEAVES_SHOWN];
    if (value == EXPR_NONE)
        return show_add(field, "-");
    int n = expr_list_leaves(&m->exprs, value, leaves, LEAVES_SHOWN);
    qsort(leaves, (size_t)n, sizeof(*leaves), compare_leaves);
    show_add(field, "%s", expr_is_finish(&m->exprs, value) ? "=" : "");
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && leaves[end] == leaves[end - 1] + m->exprs.nblocks;)
            end++;
        end = end - i > 3 ? end : i + 1;
        show_add(field, "%s", i > 0 ? "+" : "");
        add_leaf(m, leaves[i], home, field);
        if (end > i + 1) {
            show_add(field, "+..+");
            add_leaf(m, leaves[end - 1], home, field);
        }
    }
    show_add(field, "%s", n < expr_nleaves(&m->exprs, value) ? "+.." : "");
}

static void add_steps(const struct turn_table *f, int member, char *field) {
    const struct rehearsal *m = f->m;
    int nworkers = m->cast->members[member].prog->nworkers;
    for (int i = 0; i < nworkers; i++) {
        const struct rehearsal_worker *w = &m->workers[m->first_worker[member] + i];
        if (w->turned >= 0 && nworkers > 1)
            show_add(field, "%sw%d:", field[0] != '\0' ? " " : "", i);
        if (w->turned >= 0)
            show_add(field, "%d", w->turned);
    }
}

/* Appends the content of a message that was not read yet, block by block. */
static void add_message(const struct rehearsal *m, const struct rehearsal_conn *conn, size_t slot, char *field) {
    int src = conn->at.src;
    const struct prog_step *sent = &m->cast->members[src].prog->steps[m->slots[slot].step];
    show_add(field, "%s<%d", field[0] != '\0' ? "  " : "", m->cast->members[src].rank);
    for (int i = 0; i < sent->count; i++) {
        struct rehearsal_place about = rehearsal_place(m, src, sent->about_region, &sent->about, i);
        int home = about.region == STEP_OUT ? cast_source_of(m->cast, src, about.block).block : about.block;
        show_add(field, " %d:", about.block);
        add_value(m, m->values[slot * (size_t)m->longest + (size_t)i], home, field);
    }
}

static void add_messages(const struct rehearsal *m, int member, char *field) {
    for (const struct rehearsal_conn *conn = m->conns; conn < m->conns + m->pairs.count; conn++)
        for (uint32_t at = conn->head; conn->at.dst == member && at != conn->tail; at++)
            add_message(m, conn, rehearsal_slot(m, conn, at), field);
}

/* ---- tables ---- */

static int columns_of(const struct turn_table *f) { return 2 + f->nout + f->ntmp + 1; }

static void write_title(const struct turn_table *f, int column, char *field) {
    if (column < 2)
        return f->turn == 0 ? (void)0 : column == 0 ? show_add(field, "turn %d", f->turn) : show_add(field, "step");
    if (column == columns_of(f) - 1)
        return show_add(field, "in slots");
    bool out = column < 2 + f->nout;
    show_add(field, "%s %d", out ? "OUT" : "TMP", column - 2 + (out ? f->first_out : -f->nout));
}

static void write_field(const void *what, int row, int column, char field[SHOW_FIELD_BYTES]) {
    const struct turn_table *f = what;
    const struct rehearsal *m = f->m;
    if (row < 0)
        return write_title(f, column, field);
    int member = f->members[row];
    struct rehearsal_place place = {member, STEP_OUT, f->first_out + column - 2};
    if (column >= 2 + f->nout)
        place = (struct rehearsal_place){member, STEP_TMP, column - 2 - f->nout};
    if (column == 0)
        show_add(field, "rank %d", m->cast->members[member].rank);
    else if (column == 1)
        f->turn > 0 ? add_steps(f, member, field) : (void)0;
    else if (column == columns_of(f) - 1)
        add_messages(m, member, field);
    else
        add_value(m, rehearsal_cell(m, f->round, place)->value,
                  place.region == STEP_OUT ? cast_source_of(m->cast, member, place.block).block : -1, field);
    if (field[0] == '\0' && (f->turn > 0 || column != 1))
        show_add(field, "-");
}

static void show_frame(const struct turn_table *f, FILE *out) {
    show_table(f, write_field, f->rows, columns_of(f), false, out);
}

static int least(int a, int b) { return a < b ? a : b; }

static struct turn_table frame_of(const struct rehearsal *m, int round, int first_out) {
    return (struct turn_table){.m = m,
                               .round = round,
                               .first_out = first_out,
                               .nout = least(m->nout - first_out, BLOCKS_SHOWN),
                               .ntmp = least(m->ntmp, BLOCKS_SHOWN)};
}

/* ---- watching a check ---- */

struct show {
    FILE *out;
    int turns; /* Number of turns so far */
};

static void show_turn(const struct rehearsal *m, int turn, void *context) {
    struct show *show = context;
    struct turn_table frame = frame_of(m, 0, 0);
    for (; frame.rows < least(m->cast->nmembers, RANKS_SHOWN); frame.rows++)
        frame.members[frame.rows] = frame.rows;
    show->turns = frame.turn = turn;
    if (turn > TURNS_SHOWN)
        return;
    show_frame(&frame, show->out);
    fputc('\n', show->out);
    if (turn == 1 && frame.rows < m->cast->nmembers)
        fprintf(show->out, "ranks %d-%d are not shown\n\n", frame.rows, m->cast->nmembers - 1);
    if (turn == 1 && (frame.nout < m->nout || frame.ntmp < m->ntmp))
        fprintf(show->out, "of OUT and TMP the first %d blocks are shown\n\n", BLOCKS_SHOWN);
}

/* Adds a row for the member, if it has none yet. */
static void add_row(struct turn_table *frame, int member) {
    for (int i = 0; i < frame->rows; i++)
        if (frame->members[i] == member)
            return;
    if (frame->rows < BLOCKS_SHOWN)
        frame->members[frame->rows++] = member;
}

static void show_failure(const struct rehearsal *m, void *context) {
    const struct rehearsal_failure *failed = &m->failed;
    const struct prog *prog = m->cast->members[failed->member].prog;
    const struct prog_step *step = failed->step >= 0 ? &prog->steps[failed->step] : NULL;
    int block = step != NULL && step->about_region == STEP_OUT ? step->about.first : 0;
    struct turn_table frame = frame_of(m, least(failed->round, m->nrounds - 1), m->nout > BLOCKS_SHOWN ? block : 0);
    FILE *out = ((struct show *)context)->out;
    add_row(&frame, failed->member);
    for (int i = 0; step != NULL && i < step->recv_count; i++)
        add_row(&frame, cast_peer_of(m->cast, failed->member, prog->peers[step->recv_first + i].rank));
    for (int i = 0; step != NULL && i < step->send_count; i++)
        add_row(&frame, cast_peer_of(m->cast, failed->member, prog->peers[step->send_first + i].rank));
    fprintf(out, "what ranks hold in round %d:\n", frame.round);
    show_frame(&frame, out);
}

bool show_check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots, bool in_place,
                bool turns, FILE *out, char *why, size_t why_bytes) {
    struct show show = {out, 0};
    struct rehearsal_watcher watcher = {turns ? show_turn : NULL, show_failure, &show};
    struct rehearsal_rules rules = {.nslots = nslots, .in_place = in_place, .watcher = &watcher};
    bool right = prog_check_by(algorithm, shape, root, &rules, why, why_bytes);
    if (show.turns > TURNS_SHOWN)
        fprintf(out, "turns %d-%d are not shown\n", TURNS_SHOWN + 1, show.turns);
    return right;
}
