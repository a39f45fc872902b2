/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-prog: shows and verifies the step programs of collet's algorithms.
 */
#include "base/err.h"
#include "program/program.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: collet-prog [--check] [--slots K] <algorithm> <ranks> [--root R]\n"
    "       collet-prog --list\n"
    "\n"
    "  <algorithm>  collective_name as --list shows it, e.g. allreduce_ring\n"
    "  <ranks>      number of ranks, 1 or more\n"
    "  --root R     root of a broadcast or reduce, peer of a send or recv; 0 unless given\n"
    "  --check      verify instead of printing: exit 0 if verified, 1 if not\n"
    "  --slots K    verify with K slots a connection; 2 unless given\n"
    "  --list       all algorithms, with their limit of ranks and one line about each\n"
    "\n"
    "In a table: R receives, + reduces, ! stores to OUT, S sends; then the chunk. One row is one step.\n";

struct request {
    const char *algorithm, *ranks;
    const char *root, *slots; /* NULL: not given */
    bool check, list, help;
};

enum { EXIT_BAD_INPUT = 2 };

/* A whole number in min … max; false and a message that names the argument if it is none. */
static bool parse_number(const char *name, const char *text, int min, int max, int *number_p) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && number >= min && number <= max) {
        *number_p = (int)number;
        return true;
    }
    fprintf(stderr, "collet-prog: %s is '%s': it must be a whole number from %d to %d\n", name, text, min, max);
    return false;
}

static bool parse_arguments(int argc, char **argv, struct request *request) {
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strcmp(arg, "--list") == 0) {
            request->list = true;
        } else if (strcmp(arg, "--check") == 0) {
            request->check = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            request->help = true;
        } else if (strcmp(arg, "--root") == 0 || strcmp(arg, "--slots") == 0) {
            if (i + 1 == argc) {
                fprintf(stderr, "collet-prog: %s needs a number behind it\n", arg);
                return false;
            }
            *(strcmp(arg, "--root") == 0 ? &request->root : &request->slots) = argv[++i];
        } else if (arg[0] == '-') {
            fprintf(stderr, "collet-prog: unknown option '%s'; --help shows all\n", arg);
            return false;
        } else if (request->algorithm == NULL) {
            request->algorithm = arg;
        } else if (request->ranks == NULL) {
            request->ranks = arg;
        } else {
            fprintf(stderr, "collet-prog: '%s' is one argument too many; --help shows what is understood\n", arg);
            return false;
        }
    }
    return true;
}

static const struct algorithm *find_algorithm(const char *name) {
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        char full_name[64];
        snprintf(full_name, sizeof(full_name), "%s_%s", prog_collective_name(a->collective), a->name);
        if (strcmp(full_name, name) == 0)
            return a;
    }
    fprintf(stderr, "collet-prog: no algorithm is called '%s'; --list shows all\n", name);
    return NULL;
}

static int list(void) {
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        char full_name[64], limit[32] = "any number of ranks";
        snprintf(full_name, sizeof(full_name), "%s_%s", prog_collective_name(a->collective), a->name);
        if (a->max_ranks > 0)
            snprintf(limit, sizeof(limit), "up to %d ranks", a->max_ranks);
        printf("%-20s %-20s %s\n", full_name, limit, a->about);
    }
    return EXIT_SUCCESS;
}

/* Out of place and, where the collective knows it, in place. */
static int check(const struct algorithm *algorithm, int nranks, int root, int nslots) {
    char why[ERR_TEXT_BYTES];
    for (int in_place = 0; in_place < 2; in_place++)
        if (!prog_check(algorithm, nranks, root, nslots, in_place == 1, why, sizeof(why))) {
            printf("wrong%s: %s\n", in_place == 1 ? " in place" : "", why);
            return EXIT_FAILURE;
        }
    printf("verified: %s_%s, %d rank%s, root %d, %d slot%s a connection\n", prog_collective_name(algorithm->collective),
           algorithm->name, nranks, nranks == 1 ? "" : "s", root, nslots, nslots == 1 ? "" : "s");
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    struct request request = {0};
    int nranks, root = 0, nslots = 2;
    if (!parse_arguments(argc, argv, &request))
        return EXIT_BAD_INPUT;
    if (request.help) {
        fputs(usage, stdout);
        return EXIT_SUCCESS;
    }
    if (request.list)
        return list();
    if (request.algorithm == NULL || request.ranks == NULL) {
        fprintf(stderr, "collet-prog: %s is missing\n%s", request.algorithm == NULL ? "<algorithm>" : "<ranks>", usage);
        return EXIT_BAD_INPUT;
    }
    const struct algorithm *algorithm = find_algorithm(request.algorithm);
    if (algorithm == NULL)
        return EXIT_BAD_INPUT;
    int max_ranks = algorithm->max_ranks > 0 ? algorithm->max_ranks : 1 << 20;
    if (!parse_number("<ranks>", request.ranks, 1, max_ranks, &nranks) ||
        (request.root != NULL && !parse_number("--root", request.root, 0, nranks - 1, &root)) ||
        (request.slots != NULL && !parse_number("--slots", request.slots, 1, 1024, &nslots)))
        return EXIT_BAD_INPUT;
    if (request.check)
        return check(algorithm, nranks, root, nslots);
    if (prog_print(algorithm, nranks, root, stdout) != COLLET_SUCCESS) {
        fprintf(stderr, "collet-prog: %s\n", err_last());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
