/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-prog: shows and verifies the step programs of collet's algorithms.
 */
#include "base/err.h"
#include "program/program.h"
#include "tools/common/arguments.h"

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

static bool parse_arguments(int argc, char **argv, struct request *request) {
    const struct argument table[] = {
        {"nodes", &request->nodes, NULL}, {"root", &request->root, NULL}, {"slots", &request->slots, NULL},
        {"check", NULL, &request->check}, {"list", NULL, &request->list}, {"help", NULL, &request->help},
        {"h", NULL, &request->help},
    };
    int rest = arguments_read(table, sizeof table / sizeof *table, argc, argv);
    if (rest >= 0 && argc - rest > 2)
        return argument_refuse("an argument", argv[rest + 2], "left out, it is one too many");
    request->algorithm = rest >= 0 && argc > rest ? argv[rest] : NULL;
    request->ranks = rest >= 0 && argc > rest + 1 ? argv[rest + 1] : NULL;
    return rest >= 0;
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
    int nranks = 1, nnodes = 1, root = 0, nslots = 2;
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
    if (!argument_number("<ranks>", request.ranks, 1, 1 << 20, &nranks) ||
        !argument_number("--nodes", request.nodes, 1, nranks, &nnodes) ||
        !argument_number("--root", request.root, 0, nranks - 1, &root) ||
        !argument_number("--slots", request.slots, 1, 1024, &nslots))
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
