/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/common/machine.h"

#include "base/err.h"
#include "base/spelling.h"
#include "base/types.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool argument_failed(const char *name, enum collet_result status) {
    if (status != COLLET_SUCCESS)
        fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, name, name[0] == '\0' ? "" : ": ", err_last());
    return status != COLLET_SUCCESS;
}

bool argument_type(const char *name, const char *text, enum collet_type *type_p) {
#define X(ENUM, type, ...) " " #type
    static const char wanted[] = "one of" COLLET_TYPES(X, );
#undef X
    struct spelling spelling = {text, SPELLING_FAR, ""};
    for (int type = 0; text != NULL && type < COLLET_TYPE_COUNT; type++) {
        spelling_offer(&spelling, type_name((enum collet_type)type));
        if (strcmp(type_name((enum collet_type)type), text) == 0) {
            *type_p = (enum collet_type)type;
            return true;
        }
    }
    return text == NULL || argument_refuse_name(name, &spelling, wanted);
}

bool argument_collective(const char *name, const char *text, enum prog_collective *collective_p) {
    char plain[32];
    size_t n = 0;
    struct spelling spelling = {plain, SPELLING_FAR, ""};
    if (text == NULL)
        return true;
    for (const char *at = text; *at != '\0' && n < sizeof plain - 1; at++)
        if (*at != '_' && *at != '-')
            plain[n++] = *at;
    plain[n] = '\0';
    for (enum prog_collective c = 0; c < PROG_COLLECTIVE_COUNT; c++) {
        if (prog_is_p2p(c))
            continue;
        spelling_offer(&spelling, prog_collective_name(c));
        if (strcasecmp(plain, prog_collective_name(c)) == 0) {
            *collective_p = c;
            return true;
        }
    }
    return argument_refuse_name(name, &spelling, "a collective, like allreduce");
}

bool machine_numbers(const struct machine_request *request, int *nodes_p, int *ranks_p) {
    return argument_number("--nodes", request->nodes, 1, MACHINE_NODES_MAX, nodes_p) &&
           argument_number("--ranks", request->ranks, 1, MACHINE_RANKS_MAX, ranks_p);
}

static int read_machine(const struct machine_request *request, struct topo **topo_p) {
    if (request->file != NULL && request->synthetic != NULL) {
        fprintf(stderr, "%s: --machine and --synthetic both say what the machine is: give one of them\n",
                program_invocation_short_name);
        return EXIT_BAD_INPUT;
    }
    if (request->file != NULL)
        return argument_failed("", topo_read_file(request->file, TOPO_RECORDED, topo_p)) ? EXIT_BAD_INPUT : 0;
    if (request->synthetic != NULL)
        return argument_failed("--synthetic", topo_synthetic(request->synthetic, topo_p)) ? EXIT_BAD_INPUT : 0;
    return argument_failed("", topo_probe(TOPO_CLOCK_S, topo_p)) ? EXIT_FAILURE : 0;
}

int machine_open(const struct machine_request *request, int copies, int *nodes_p, struct topo **topo_p) {
    struct topo *one = NULL;
    int status = read_machine(request, &one);
    if (status == 0 && *nodes_p > 1 && one->nhosts == 1) {
        status = argument_failed("--nodes", topo_repeat(one, *nodes_p < copies ? *nodes_p : copies, topo_p));
        topo_destroy(one);
        return status;
    }
    *topo_p = one;
    if (status != 0 || one->nhosts == 1)
        return status;
    if (*nodes_p > 1) {
        fprintf(stderr, "%s: --nodes is '%d', but --synthetic has %d nodes already: give one of them\n",
                program_invocation_short_name, *nodes_p, one->nhosts);
        return EXIT_BAD_INPUT;
    }
    *nodes_p = one->nhosts;
    return 0;
}
