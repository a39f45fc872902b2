/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/common/arguments.h"

#include "base/err.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 32

static void use(const struct argument *argument) {
    if (argument->value != NULL)
        *argument->value = optarg;
    else
        *argument->flag = true;
}

int arguments_read(const struct argument *table, size_t n, int argc, char **argv) {
    struct option options[OPTIONS_MAX] = {0}; /* ends with zeros; val: the row, where letters cannot be */
    char letters[2 * OPTIONS_MAX] = "";
    size_t nletters = 0;
    int row, noptions = 0;
    for (size_t k = 0; k < n && k + 1 < OPTIONS_MAX; k++) {
        bool takes_value = table[k].value != NULL;
        if (table[k].name[1] != '\0') {
            options[noptions++] = (struct option){table[k].name, takes_value, NULL, 256 + (int)k};
        } else {
            letters[nletters++] = table[k].name[0];
            if (takes_value)
                letters[nletters++] = ':';
        }
    }
    while ((row = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        if (row == '?') {
            fprintf(stderr, "%s: --help shows what is understood\n", program_invocation_short_name);
            return -1;
        }
        for (size_t k = 0; k < n && row < 256; k++)
            if (table[k].name[0] == row && table[k].name[1] == '\0')
                row = 256 + (int)k;
        use(&table[row - 256]);
    }
    return optind;
}

bool argument_refuse(const char *name, const char *text, const char *wanted) {
    fprintf(stderr, "%s: %s is '%s': it must be %s\n", program_invocation_short_name, name, text, wanted);
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

bool argument_failed(const char *name, enum collet_result status) {
    if (status != COLLET_SUCCESS)
        fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, name, name[0] == '\0' ? "" : ": ", err_last());
    return status != COLLET_SUCCESS;
}

int argument_machine(const char *name, const char *file, const char *synthetic, struct topo **topo_p) {
    if (file != NULL && synthetic != NULL) {
        fprintf(stderr, "%s: %s and --synthetic both say what the machine is: give one of them\n",
                program_invocation_short_name, name);
        return EXIT_BAD_INPUT;
    }
    if (file != NULL)
        return argument_failed(name, topo_read_file(file, TOPO_RECORDED, topo_p)) ? EXIT_BAD_INPUT : 0;
    if (synthetic != NULL)
        return argument_failed("--synthetic", topo_synthetic(synthetic, topo_p)) ? EXIT_BAD_INPUT : 0;
    return argument_failed("", topo_probe(topo_p)) ? EXIT_FAILURE : 0;
}
