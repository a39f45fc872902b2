/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-prog: shows and verifies the step programs of collet's algorithms.
 */
#include "base/err.h"
#include "base/spelling.h"
#include "layers/schedules/import.h"
#include "layers/tools/common/machine.h"
#include "layers/tools/common/sink.h"
#include "layers/tools/common/text.h"
#include "layers/tools/lines/call.h"
#include "layers/tools/prog/script.h"
#include "layers/tools/prog/show.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command command = {
    "[options] <algorithm> <ranks>\n"
    "       collet-prog --import FILE.xml [options]\n"
    "       collet-prog --list\n"
    "       collet-prog --geometry [options] <count> <type>\n"
    "\n"
    "  <algorithm>  collective_name as --list shows it, e.g. allreduce_ring\n"
    "  <ranks>      number of ranks, 1 or more\n"
    "  <count>      elements of a buffer; <type> is float, half …: how slices, channels and rounds cut the buffer",
    "In a table: R receives, + reduces, ! stores to OUT, S sends; then the blocks. One row is one step.\n"
    "With --peers: <3 receives from rank 3, >1 sends to rank 1. With --loans: L is an S whose peers may read the data\n"
    "in this rank's IN or OUT, so that it is not copied into a slot. E is a ! whose peer may put the block into OUT early:\n"
    "no other step of this rank touches it.\n"
    "With --chains: 0 > 1 > 0 is a ring. A tree is indented: < a child sends to its parent, > the parent to it.\n"
    "With --trace: in one turn every worker that can does one step (w2:0 is step 0 of worker 2). r1+r2 is the sum of\n"
    "what ranks 1 and 2 contribute, =r0+r1+r2 one that is finished; r2[3] is block 3 of rank 2 where another belongs;\n"
    "<1 4:r1 arrived from rank 1 and was not read yet: block 4 of it.\n"};

struct prog_request {
    const char *algorithm, *ranks;
    const char *nodes, *root, *slots, *import; /* NULL: not given */
    const char *edited, *output;               /* Names of files. NULL: not given. */
    bool check, list, trace, chains, dot, html, geometry, text, lines;
    struct show_cells cells;
    const char *buffer_ranks;       /* Number of ranks of --geometry. NULL: not given. */
    struct lines_call_request call; /* The call of --lines. --geometry uses its channels and chunk. */
};

static bool refuse_missing(const struct prog_request *request) {
    fprintf(stderr, "collet-prog: %s is missing; --help shows what is understood\n",
            request->geometry            ? "<count> or <type>"
            : request->algorithm == NULL ? "<algorithm>"
                                         : "<ranks>");
    return false;
}

static bool parse_arguments(int argc, char **argv, struct prog_request *request) {
    const struct argument table[] = {
        ARGUMENT_VALUE("nodes", "N", &request->nodes,
                       "the ranks are dealt in order to N nodes, as evenly as possible; 1 unless given"),
        ARGUMENT_VALUE("root", "R", &request->root,
                       "root of a broadcast, reduce, gather or scatter, peer of a send or recv; 0 unless given"),
        ARGUMENT_FLAG("peers", &request->cells.peers, "the table names with whom each step exchanges"),
        ARGUMENT_FLAG("loans", &request->cells.loans,
                      "the table says which steps lend what they send, and which blocks may land early"),
        ARGUMENT_FLAG("chains", &request->chains, "who sends to whom: the rings, chains and trees of each lane"),
        ARGUMENT_FLAG("dot", &request->dot, "the connections as Graphviz: collet-prog --dot … | dot -Tsvg"),
        ARGUMENT_FLAG(
            "html", &request->html,
            "a page of HTML for a browser, which runs the programs step by step: collet-prog --html … -o page.html"),
        ARGUMENT_FLAG("text", &request->text, "the programs as text that can be changed"),
        ARGUMENT_VALUE("edited", "FILE", &request->edited,
                       "the programs in this text instead of the algorithm's: verified, then shown"),
        ARGUMENT_FLAG("check", &request->check, "verify instead of printing: exit 0 if verified, 1 if not"),
        ARGUMENT_FLAG("trace", &request->trace, "verify, and show turn by turn what each rank holds in one round"),
        ARGUMENT_VALUE("slots", "K", &request->slots,
                       "verify, or animate, with K slots per connection; 2 unless given"),
        ARGUMENT_FLAG("geometry", &request->geometry, "from a buffer to a piece in a slot, with numbers"),
        ARGUMENT_VALUE("ranks", "N", &request->buffer_ranks, "of --geometry: slices, one per rank; 4 unless given"),
        ARGUMENT_FLAG(
            "lines", &request->lines,
            "how many cache lines and bytes each rank reads and writes in a call, if all ranks are on one host"),
        LINES_CALL_OPTIONS(&request->call),
        ARGUMENT_VALUE("import", "FILE", &request->import,
                       "the algorithm of an MSCCL-style XML file: verified, then shown; COLLET_PROGRAM=FILE runs it"),
        ARGUMENT_FLAG("list", &request->list, "all algorithms, with what they take and one line about each"),
        ARGUMENT_OUTPUT(&request->output),
    };
    int rest = arguments_read(&command, table, sizeof table / sizeof *table, argc, argv);
    if (argc - rest > 2)
        return argument_refuse("an argument", argv[rest + 2], "left out, it is one too many");
    request->algorithm = argc > rest ? argv[rest] : NULL;
    request->ranks = argc > rest + 1 ? argv[rest + 1] : NULL;
    return argc - rest == (request->import != NULL ? 0 : 2) || request->list || refuse_missing(request);
}

static const struct algorithm *find_algorithm(const char *name) {
    struct spelling spelling = {name, SPELLING_FAR, ""};
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        char full_name[64];
        snprintf(full_name, sizeof(full_name), "%s_%s", prog_collective_name(a->collective), a->name);
        if (strcmp(full_name, name) == 0)
            return a;
        spelling_offer(&spelling, full_name);
    }
    fprintf(stderr, "collet-prog: no algorithm is called '%s'; --list shows all%s\n", name, spelling.hint);
    return NULL;
}

static int list(void) {
    static const char *const orders[] = {
        [PROG_ANY_ORDER] = "",
        [PROG_IN_RANK_ORDER] = "; sums in rank order",
        [PROG_SWITCH_ORDER] = "; sums in rank order or a switch's",
    };
    for (const struct algorithm *a = algorithms; a->name != NULL; a++) {
        char full_name[64];
        snprintf(full_name, sizeof(full_name), "%s_%s", prog_collective_name(a->collective), a->name);
        printf("%-21s %-46s %s%s\n", full_name, a->where, a->about, orders[a->order]);
    }
    return EXIT_SUCCESS;
}

static int print_geometry(const struct prog_request *request) {
    int count = 0, nranks = 4, nchannels = 2, chunk = 65536;
    enum collet_type type = COLLET_FLOAT32;
    if (!argument_type("<type>", request->ranks, &type))
        return EXIT_BAD_INPUT;
    uint32_t elem_bytes = (uint32_t)collet_type_size(type);
    if (!argument_number("<count>", request->algorithm, 0, INT32_MAX, &count) ||
        !argument_number("--ranks", request->buffer_ranks, 1, 1 << 20, &nranks) ||
        !argument_number("--channels", request->call.channels, 1, 64, &nchannels) ||
        !argument_number("--chunk", request->call.chunk, (int)elem_bytes, 1 << 30, &chunk))
        return EXIT_BAD_INPUT;
    show_geometry((uint64_t)count, elem_bytes, (uint32_t)nranks, (uint32_t)nchannels, (uint32_t)chunk, stdout);
    return EXIT_SUCCESS;
}

/* Deals the ranks to nnodes nodes, in order. The sizes of nodes differ by at most one. */
static enum collet_result deal(int nranks, int nnodes, struct prog_shape *shape) {
    int *node_of = malloc((size_t)nranks * sizeof(*node_of));
    if (node_of == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
    for (int rank = 0; rank < nranks; rank++)
        node_of[rank] = (int)((int64_t)rank * nnodes / nranks);
    enum collet_result result = prog_shape_init(shape, nranks, node_of, NULL);
    free(node_of);
    return result;
}

/* Verifies the algorithm out of place, and in place if the collective allows it. `turns`: also shows the turns, out of place. */
static int check(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots, bool turns) {
    char why[ERR_TEXT_BYTES];
    for (int in_place = 0; in_place < 2; in_place++)
        if (!show_check(algorithm, shape, root, nslots, in_place == 1, turns && in_place == 0, stdout, why,
                        sizeof(why))) {
            printf("wrong%s: %s\n", in_place == 1 ? " in place" : "", why);
            return EXIT_FAILURE;
        }
    char nodes[32] = "";
    if (shape->nnodes > 1)
        snprintf(nodes, sizeof(nodes), " on %d nodes", shape->nnodes);
    printf("verified: %s_%s, %d rank%s%s, root %d, %d slot%s per connection\n",
           prog_collective_name(algorithm->collective), algorithm->name, shape->nranks, shape->nranks == 1 ? "" : "s",
           nodes, root, nslots, nslots == 1 ? "" : "s");
    return EXIT_SUCCESS;
}

/* Explains the table to a person at a terminal. Pipes, files and pages get the table alone. */
static void print_legend(struct show_cells cells) {
    if (!isatty(STDOUT_FILENO))
        return;
    printf("\nOne row is one step: R receives, + reduces, ! stores to OUT, S sends; then the blocks.%s%s\n",
           cells.peers ? " <3 receives from rank 3, >1 sends to rank 1." : "",
           cells.loans ? " L sends what peers may read here, E stores what a peer may put here early." : "");
}

static int print(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                 const struct prog_request *request) {
    struct cast cast;
    enum collet_result result = cast_create(algorithm, shape, root, &cast);
    if (result == COLLET_SUCCESS && request->text)
        script_print(&cast, stdout);
    else if (result == COLLET_SUCCESS)
        result = request->chains || request->dot ? show_chains(&cast, shape, request->dot, stdout)
                                                 : show_steps(&cast, request->cells, stdout);
    if (result == COLLET_SUCCESS && !request->text && !request->chains && !request->dot)
        print_legend(request->cells);
    cast_destroy(&cast);
    if (result == COLLET_SUCCESS)
        return EXIT_SUCCESS;
    fprintf(stderr, "collet-prog: %s\n", err_last());
    return EXIT_FAILURE;
}

static int print_lines(const struct algorithm *algorithm, const struct prog_shape *shape, int root,
                       const struct prog_request *request) {
    int nranks = 0;
    struct cast cast;
    struct lines_call call;
    if (shape->nnodes > 1)
        return argument_refuse("--nodes", request->nodes, "left out: --lines is about ranks of one host"),
               EXIT_BAD_INPUT;
    if (!argument_number("<ranks> with --lines", request->ranks, 1, LINES_RANKS_MAX, &nranks))
        return EXIT_BAD_INPUT;
    if (argument_failed("", cast_create(algorithm, shape, root, &cast)))
        return EXIT_FAILURE;
    int status = lines_call_read(&request->call, &cast, &call) ? EXIT_SUCCESS : EXIT_BAD_INPUT;
    if (status == EXIT_SUCCESS && argument_failed("", lines_show(&cast, &call, stdout)))
        status = EXIT_FAILURE;
    cast_destroy(&cast);
    return status;
}

static int page(const struct algorithm *algorithm, const struct prog_shape *shape, int root, int nslots) {
    if (show_page(algorithm, shape, root, nslots, stdout) == COLLET_SUCCESS)
        return EXIT_SUCCESS;
    fprintf(stderr, "collet-prog: %s\n", err_last());
    return EXIT_FAILURE;
}

/* Reads a whole file. The caller frees it. NULL: it could not be read, and a message was printed. */
static char *read_path(const char *path) {
    FILE *in = fopen(path, "r");
    char *text = text_read(in);
    if (text == NULL)
        fprintf(stderr, "collet-prog: --edited: cannot read %s: %m\n", path);
    if (in != NULL)
        fclose(in);
    return text;
}

/* Does what the request asks of an algorithm on a shape. An imported or edited algorithm is always verified first. */
static int serve(const struct prog_request *request, const struct algorithm *algorithm, int root, int nslots) {
    int nranks = algorithm->nranks, nnodes = 1, status = EXIT_SUCCESS;
    struct prog_shape shape;
    if ((nranks == 0 && !argument_number("<ranks>", request->ranks, 1, 1 << 20, &nranks)) ||
        !argument_number("--nodes", request->nodes, 1, nranks, &nnodes) ||
        !argument_number("--root", request->root, 0, nranks - 1, &root) ||
        !argument_number("--slots", request->slots, 1, 1024, &nslots))
        return EXIT_BAD_INPUT;
    if (deal(nranks, nnodes, &shape) != COLLET_SUCCESS) {
        fprintf(stderr, "collet-prog: %s\n", err_last());
        return EXIT_FAILURE;
    }
    if (!algorithm_applies(algorithm, &shape)) {
        fprintf(stderr, "collet-prog: %s takes %s, not %d rank(s) on %d node(s); --nodes says on how many they are\n",
                request->algorithm, algorithm->where, nranks, nnodes);
        prog_shape_fini(&shape);
        return EXIT_BAD_INPUT;
    }
    bool checks = request->check || request->trace;
    if (request->html) {
        status = page(algorithm, &shape, root, nslots);
        prog_shape_fini(&shape);
        return status;
    }
    if (checks || request->import != NULL || request->edited != NULL)
        status = check(algorithm, &shape, root, nslots, request->trace);
    if (!checks && status == EXIT_SUCCESS)
        status =
            request->lines ? print_lines(algorithm, &shape, root, request) : print(algorithm, &shape, root, request);
    prog_shape_fini(&shape);
    return status;
}

static int serve_edited(const struct prog_request *request, const struct algorithm *of) {
    int nranks = 0;
    char *text = read_path(request->edited);
    if (text == NULL || !argument_number("<ranks>", request->ranks, 1, 1024, &nranks)) {
        free(text);
        return EXIT_BAD_INPUT;
    }
    const struct algorithm edited = script_algorithm(of, nranks, text);
    const int status = serve(request, &edited, 0, 2);
    free(text);
    return status;
}

static int serve_imported(const struct prog_request *request) {
    struct algorithm *imported;
    if (import_file(request->import, &imported) != COLLET_SUCCESS) {
        fprintf(stderr, "collet-prog: %s\n", err_last());
        return EXIT_BAD_INPUT;
    }
    import_warn(imported, request->import);
    const int status = serve(request, imported, 0, 2);
    import_destroy(imported);
    return status;
}

static int serve_named(const struct prog_request *request) {
    const struct algorithm *algorithm = find_algorithm(request->algorithm);
    return algorithm == NULL         ? EXIT_BAD_INPUT
           : request->edited != NULL ? serve_edited(request, algorithm)
                                     : serve(request, algorithm, 0, 2);
}

int main(int argc, char **argv) {
    struct prog_request request = {0};
    if (!parse_arguments(argc, argv, &request) || !sink_begin(request.output))
        return EXIT_BAD_INPUT;
    return sink_end(request.list             ? list()
                    : request.geometry       ? print_geometry(&request)
                    : request.import != NULL ? serve_imported(&request)
                                             : serve_named(&request));
}
