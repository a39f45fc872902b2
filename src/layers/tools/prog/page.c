/* SPDX-License-Identifier: Apache-2.0
 *
 * A cast as a page of HTML:
 *
 *      page.html   ──── up to the word DATA ────▶ page
 *      programs, connections, source, verdicts ─▶ page        as JSON
 *      page.html   ──── what is behind it ──────▶ page
 *
 * The page runs the programs itself, so that its reader can change the number of slots. What ranks hold at the end of a round
 * the verifier says here; the page compares.
 */
#include "layers/tools/prog/show.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char page_template[]; /* The text of page.html */

enum { SLOTS_TRIED = 8, FILES_MAX = 16 };

struct html_page {
    const struct cast *cast;
    const struct prog_shape *shape;
    struct cast_conns conns;
    const char *files[FILES_MAX]; /* Source files whose code has emitted a step */
    int nfiles;
    FILE *out;
};

/* ---- text ---- */

/* Writes a text as it must be inside quotation marks of JSON, in a script of an HTML page. */
static void put_escaped(const char *text, FILE *out) {
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < ' ' || *text == '<')
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, out);
}

static void put_text(const char *text, FILE *out) {
    fputc('"', out);
    put_escaped(text, out);
    fputc('"', out);
}

static const char *comma(int i) { return i > 0 ? "," : ""; }

/* ---- steps ---- */

static int file_of(struct html_page *page, const char *file) {
    int i = 0;
    while (i < page->nfiles && strcmp(page->files[i], file) != 0)
        i++;
    if (i == page->nfiles && i < FILES_MAX)
        page->files[page->nfiles++] = file;
    return i < FILES_MAX ? i : 0;
}

static void put_conns(const char *name, const int *conns, int count, FILE *out) {
    fprintf(out, "\"%s\":[", name);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%d", comma(i), conns[i]);
    fprintf(out, "],");
}

static void put_run(const struct prog *prog, int region, const struct block_run *run, int count, FILE *out) {
    uint32_t nblocks = (uint32_t)prog_region_blocks(prog, (enum step_region)region);
    fputc('[', out);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%u", comma(i), i == 0 ? (uint32_t)run->first : geometry_block(run, (uint32_t)i, nblocks));
    fputc(']', out);
}

static void put_locals(const struct prog *prog, const struct prog_step *step, FILE *out) {
    fprintf(out, "\"l\":[");
    for (int i = 0; i < step->locals_count; i++) {
        const struct prog_local *local = &prog->locals[step->locals_first + i];
        fprintf(out, "%s[%d,%d,", comma(i), local->at, local->region);
        put_run(prog, local->region, &local->run, step->count, out);
        fputc(']', out);
    }
    fprintf(out, "],");
}

static void put_step(struct html_page *page, int member, int number) {
    const struct prog *prog = page->cast->members[member].prog;
    const struct prog_step *step = &prog->steps[number];
    const int first = page->conns.first_peer[member];
    FILE *out = page->out;
    fputc('{', out);
    put_conns("r", page->conns.recv + first + step->recv_first, step->recv_count, out);
    put_conns("s", page->conns.send + first + step->send_first, step->send_count, out);
    put_locals(prog, step, out);
    fprintf(out, "\"b\":");
    put_run(prog, step->about_region, &step->about, step->count, out);
    if (step->store_region != STEP_NONE) {
        fprintf(out, ",\"st\":[%d,", step->store_region);
        put_run(prog, step->store_region, &step->store, step->count, out);
        fputc(']', out);
    }
    fprintf(out, ",\"f\":%d,\"at\":[%d,%d]}", step->finish, file_of(page, prog->origins[number].file),
            prog->origins[number].line);
}

/* ---- ranks and connections ---- */

static int node_of(const struct prog_shape *shape, int rank) {
    return prog_shape_span(shape, prog_shape_position(shape, rank)).node;
}

static void put_member(struct html_page *page, int m) {
    const struct cast_member *member = &page->cast->members[m];
    const struct prog *prog = member->prog;
    FILE *out = page->out;
    fprintf(out, "%s{\"rank\":%d,\"node\":%d,\"place\":%d,\"homes\":[", comma(m), member->rank,
            node_of(page->shape, member->rank),
            prog_shape_turn(page->shape, prog_shape_position(page->shape, member->rank)));
    for (int b = 0; b < prog_region_blocks(prog, STEP_OUT); b++)
        fprintf(out, "%s%d", comma(b), cast_source_of(page->cast, m, b).block);
    fprintf(out, "],\"workers\":[");
    for (int w = 0; w < prog->nworkers; w++) {
        fprintf(out, "%s[", comma(w));
        for (int s = 0; s < prog->workers[w].nsteps; s++) {
            fprintf(out, "%s\n", comma(s));
            put_step(page, m, prog->workers[w].first_step + s);
        }
        fputc(']', out);
    }
    fprintf(out, "]}");
}

static void put_ranks(struct html_page *page) {
    fprintf(page->out, ",\n\"members\":[");
    for (int m = 0; m < page->cast->nmembers; m++)
        put_member(page, m);
    fprintf(page->out, "],\n\"conns\":[");
    for (int i = 0; i < page->conns.count; i++) {
        const struct cast_conn *conn = &page->conns.list[i];
        fprintf(page->out, "%s[%d,%d,%d]", comma(i), conn->lane, conn->src, conn->dst);
    }
    fprintf(page->out, "]");
}

/* ---- source ---- */

/* Opens a source file of collet: in the source tree around this program, or below the current folder. NULL: there is no such file. */
static FILE *open_source(const char *file) {
    char path[1024];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    for (int up = 0; n > 0 && up < 3; up++) { /* Goes up from build/bin/collet-prog to the folder above build */
        while (n > 0 && path[n - 1] != '/')
            n--;
        n--;
    }
    if (n > 0 && (size_t)snprintf(path + n, sizeof(path) - (size_t)n, "/%s", file) < sizeof(path) - (size_t)n) {
        FILE *source = fopen(path, "r");
        if (source != NULL)
            return source;
    }
    return fopen(file, "r");
}

static void put_file(const char *file, FILE *out) {
    FILE *source = open_source(file);
    char *line = NULL;
    size_t room = 0;
    fprintf(out, "\n{\"name\":");
    put_text(file, out);
    fprintf(out, ",\"lines\":[");
    for (int i = 0; source != NULL && getline(&line, &room, source) >= 0; i++) {
        line[strcspn(line, "\n")] = '\0';
        fprintf(out, "%s", comma(i));
        put_text(line, out);
    }
    fprintf(out, "]}");
    free(line);
    if (source != NULL)
        fclose(source);
}

/* ---- what the verifier says ---- */

static int compare_leaves(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void put_value(const struct rehearsal *m, int32_t value, FILE *out) {
    int32_t leaves[SHOW_PAGE_RANKS];
    if (value == EXPR_NONE) {
        fputc('0', out);
        return;
    }
    int n = expr_list_leaves(&m->exprs, value, leaves, SHOW_PAGE_RANKS);
    qsort(leaves, (size_t)n, sizeof(*leaves), compare_leaves);
    fprintf(out, "[%d", expr_is_finish(&m->exprs, value));
    for (int i = 0; i < n; i++)
        fprintf(out, ",%d", leaves[i]);
    fputc(']', out);
}

/* The content of OUT of all ranks after a turn, as JSON. The next turn replaces it. */
struct holdings {
    char *text;
    size_t bytes;
};

static void keep_holdings(const struct rehearsal *m, int turn, void *context) {
    struct holdings *holdings = context;
    (void)turn;
    free(holdings->text);
    holdings->text = NULL;
    FILE *out = open_memstream(&holdings->text, &holdings->bytes);
    if (out == NULL)
        return;
    for (int member = 0; member < m->cast->nmembers; member++) {
        fprintf(out, "%s[", comma(member));
        for (int block = 0; block < m->nout; block++) {
            fprintf(out, "%s", comma(block));
            put_value(m, rehearsal_cell(m, 0, (struct rehearsal_place){member, STEP_OUT, block})->value, out);
        }
        fprintf(out, "]");
    }
    fclose(out);
}

static void put_verdicts(const struct html_page *page, int root, int nslots) {
    const struct algorithm *algorithm = page->cast->algorithm;
    struct holdings holdings = {NULL, 0};
    const struct rehearsal_watcher watcher = {keep_holdings, NULL, &holdings};
    char why[ERR_TEXT_BYTES];
    const struct rehearsal_rules rules = {.nslots = nslots, .watcher = &watcher};
    prog_check_by(algorithm, page->shape, root, &rules, why, sizeof why);
    fprintf(page->out, ",\n\"final\":[%s],\n\"verdicts\":[", holdings.text != NULL ? holdings.text : "");
    free(holdings.text);
    for (int k = 1; k <= SLOTS_TRIED; k++) {
        bool right = prog_check(algorithm, page->shape, root, k, false, why, sizeof why);
        fprintf(page->out, "%s", comma(k - 1));
        put_text(right ? "" : why, page->out);
    }
    fprintf(page->out, "]");
}

/* ---- the page ---- */

static void put_head(const struct html_page *page, int root, int nslots) {
    const struct algorithm *algorithm = page->cast->algorithm;
    const struct prog *prog = page->cast->members[0].prog;
    const struct prog_facts *facts = &prog_facts[algorithm->collective];
    const bool whole = facts->in == PROG_WHOLE || facts->out == PROG_WHOLE;
    FILE *out = page->out;
    fprintf(out, "{\"name\":\"%s_%s\",\"about\":", prog_collective_name(algorithm->collective), algorithm->name);
    put_text(algorithm->about, out);
    fprintf(out, ",\"nranks\":%d,\"root\":%d,\"rooted\":%s,\"slots\":%d,\"reduces\":%s,\"blocks\":[0,%d,%d,%d]",
            page->cast->nranks, root, facts->root != PROG_NO_ROOT ? "true" : "false", nslots,
            cast_reduces(page->cast) ? "true" : "false", prog_region_blocks(prog, STEP_IN),
            prog_region_blocks(prog, STEP_OUT), prog_region_blocks(prog, STEP_TMP));
    /* noun: the name of a block. single: IN is one block. swaps: each rank has a block for each rank, in IN and in OUT. */
    fprintf(out, ",\"noun\":\"%s\",\"single\":%s,\"swaps\":%s",
            prog_is_bare(algorithm->collective) ? "" : (whole ? "slice" : "block"),
            facts->in == PROG_SINGLE ? "true" : "false",
            !whole && facts->in != PROG_SINGLE && facts->out != PROG_SINGLE ? "true" : "false");
}

static void put_data(struct html_page *page, int root, int nslots) {
    put_head(page, root, nslots);
    put_ranks(page);
    put_verdicts(page, root, nslots);
    fprintf(page->out, ",\n\"files\":[");
    for (int i = 0; i < page->nfiles; i++) {
        fprintf(page->out, "%s", comma(i));
        put_file(page->files[i], page->out);
    }
    fprintf(page->out, "]}");
}

enum collet_result show_page_data(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                                  int nslots, FILE *out) {
    struct cast cast;
    if (shape->nranks > SHOW_PAGE_RANKS)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "a page shows up to %d ranks, not %d", SHOW_PAGE_RANKS,
                       shape->nranks);
    COLLET_TRY(cast_create(algorithm, shape, root, &cast));
    struct html_page page = {.cast = &cast, .shape = shape, .out = out};
    enum collet_result result = COLLET_SUCCESS;
    if (cast_connect(&cast, &page.conns))
        put_data(&page, root, nslots);
    else
        result = err_set(COLLET_ERR_NO_MEMORY, "no memory for the connections of %d ranks", shape->nranks);
    cast_disconnect(&page.conns);
    cast_destroy(&cast);
    return result;
}

enum collet_result show_page(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots,
                             FILE *out) {
    static const char mark[] = ">DATA<";
    const char *at = strstr(page_template, mark);
    char *data = NULL;
    size_t bytes = 0;
    FILE *text = open_memstream(&data, &bytes);
    if (text == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for a page");
    enum collet_result result = show_page_data(algorithm, shape, root, nslots, text);
    fclose(text);
    if (result == COLLET_SUCCESS)
        fprintf(out, "%.*s%s%s", (int)(at - page_template) + 1, page_template, data, at + sizeof(mark) - 2);
    free(data);
    return result;
}
