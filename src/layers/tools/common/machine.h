/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads arguments of tools that name things of the library: a machine, an element type, a collective. Prints failures of the library as
 * programs do.
 */
#ifndef COLLET_LAYERS_TOOLS_COMMON_MACHINE_H
#define COLLET_LAYERS_TOOLS_COMMON_MACHINE_H

#include "layers/tools/common/arguments.h"
#include "program/program.h"
#include "topo/probe/topo.h"

/* If status is an error, prints err_last() with the name of an argument ("": none in particular), and returns true. If
 * status is SUCCESS, returns false. */
bool argument_failed(const char *name, enum collet_result status);

/* Reads an element type by its name. text NULL: the argument was not given, and *type_p does not change. False: there is no
 * such type, and a message was printed. */
bool argument_type(const char *name, const char *text, enum collet_type *type_p);

/* Reads a collective in which all ranks take part, such as "allreduce" or "all_reduce". Otherwise works as argument_type(). */
bool argument_collective(const char *name, const char *text, enum prog_collective *collective_p);

/* The options --machine, --synthetic, --nodes and --ranks, which say what machine a job runs on. NULL: not given. */
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

/* Reads --nodes and --ranks. Without an option, its number does not change. False: a message was printed. */
bool machine_numbers(const struct machine_request *request, int *nodes_p, int *ranks_p);

/* Makes the graph of the job: *nodes_p hosts like the machine, but at most `copies` of them. If --synthetic has several
 * hosts, these are the hosts, *nodes_p becomes their number, and --nodes is refused. Returns 0, or the exit status after a
 * message. */
int machine_open(const struct machine_request *request, int copies, int *nodes_p, struct topo **topo_p);

#endif
