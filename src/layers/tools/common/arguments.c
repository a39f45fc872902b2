/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/common/arguments.h"

#include "base/spelling.h"
#include "collet.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* getopt_long() returns a letter, or one of these numbers, which are above all letters. Rows of the table have numbers from FIRST_ROW on. */
enum { OPTIONS_MAX = 64, HELP = 256, VERSION, FIRST_ROW = 1000 };

static int option_width(const struct argument *a) {
    return (int)(strlen("-x, --") + strlen(a->name) + (a->meta != NULL ? 1 + strlen(a->meta) : 0));
}

static void print_option(const struct argument *a, int width) {
    char left[80], letter[5] = "    ";
    if (a->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", a->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, a->name, a->meta ? " " : "", a->meta ? a->meta : "");
    for (const char *line = a->help; line != NULL; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        printf("  %-*s  %.*s\n", width, line == a->help ? left : "", (int)strcspn(line, "\n"), line);
}

static void print_help(const struct command *command, const struct argument *table, size_t n) {
    static const struct argument last[] = {{"help", 'h', NULL, NULL, NULL, "this text"},
                                           {"version", 0, NULL, NULL, NULL, "the version of collet"}};
    int width = option_width(&last[0]);
    for (size_t k = 0; k < n; k++)
        if (option_width(&table[k]) > width)
            width = option_width(&table[k]);
    printf("usage: %s %s\n\n", program_invocation_short_name, command->usage);
    for (size_t k = 0; k < n; k++)
        print_option(&table[k], width);
    for (size_t k = 0; k < sizeof last / sizeof *last; k++)
        print_option(&last[k], width);
    if (command->about != NULL)
        printf("\n%s", command->about);
}

static void note(const struct argument *argument) {
    if (argument->meta != NULL)
        *argument->value = optarg;
    else
        *argument->flag = true;
}

/* Adds a hint to getopt's message, because an unknown option may be similar to a known one. Ends the program. */
static void refuse_option(const struct argument *table, size_t n, const char *text) {
    char option[SPELLING_WORD_MAX + 1], known[SPELLING_WORD_MAX + 1];
    struct spelling spelling = {option, SPELLING_FAR, ""};
    snprintf(option, sizeof option, "%.*s", (int)strcspn(text, "="), text);
    for (size_t k = 0; k < n && strncmp(option, "--", 2) == 0; k++) {
        snprintf(known, sizeof known, "--%s", table[k].name);
        spelling_offer(&spelling, known);
    }
    fprintf(stderr, "%s: --help shows what is understood%s\n", program_invocation_short_name,
            spelling.distance > 0 ? spelling.hint : ""); /* Distance 0: the option is known, but lacks its value. */
    exit(EXIT_BAD_INPUT);
}

static const struct argument *with_letter(const struct argument *table, int letter) {
    while (table->letter != letter)
        table++;
    return table;
}

int arguments_read(const struct command *command, const struct argument *table, size_t n, int argc, char **argv) {
    struct option options[OPTIONS_MAX + 3] = {{"help", no_argument, NULL, HELP},
                                              {"version", no_argument, NULL, VERSION}};
    char letters[2 * OPTIONS_MAX + 2] = "h";
    for (size_t k = 0; k < n && k < OPTIONS_MAX; k++) {
        options[k + 2] = (struct option){table[k].name, table[k].meta != NULL, NULL, FIRST_ROW + (int)k};
        if (table[k].letter != 0)
            snprintf(letters + strlen(letters), 3, "%c%s", table[k].letter, table[k].meta != NULL ? ":" : "");
    }
    for (int option; (option = getopt_long(argc, argv, letters, options, NULL)) != -1;) {
        if (option == HELP || option == 'h') {
            print_help(command, table, n);
            exit(EXIT_SUCCESS);
        }
        if (option == VERSION) {
            printf("%s (collet) %d.%d.%d\n", program_invocation_short_name, COLLET_MAJOR, COLLET_MINOR, COLLET_PATCH);
            exit(EXIT_SUCCESS);
        }
        if (option == '?')
            refuse_option(table, n, argv[optind - 1]);
        note(option >= FIRST_ROW ? &table[option - FIRST_ROW] : with_letter(table, option));
    }
    return optind;
}

void arguments_read_options(const struct command *command, const struct argument *table, size_t n, int argc,
                            char **argv) {
    int rest = arguments_read(command, table, n, argc, argv);
    if (rest == argc)
        return;
    (void)argument_refuse("an argument", argv[rest], "an option that --help shows");
    exit(EXIT_BAD_INPUT);
}

bool argument_refuse(const char *name, const char *text, const char *wanted) {
    fprintf(stderr, "%s: %s is '%s': it must be %s\n", program_invocation_short_name, name, text, wanted);
    return false;
}

bool argument_refuse_name(const char *name, const struct spelling *spelling, const char *wanted) {
    fprintf(stderr, "%s: %s is '%s': it must be %s%s\n", program_invocation_short_name, name, spelling->word, wanted,
            spelling->hint);
    return false;
}

bool argument_number(const char *name, const char *text, int min, int max, int *number_p) {
    char *end, wanted[64];
    if (text == NULL)
        return true;
    errno = 0;
    long number = strtol(text, &end, 10);
    snprintf(wanted, sizeof wanted, "a whole number from %d to %d", min, max);
    if (errno != 0 || end == text || *end != '\0' || number < min || number > max)
        return argument_refuse(name, text, wanted);
    *number_p = (int)number;
    return true;
}
