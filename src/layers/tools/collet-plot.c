/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-plot: draws what perf programs have printed: time against size, a dot for each measured row, and a line through the
 * times that the cost model predicts, where the program ran with --predict 1. It writes a script for gnuplot, and runs it.
 *
 *   all_reduce_perf --predict 1 … ──▶ rows ──▶ series of one program, type, operator and root ──▶ gnuplot ──▶ SVG
 *
 * Of each row the time out of place counts.
 */
#include "layers/tools/common/arguments.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERIES_MAX = 16, POINTS_MAX = 256, FIELDS_MAX = 32, NAME_BYTES = 128 };

struct point {
    double bytes, measured_us, predicted_us; /* predicted_us 0: not known */
};

struct series {
    char name[2 * NAME_BYTES];
    struct point points[POINTS_MAX];
    int npoints;
    bool predicted; /* at least one of them */
};

struct plot {
    struct series series[SERIES_MAX];
    int nseries;
    /* Of the table that is being read: */
    char program[NAME_BYTES];
    int nranks, predicted_field; /* 0: there is no such column */
};

static const struct command command = {
    "[options] [FILE…]",
    "FILEs are the output of perf programs; standard input unless given. For the curves run them with --predict 1.\n"};

/* ---------------------------------------------------------------------------------------------------------- reading */

/* Cuts the line into words; returns how many. */
static int fields_of(char *line, char *fields[FIELDS_MAX]) {
    int n = 0;
    for (char *word = strtok(line, " \t\n"); word != NULL && n < FIELDS_MAX; word = strtok(NULL, " \t\n"))
        fields[n++] = word;
    return n;
}

/* The table's head says who measured, on how many ranks, and which column has predictions. */
static void read_remark(struct plot *plot, char *line) {
    char *fields[FIELDS_MAX];
    if (sscanf(line, "# Collective test starting: %127s", plot->program) == 1)
        plot->nranks = plot->predicted_field = 0;
    plot->nranks += strncmp(line, "#  Rank ", 8) == 0;
    int n = fields_of(line, fields);
    for (int i = 1; i < n && n > 1 && strcmp(fields[1], "size") == 0; i++)
        if (strcmp(fields[i], "predict") == 0)
            plot->predicted_field = i - 1; /* the line of titles begins with a word of its own, # */
}

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

/* False, after a message, if the plot is full. Rows without bytes have no place on a logarithmic axis. */
static bool read_row(struct plot *plot, char *line) {
    char *fields[FIELDS_MAX], name[2 * NAME_BYTES];
    int n = fields_of(line, fields);
    if (n < 9 || atof(fields[0]) <= 0)
        return true;
    snprintf(name, sizeof(name), "%s, %d ranks, %s%s%s%s%s", plot->program, plot->nranks, fields[2],
             strcmp(fields[3], "none") ? " " : "", strcmp(fields[3], "none") ? fields[3] : "",
             strcmp(fields[4], "-1") ? " from " : "", strcmp(fields[4], "-1") ? fields[4] : "");
    struct series *series = series_named(plot, name);
    if (series == NULL || series->npoints == POINTS_MAX) {
        fprintf(stderr, "collet-plot: more than %d series of %d rows; give fewer\n", SERIES_MAX, POINTS_MAX);
        return false;
    }
    double predicted = plot->predicted_field > 0 && plot->predicted_field < n ? atof(fields[plot->predicted_field]) : 0;
    series->predicted |= predicted > 0;
    series->points[series->npoints++] = (struct point){atof(fields[0]), atof(fields[5]), predicted};
    return true;
}

static bool read_tables(struct plot *plot, FILE *file) {
    char line[1024];
    while (fgets(line, sizeof(line), file)) {
        if (line[0] == '#')
            read_remark(plot, line);
        else if (!read_row(plot, line))
            return false;
    }
    return true;
}

static bool read_files(struct plot *plot, char **paths, int npaths) {
    if (npaths == 0)
        return read_tables(plot, stdin);
    for (int i = 0; i < npaths; i++) {
        FILE *file = fopen(paths[i], "r");
        if (file == NULL)
            return argument_refuse("FILE", paths[i], "a file that can be read");
        bool all = read_tables(plot, file);
        fclose(file);
        if (!all)
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------------------- drawing */

/* One block of data per series: bytes, measured and predicted µs. */
static void write_data(FILE *out, const struct series *series, int number) {
    fprintf(out, "$series%d << END\n", number);
    for (const struct point *p = series->points; p < series->points + series->npoints; p++)
        fprintf(out, "%.0f %g %g\n", p->bytes, p->measured_us, p->predicted_us);
    fprintf(out, "END\n");
}

/* Text comes from files: what gnuplot would read as more than text becomes a space. */
static void write_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text; text++)
        fputc(strchr("\"\\`$@", *text) || (unsigned char)*text < ' ' ? ' ' : *text, out);
    fputc('"', out);
}

static void write_script(FILE *out, const struct plot *plot, const char *path) {
    for (int i = 0; i < plot->nseries; i++)
        write_data(out, &plot->series[i], i);
    fprintf(out, "set terminal svg size 900,560 dynamic font 'sans,14' background 'white'\nset output ");
    write_text(out, path);
    fprintf(out, "\nset logscale x 2\nset logscale y 10\nset format x '%%.0b%%B'\n"
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
    signal(SIGPIPE, SIG_IGN); /* its exit status says more */
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
    return status == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    static struct plot plot;
    const char *output = "collet.svg";
    bool script = false;
    const struct argument table[] = {
        ARGUMENT_VALUE("output", "FILE", &output, "the SVG; collet.svg unless given"),
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
