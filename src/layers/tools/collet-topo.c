/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-topo: shows this machine, or a recorded or imagined one, as a graph. It also shows the rings and trees that a job on the machine
 * would use, what they can carry, and why the search chose them.
 */
#include "base/err.h"
#include "layers/tools/forecast/explain.h"
#include "layers/tools/common/machine.h"
#include "layers/tools/common/sink.h"
#include "topo/probe/print_rings.h"

#include <stdlib.h>
#include <string.h>

static const struct command command = {"[options]", NULL};

struct topo_request {
    struct machine_request machine;
    const char *dump, *collective, *size, *output; /* NULL: not given */
    bool dot, explain;
};

/* -------------------------------------------------------------------------------------------------------- arguments */

static bool parse_arguments(int argc, char **argv, struct topo_request *request) {
    const struct argument table[] = {
        MACHINE_OPTIONS(&request->machine),
        ARGUMENT_FLAG("dot", &request->dot, "the graph for Graphviz, and nothing else"),
        ARGUMENT_VALUE("dump", "FILE", &request->dump, "also writes the machine to FILE, in NCCL's format"),
        ARGUMENT_FLAG("explain", &request->explain,
                      "instead, what each algorithm would take for a call, and why one is fastest (a prediction)"),
        ARGUMENT_VALUE("collective", "NAME", &request->collective, "of which collective; allreduce unless given"),
        ARGUMENT_VALUE("size", "BYTES", &request->size, "and how large, e.g. 64M; 1M unless given"),
        ARGUMENT_OUTPUT(&request->output),
    };
    arguments_read_options(&command, table, sizeof table / sizeof *table, argc, argv);
    if (request->explain || (request->collective == NULL && request->size == NULL))
        return true;
    fprintf(stderr, "collet-topo: %s is for --explain: give that too\n",
            request->collective != NULL ? "--collective" : "--size");
    return false;
}

/* The call that is explained. */
struct call {
    enum prog_collective collective;
    uint64_t bytes;
};

static bool parse_call(const struct topo_request *request, struct call *call) {
    *call = (struct call){PROG_ALLREDUCE, 1 << 20};
    if (!argument_collective("--collective", request->collective, &call->collective))
        return false;
    if (request->size != NULL && !explain_read_size(request->size, &call->bytes))
        return argument_refuse("--size", request->size, "a number of bytes, like 64M");
    return true;
}

/* ---------------------------------------------------------------------------------------------------------- showing */

/* The functions that print the rings, in their order. */
static enum collet_result (*const sections[])(const struct topo_rings *rings, FILE *out) = {
    topo_print_rings, topo_print_trees, topo_print_bandwidth, topo_print_reasons};

static int show(const struct topo *topo, int per_host) {
    struct topo_rings *rings;
    int nranks, *place;
    topo_print(topo, stdout);
    if (argument_failed("", topo_place_ranks(topo, per_host, &nranks, &place)))
        return EXIT_FAILURE;
    enum collet_result status = topo_search(topo, nranks, place, &rings);
    free(place);
    if (argument_failed("", status))
        return EXIT_FAILURE;
    for (size_t i = 0; i < sizeof sections / sizeof *sections && status == COLLET_SUCCESS; i++) {
        putchar('\n');
        status = sections[i](rings, stdout);
    }
    topo_rings_destroy(rings);
    return argument_failed("", status) ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int explain(const struct topo *topo, int per_host, const struct call *call) {
    struct forecast_job *job;
    if (argument_failed("", forecast_open(topo, topo->nhosts, per_host, &job)))
        return EXIT_FAILURE;
    enum collet_result status = explain_print(job, call->collective, call->bytes, stdout);
    forecast_close(job);
    return argument_failed("", status) ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int dump(const struct topo *topo, const char *path) {
    if (argument_failed("--dump", topo_write_file(topo, path)))
        return EXIT_BAD_INPUT;
    sink_wrote(path);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    struct topo_request request = {0};
    struct call call;
    struct topo *topo = NULL;
    int nhosts = 1, per_host = 0;
    /* Warnings are shown: what is strange about a machine is what this program is for. */
    setenv("COLLET_DEBUG", "WARN", 0);
    err_is_told = true; /* argument_failed() prints failures. */
    if (!parse_arguments(argc, argv, &request))
        return EXIT_BAD_INPUT;
    if (!machine_numbers(&request.machine, &nhosts, &per_host) || !parse_call(&request, &call) ||
        !sink_begin(request.output))
        return EXIT_BAD_INPUT;
    int status = machine_open(&request.machine, MACHINE_NODES_MAX, &nhosts, &topo);
    if (status == 0 && request.dump != NULL)
        status = dump(topo, request.dump);
    if (status == 0 && request.dot)
        topo_print_dot(topo, stdout);
    else if (status == 0 && request.explain)
        status = explain(topo, per_host, &call);
    else if (status == 0)
        status = show(topo, per_host);
    topo_destroy(topo);
    return sink_end(status);
}
