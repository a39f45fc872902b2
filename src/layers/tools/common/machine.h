/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine that a tool is about, and what else of the library its arguments name; failures of the library, as programs
 * tell them.
 */
#ifndef COLLET_LAYERS_TOOLS_COMMON_MACHINE_H
#define COLLET_LAYERS_TOOLS_COMMON_MACHINE_H

#include "layers/tools/common/arguments.h"
#include "program/program.h"
#include "topo/probe/topo.h"

/* Says what err_last() does, about an argument ("": none in particular); false if status is SUCCESS. */
bool argument_failed(const char *name, enum collet_result status);

/* An element type by its name; *type_p is left alone if text is NULL (the argument was not given). */
bool argument_type(const char *name, const char *text, enum collet_type *type_p);

/* A collective that all ranks take part in, as "allreduce" or "all_reduce"; as argument_type(). */
bool argument_collective(const char *name, const char *text, enum prog_collective *collective_p);

/* The options --machine, --synthetic, --nodes and --ranks, which say on what a job runs. NULL: not given. */
struct machine_request {
    const char *file, *synthetic, *nodes, *ranks;
};
#define MACHINE_OPTIONS(r)                                                                                             \
    ARGUMENT_VALUE("machine", "FILE", &(r)->file,                                                                      \
                   "a recorded machine, in NCCL's format or hwloc's; this machine unless given"),                      \
        ARGUMENT_VALUE("synthetic", "TEXT", &(r)->synthetic,                                                           \
                       "an imagined one, e.g. \"2 node : 8 gpu nvswitch : 4 nic 200\""),                               \
        ARGUMENT_VALUE("nodes", "N", &(r)->nodes, "a job on N hosts like this; 1 unless given"),                       \
        ARGUMENT_VALUE("ranks", "N", &(r)->ranks,                                                                      \
                       "ranks on each host, equally many on each GPU; one per GPU, or per NUMA node, unless given")

enum { MACHINE_NODES_MAX = 131072, MACHINE_RANKS_MAX = 1024 };

/* The numbers; they stay as they are where an option was not given. */
bool machine_numbers(const struct machine_request *request, int *nodes_p, int *ranks_p);

/* *nodes_p hosts like the machine, but at most `copies` of them are made; or the hosts of --synthetic if it has several,
 * which --nodes excludes: *nodes_p is their number then. Returns what to exit with after a message, 0 without. */
int machine_open(const struct machine_request *request, int copies, int *nodes_p, struct topo **topo_p);

#endif
