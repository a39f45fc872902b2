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
    "usage: collet-prog [--check] [--slots K] <algorithm> <ranks> [--nodes N] [--root R]\n"
    "       collet-prog --list\n"
    "\n"
    "  <algorithm>  collective_name as --list shows it, e.g. allreduce_ring\n"
    "  <ranks>      number of ranks, 1 or more\n"
    "  --nodes N    the ranks are dealt in order to N nodes, as evenly as it goes; 1 unless given\n"
    "  --root R     root of a broadcast or reduce, peer of a send or recv; 0 unless given\n"
    "  --check      verify instead of printing: exit 0 if verified, 1 if not\n"
    "  --slots K    verify with K slots a connection; 2 unless given\n"
    "  --list       all algorithms, with what they take and one line about each\n"
    "\n"
    "In a table: R receives, + reduces, ! stores to OUT, S sends; then the chunk. One row is one step.\n";

struct request {
    const char *algorithm, *ranks;
    const char *nodes, *root, *slots; /* NULL: not given */
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

/* Where the value of an option belongs; NULL if it is none that takes a value. */
static const char **value_of(struct request *request, const char *option) {
    return strcmp(option, "--nodes") == 0   ? &request->nodes
           : strcmp(option, "--root") == 0  ? &request->root
           : strcmp(option, "--slots") == 0 ? &request->slots
                                            : NULL;
}

static bool parse_arguments(int argc, char **argv, struct request *request) {
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], **value = value_of(request, arg);
        if (strcmp(arg, "--list") == 0) {
            request->list = true;
        } else if (strcmp(arg, "--check") == 0) {
            request->check = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            request->help = true;
        } else if (value != NULL) {
            if (i + 1 == argc) {
                fprintf(stderr, "collet-prog: %s needs a number behind it\n", arg);
                return false;
            }
            *value = argv[++i];
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
        char full_name[64];
        snprintf(full_name, sizeof(full_name), "%s_%s", prog_collective_name(a->collective), a->name);
        printf("%-21s %-46s %s\n", full_name, a->where, a->about);
    }
    return EXIT_SUCCESS;
}

/* The ranks in order on nnodes nodes, whose sizes differ by one if it does not come out even. */
static enum collet_result deal(int nranks, int nnodes, struct prog_shape *shape) {
    int *node_of = malloc((size_t)nranks * sizeof(*node_of));
    if (node_of == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
    for (int rank = 0; rank < nranks; rank++)
        node_of[rank] = (int)((int64_t)rank * nnodes / nranks);
    enum collet_result result = prog_shape_init(shape, nranks, node_of);
    free(node_of);
    return result;
}

/* Out of place and, where the collective knows it, in place. */
static int check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots) {
    char why[ERR_TEXT_BYTES];
    for (int in_place = 0; in_place < 2; in_place++)
        if (!prog_check(algorithm, shape, root, nslots, in_place == 1, why, sizeof(why))) {
            printf("wrong%s: %s\n", in_place == 1 ? " in place" : "", why);
            return EXIT_FAILURE;
        }
    char nodes[32] = "";
    if (shape->nnodes > 1)
        snprintf(nodes, sizeof(nodes), " on %d nodes", shape->nnodes);
    printf("verified: %s_%s, %d rank%s%s, root %d, %d slot%s a connection\n",
           prog_collective_name(algorithm->collective), algorithm->name, shape->nranks, shape->nranks == 1 ? "" : "s",
           nodes, root, nslots, nslots == 1 ? "" : "s");
    return EXIT_SUCCESS;
}

static int print(const struct algorithm *algorithm, const struct prog_shape *shape, int root) {
    if (prog_print(algorithm, shape, root, stdout) == COLLET_SUCCESS)
        return EXIT_SUCCESS;
    fprintf(stderr, "collet-prog: %s\n", err_last());
    return EXIT_FAILURE;
}

int main(int argc, char **argv) {
    struct request request = {0};
    int nranks, nnodes = 1, root = 0, nslots = 2;
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
    if (!parse_number("<ranks>", request.ranks, 1, 1 << 20, &nranks) ||
        (request.nodes != NULL && !parse_number("--nodes", request.nodes, 1, nranks, &nnodes)) ||
        (request.root != NULL && !parse_number("--root", request.root, 0, nranks - 1, &root)) ||
        (request.slots != NULL && !parse_number("--slots", request.slots, 1, 1024, &nslots)))
        return EXIT_BAD_INPUT;
    struct prog_shape shape;
    if (deal(nranks, nnodes, &shape) != COLLET_SUCCESS) {
        fprintf(stderr, "collet-prog: %s\n", err_last());
        return EXIT_FAILURE;
    }
    if (!algorithm_applies(algorithm, &shape)) {
        fprintf(stderr, "collet-prog: %s takes %s, not %d rank(s) on %d node(s); --nodes says on how many they are\n",
                request.algorithm, algorithm->where, nranks, nnodes);
        prog_shape_fini(&shape);
        return EXIT_BAD_INPUT;
    }
    int status = request.check ? check(algorithm, &shape, root, nslots) : print(algorithm, &shape, root);
    prog_shape_fini(&shape);
    return status;
}
