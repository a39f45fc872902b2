/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-topo: this machine, or a recorded or imagined one, as a graph; the rings and trees that a job on it would use,
 * what they can carry, and why they are so.
 */
#include "base/err.h"
#include "plan/explain.h"
#include "topo/print_rings.h"
#include "topo/topo.h"

#include <errno.h>
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

enum { EXIT_BAD_INPUT = 2, HOSTS_MAX = 131072, RANKS_MAX = 1024 };

struct request {
    const char *xml, *synthetic, *hosts, *ranks, *dump, *op, *size; /* NULL: not given */
    bool dot, help, explain;
};

/* -------------------------------------------------------------------------------------------------------- arguments */

/* A whole number in min … max; false and a message that names the argument if it is none. */
static bool parse_number(const char *name, const char *text, int min, int max, int *number_p) {
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && number >= min && number <= max) {
        *number_p = (int)number;
        return true;
    }
    fprintf(stderr, "collet-topo: %s is '%s': it must be a whole number from %d to %d\n", name, text, min, max);
    return false;
}

static const char **option_with_value(struct request *request, const char *arg) {
    struct {
        const char *name;
        const char **value;
    } options[] = {{"--xml", &request->xml},     {"--synthetic", &request->synthetic}, {"--hosts", &request->hosts},
                   {"--ranks", &request->ranks}, {"--dump", &request->dump},           {"--op", &request->op},
                   {"--size", &request->size}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strcmp(arg, options[i].name) == 0)
            return options[i].value;
    return NULL;
}

static bool parse_arguments(int argc, char **argv, struct request *request) {
    for (int i = 1; i < argc; i++) {
        const char **value = option_with_value(request, argv[i]);
        if (value != NULL && i + 1 == argc) {
            fprintf(stderr, "collet-topo: %s needs a value behind it\n", argv[i]);
            return false;
        }
        if (value != NULL) {
            *value = argv[++i];
        } else if (strcmp(argv[i], "--dot") == 0) {
            request->dot = true;
        } else if (strcmp(argv[i], "--explain") == 0) {
            request->explain = true;
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            request->help = true;
        } else {
            fprintf(stderr, "collet-topo: '%s' is not understood; --help shows what is\n", argv[i]);
            return false;
        }
    }
    if (request->xml != NULL && request->synthetic != NULL) {
        fprintf(stderr, "collet-topo: --xml and --synthetic both say what the machine is: give one of them\n");
        return false;
    }
    if (!request->explain && (request->op != NULL || request->size != NULL)) {
        fprintf(stderr, "collet-topo: %s is for --explain: give that too\n", request->op != NULL ? "--op" : "--size");
        return false;
    }
    return true;
}

/* The call to explain. */
struct call {
    enum prog_collective collective;
    uint64_t bytes;
};

static bool parse_call(const struct request *request, struct call *call) {
    *call = (struct call){PROG_ALLREDUCE, 1 << 20};
    if (request->op != NULL && !explain_read_collective(request->op, &call->collective)) {
        fprintf(stderr, "collet-topo: --op is '%s': it must be a collective, like allreduce\n", request->op);
        return false;
    }
    if (request->size != NULL && !explain_read_size(request->size, &call->bytes)) {
        fprintf(stderr, "collet-topo: --size is '%s': it must be a number of bytes, like 64M\n", request->size);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------ the machine */

static bool failed(const char *argument, enum collet_result status) {
    if (status != COLLET_SUCCESS)
        fprintf(stderr, "collet-topo: %s%s%s\n", argument, argument[0] == '\0' ? "" : ": ", err_last());
    return status != COLLET_SUCCESS;
}

static int read_machine(const struct request *request, struct topo **topo_p) {
    if (request->xml != NULL)
        return failed("--xml", topo_read_file(request->xml, TOPO_RECORDED, topo_p)) ? EXIT_BAD_INPUT : 0;
    if (request->synthetic != NULL)
        return failed("--synthetic", topo_synthetic(request->synthetic, topo_p)) ? EXIT_BAD_INPUT : 0;
    return failed("", topo_probe(topo_p)) ? EXIT_FAILURE : 0;
}

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
    bool bad = failed("--hosts", topo_fuse(hosts, nhosts, &fused));
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
    if (failed("", topo_place_ranks(topo, per_host, &nranks, &place)))
        return EXIT_FAILURE;
    enum collet_result status = topo_search(topo, nranks, place, &rings);
    free(place);
    if (failed("", status))
        return EXIT_FAILURE;
    for (size_t i = 0; i < sizeof sections / sizeof *sections && status == COLLET_SUCCESS; i++) {
        putchar('\n');
        status = sections[i](rings, stdout);
    }
    topo_rings_destroy(rings);
    return failed("", status) ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int explain(const struct topo *topo, int per_host, const struct call *call) {
    struct forecast_job *job;
    if (failed("", forecast_open(topo, topo->nhosts, per_host, &job)))
        return EXIT_FAILURE;
    enum collet_result status = explain_print(job, call->collective, call->bytes, stdout);
    forecast_close(job);
    return failed("", status) ? EXIT_FAILURE : EXIT_SUCCESS;
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
    if ((request.hosts != NULL && !parse_number("--hosts", request.hosts, 1, HOSTS_MAX, &nhosts)) ||
        (request.ranks != NULL && !parse_number("--ranks", request.ranks, 1, RANKS_MAX, &per_host)) ||
        !parse_call(&request, &call))
        return EXIT_BAD_INPUT;
    int status = read_machine(&request, &topo);
    if (status == 0 && request.dump != NULL && failed("--dump", topo_write_file(topo, request.dump)))
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
