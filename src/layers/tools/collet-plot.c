/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-plot: draws tables of perf programs as time against size. Each measured row is a dot. If the program ran with --predict 1, a line
 * goes through the times that the cost model predicts. collet-plot writes a script for gnuplot, and runs it.
 *
 *   all_reduce_perf --predict 1 … ────▶ text ─┬─▶ rows ──▶ series of one program, type, operator and root ──▶ gnuplot ──▶ SVG
 *   all_reduce_perf … -J table.json ──▶ JSON ─┘
 *
 * Only the times out of place are drawn.
 */
#include "layers/tools/common/arguments.h"
#include "layers/tools/common/sink.h"
#include "layers/tools/common/text.h"
#include "layers/tools/plot/walk.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SERIES_MAX = 16, POINTS_MAX = 256, FIELDS_MAX = 32, NAME_BYTES = 128 };

struct point {
    double bytes, measured_us, predicted_us; /* predicted_us 0: there is no prediction. */
};

struct series {
    char name[2 * NAME_BYTES];
    struct point points[POINTS_MAX];
    int npoints;
    bool predicted; /* At least one point has a prediction. */
};

struct plot {
    struct series series[SERIES_MAX];
    int nseries;
    bool full; /* There was no room for some row. */
    /* The rest describes the table that is being read. */
    char program[NAME_BYTES];
    int nranks, predicted_field; /* predicted_field 0: there is no such column. */
};

static const struct command command = {
    "[options] [FILE…]",
    "FILEs are the output of perf programs, or what their -J wrote; standard input unless given. For the curves run them with\n"
    "--predict 1.\n"};

/* ---------------------------------------------------------------------------------------------------------- reading */

/* A row of a table, in text or in JSON. */
struct row {
    double bytes, measured_us, predicted_us;
    char type[NAME_BYTES], op[NAME_BYTES];
    int root;
};

static struct series *series_named(struct plot *plot, const char *name) {
    for (int i = 0; i < plot->nseries; i++)
        if (strcmp(plot->series[i].name, name) == 0)
            return &plot->series[i];
    if (plot->nseries == SERIES_MAX)
        return NULL;
    struct series *series = &plot->series[plot->nseries++];
    snprintf(series->name, sizeof(series->name), "%s", name);
    return series;
}

/* Adds a row to its series. Rows without bytes are left out, because they have no place on a logarithmic axis. */
static void add_row(struct plot *plot, const struct row *row) {
    char name[2 * NAME_BYTES], root[24] = "";
    const bool reduces = strcmp(row->op, "none") != 0;
    if (row->bytes <= 0)
        return;
    if (row->root >= 0)
        snprintf(root, sizeof root, " from %d", row->root);
    snprintf(name, sizeof(name), "%.100s, %d ranks, %.40s%s%.40s%s", plot->program, plot->nranks, row->type,
             reduces ? " " : "", reduces ? row->op : "", root);
    struct series *series = series_named(plot, name);
    if (series == NULL || series->npoints == POINTS_MAX) {
        plot->full = true;
        return;
    }
    series->predicted |= row->predicted_us > 0;
    series->points[series->npoints++] = (struct point){row->bytes, row->measured_us, row->predicted_us};
}

/* ---- as text ---- */

/* Cuts the line into words. Returns how many there are. */
static int fields_of(char *line, char *fields[FIELDS_MAX]) {
    int n = 0;
    for (char *word = strtok(line, " \t\n"); word != NULL && n < FIELDS_MAX; word = strtok(NULL, " \t\n"))
        fields[n++] = word;
    return n;
}

/* Reads one comment line at the head of a table. It may name the program, a rank, or the columns. */
static void read_remark(struct plot *plot, char *line) {
    char *fields[FIELDS_MAX];
    if (sscanf(line, "# Collective test starting: %127s", plot->program) == 1)
        plot->nranks = plot->predicted_field = 0;
    plot->nranks += strncmp(line, "#  Rank ", 8) == 0;
    int n = fields_of(line, fields);
    for (int i = 1; i < n && n > 1 && strcmp(fields[1], "size") == 0; i++)
        if (strcmp(fields[i], "predict") == 0)
            plot->predicted_field = i - 1; /* The line of titles begins with a word of its own: #. */
}

static void read_row(struct plot *plot, char *line) {
    char *fields[FIELDS_MAX];
    struct row row = {.bytes = 0};
    int n = fields_of(line, fields);
    if (n < 9)
        return;
    row.bytes = atof(fields[0]);
    row.root = atoi(fields[4]);
    row.measured_us = atof(fields[5]);
    if (plot->predicted_field > 0 && plot->predicted_field < n)
        row.predicted_us = atof(fields[plot->predicted_field]);
    snprintf(row.type, sizeof row.type, "%s", fields[2]);
    snprintf(row.op, sizeof row.op, "%s", fields[3]);
    add_row(plot, &row);
}

static void read_lines(struct plot *plot, char *text) {
    for (char *line = text, *rest; line != NULL && *line != '\0'; line = rest) {
        rest = strchr(line, '\n');
        if (rest != NULL)
            *rest++ = '\0';
        (line[0] == '#' ? read_remark : read_row)(plot, line);
    }
}

/* ---- as JSON, which -J has written ---- */

struct json_table {
    struct plot *plot;
    struct row row;
};

static bool is_path(const char *path, const char *wanted) { return strcmp(path, wanted) == 0; }

static void take_value(void *context, const char *path, const char *text) {
    struct json_table *table = context;
    struct row *row = &table->row;
    if (is_path(path, ".args[]") && table->plot->program[0] == '\0')
        snprintf(table->plot->program, NAME_BYTES, "%.127s",
                 strrchr(text, '/') != NULL ? strrchr(text, '/') + 1 : text);
    else if (is_path(path, ".config.devices[].rank"))
        table->plot->nranks++;
    else if (is_path(path, ".results[].size"))
        row->bytes = atof(text);
    else if (is_path(path, ".results[].type"))
        snprintf(row->type, sizeof row->type, "%.127s", text);
    else if (is_path(path, ".results[].redop"))
        snprintf(row->op, sizeof row->op, "%.127s", text);
    else if (is_path(path, ".results[].root"))
        row->root = atoi(text);
    else if (is_path(path, ".results[].out_of_place.time") || is_path(path, ".results[].out_of_place.cpu_time"))
        row->measured_us = atof(text);
    else if (is_path(path, ".results[].predicted_us"))
        row->predicted_us = atof(text);
}

static void take_end(void *context, const char *path) {
    struct json_table *table = context;
    if (!is_path(path, ".results[]"))
        return;
    add_row(table->plot, &table->row);
    table->row = (struct row){.bytes = 0};
}

static bool read_json(struct plot *plot, const char *text) {
    struct json_table table = {.plot = plot};
    plot->program[0] = '\0';
    plot->nranks = 0;
    return walk_json(text, &(struct walk_listener){take_value, take_end, &table});
}

/* ---- files ---- */

/* False: a message was printed. */
static bool read_file(struct plot *plot, FILE *file, const char *path) {
    char *text = text_read(file);
    bool good = text != NULL;
    if (!good)
        argument_refuse("FILE", path, "a file that can be read");
    else if (text[strspn(text, " \t\r\n")] == '{')
        good = read_json(plot, text) ||
               argument_refuse("FILE", path, "the output of a perf program, or what its -J wrote");
    else
        read_lines(plot, text);
    if (plot->full)
        fprintf(stderr, "collet-plot: more than %d series of %d rows; give fewer\n", SERIES_MAX, POINTS_MAX);
    free(text);
    return good && !plot->full;
}

static bool read_files(struct plot *plot, char **paths, int npaths) {
    if (npaths == 0)
        return read_file(plot, stdin, "-");
    for (int i = 0; i < npaths; i++) {
        FILE *file = fopen(paths[i], "r");
        const bool good = read_file(plot, file, paths[i]);
        if (file != NULL)
            fclose(file);
        if (!good)
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------------------- drawing */

/* Writes a block of data per series: bytes, measured µs and predicted µs. */
static void write_data(FILE *out, const struct series *series, int number) {
    fprintf(out, "$series%d << END\n", number);
    for (const struct point *p = series->points; p < series->points + series->npoints; p++)
        fprintf(out, "%.0f %g %g\n", p->bytes, p->measured_us, p->predicted_us);
    fprintf(out, "END\n");
}

/* Writes a text that comes from a file. Characters that gnuplot would interpret become spaces. */
static void write_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++)
        fputc(strchr("\"\\`$@", *text) || (unsigned char)*text < ' ' ? ' ' : *text, out);
    fputc('"', out);
}

static void write_script(FILE *out, const struct plot *plot, const char *path) {
    for (int i = 0; i < plot->nseries; i++)
        write_data(out, &plot->series[i], i);
    fprintf(out, "set terminal svg size 900,560 dynamic font 'sans,14' background 'white'\n");
    if (strcmp(path, "-") != 0) {
        fprintf(out, "set output ");
        write_text(out, path);
        fprintf(out, "\n");
    }
    fprintf(out, "set logscale x 2\nset logscale y 10\nset format x '%%.0b%%B'\n"
                 "set xlabel 'bytes'\nset ylabel 'time in µs'\nset key left top noenhanced\nset grid\nplot");
    for (int i = 0; i < plot->nseries; i++) {
        fprintf(out, "%s $series%d using 1:2 with points pointtype 7 linecolor %d title ", i ? "," : "", i, i + 1);
        write_text(out, plot->series[i].name);
        if (plot->series[i].predicted)
            fprintf(out, ", $series%d using 1:($3 > 0 ? $3 : NaN) with lines linecolor %d title 'predicted'", i, i + 1);
    }
    fprintf(out, "\n");
}

static int draw(const struct plot *plot, const char *path) {
    enum { NO_SUCH_COMMAND = 127 };
    signal(SIGPIPE, SIG_IGN); /* The exit status of gnuplot says more than SIGPIPE. */
    FILE *gnuplot = popen("command -v gnuplot >/dev/null || exit 127; exec gnuplot", "w");
    if (gnuplot == NULL) {
        perror("collet-plot: cannot start a shell");
        return EXIT_FAILURE;
    }
    write_script(gnuplot, plot, path);
    int status = pclose(gnuplot);
    if (status >> 8 == NO_SUCH_COMMAND)
        fprintf(stderr, "collet-plot: gnuplot is not installed: apt-get install gnuplot-nox, or see --script\n");
    else if (status != 0)
        fprintf(stderr, "collet-plot: gnuplot failed, see above\n");
    else if (strcmp(path, "-") != 0)
        sink_wrote(path);
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    static struct plot plot;
    const char *output = isatty(STDOUT_FILENO) ? "collet.svg" : "-";
    bool script = false;
    const struct argument table[] = {
        {"output", 'o', "FILE", &output, NULL,
         "the SVG; - is standard output, also if that is no terminal; else collet.svg"},
        ARGUMENT_FLAG("script", &script, "prints what gnuplot would get, and does not run it"),
    };
    int first = arguments_read(&command, table, sizeof table / sizeof *table, argc, argv);
    if (!read_files(&plot, argv + first, argc - first))
        return EXIT_BAD_INPUT;
    if (plot.nseries == 0) {
        fprintf(stderr, "collet-plot: no rows of a perf program with at least one byte\n");
        return EXIT_BAD_INPUT;
    }
    if (!script)
        return draw(&plot, output);
    write_script(stdout, &plot, output);
    return EXIT_SUCCESS;
}
