/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-topo: this machine, or a recorded or imagined one, as a graph; the rings and trees that a job on it would use,
 * what they can carry, and why they are so.
 */
#include "base/err.h"
#include "forecast/explain.h"
#include "tools/common/arguments.h"
#include "topo/print_rings.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: collet-topo [--xml FILE | --synthetic TEXT] [--hosts N] [--ranks N] [--dot] [--dump FILE]\n"
    "                   [--explain --op NAME --size BYTES]\n"
    "\n"
    "  --xml FILE        a recorded machine, in NCCL's format or hwloc's; this machine unless given\n"
    "  --synthetic TEXT  an imagined one, e.g. \"2 node : 8 gpu nvswitch : 4 nic 200\"\n"
    "  --hosts N         a job on N hosts like this; 1 unless given\n"
    "  --ranks N         ranks on each host that has no GPU; one for each NUMA node unless given\n"
    "  --dot             the graph for Graphviz, and nothing else\n"
    "  --dump FILE       also writes the machine to FILE, in NCCL's format\n"
    "  --explain         instead, what each algorithm would take for a call, and why one is fastest (a prediction)\n"
    "  --op NAME         of which collective: allreduce unless given\n"
    "  --size BYTES      and how large, e.g. 64M: as the size of the perf programs; 1M unless given\n";

enum { HOSTS_MAX = 131072, RANKS_MAX = 1024 };

struct request {
    const char *xml, *synthetic, *hosts, *ranks, *dump, *op, *size; /* NULL: not given */
    bool dot, help, explain;
};

/* -------------------------------------------------------------------------------------------------------- arguments */

static bool parse_arguments(int argc, char **argv, struct request *request) {
    const struct argument table[] = {
        {"xml", &request->xml, NULL},         {"synthetic", &request->synthetic, NULL},
        {"hosts", &request->hosts, NULL},     {"ranks", &request->ranks, NULL},
        {"dump", &request->dump, NULL},       {"op", &request->op, NULL},
        {"size", &request->size, NULL},       {"dot", NULL, &request->dot},
        {"explain", NULL, &request->explain}, {"help", NULL, &request->help},
        {"h", NULL, &request->help},
    };
    int rest = arguments_read(table, sizeof table / sizeof *table, argc, argv);
    if (rest >= 0 && rest < argc)
        return argument_refuse("an argument", argv[rest], "an option that --help shows");
    if (rest > 0 && !request->explain && (request->op != NULL || request->size != NULL)) {
        fprintf(stderr, "collet-topo: %s is for --explain: give that too\n", request->op != NULL ? "--op" : "--size");
        return false;
    }
    return rest > 0;
}

/* The call to explain. */
struct call {
    enum prog_collective collective;
    uint64_t bytes;
};

static bool parse_call(const struct request *request, struct call *call) {
    *call = (struct call){PROG_ALLREDUCE, 1 << 20};
    if (request->op != NULL && !explain_read_collective(request->op, &call->collective))
        return argument_refuse("--op", request->op, "a collective, like allreduce");
    if (request->size != NULL && !explain_read_size(request->size, &call->bytes))
        return argument_refuse("--size", request->size, "a number of bytes, like 64M");
    return true;
}

/* ------------------------------------------------------------------------------------------------------ the machine */

/* Replaces *topo_p by nhosts like it. */
static int repeat_machine(int nhosts, struct topo **topo_p) {
    const struct topo **hosts;
    struct topo *fused;
    if (nhosts == 1)
        return 0;
    if ((*topo_p)->nhosts > 1) {
        fprintf(stderr, "collet-topo: --hosts is '%d', but --synthetic has %d nodes already: give one of them\n",
                nhosts, (*topo_p)->nhosts);
        return EXIT_BAD_INPUT;
    }
    hosts = malloc((size_t)nhosts * sizeof *hosts);
    if (hosts == NULL) {
        fprintf(stderr, "collet-topo: no memory for %d hosts\n", nhosts);
        return EXIT_FAILURE;
    }
    for (int h = 0; h < nhosts; h++)
        hosts[h] = *topo_p;
    bool bad = argument_failed("--hosts", topo_fuse(hosts, nhosts, &fused));
    free(hosts);
    if (bad)
        return EXIT_FAILURE;
    topo_destroy(*topo_p);
    *topo_p = fused;
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- showing */

/* What is shown of rings, one after another. */
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

int main(int argc, char **argv) {
    struct request request = {0};
    struct call call;
    struct topo *topo = NULL;
    int nhosts = 1, per_host = 0;
    if (!parse_arguments(argc, argv, &request))
        return EXIT_BAD_INPUT;
    if (request.help) {
        fputs(usage, stdout);
        return EXIT_SUCCESS;
    }
    if (!argument_number("--hosts", request.hosts, 1, HOSTS_MAX, &nhosts) ||
        !argument_number("--ranks", request.ranks, 1, RANKS_MAX, &per_host) || !parse_call(&request, &call))
        return EXIT_BAD_INPUT;
    int status = argument_machine("--xml", request.xml, request.synthetic, &topo);
    if (status == 0 && request.dump != NULL && argument_failed("--dump", topo_write_file(topo, request.dump)))
        status = EXIT_BAD_INPUT;
    if (status == 0)
        status = repeat_machine(nhosts, &topo);
    if (status == 0 && request.dot)
        topo_print_dot(topo, stdout);
    else if (status == 0 && request.explain)
        status = explain(topo, per_host, &call);
    else if (status == 0)
        status = show(topo, per_host);
    topo_destroy(topo);
    return status;
}
