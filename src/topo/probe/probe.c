/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes this machine. hwloc has the tree, the kernel has the links and ports, and the library of the GPUs has the rest.
 *
 * hwloc's answer is taken as XML, as if it were a file about this machine: see files.c, which adds the rest.
 *
 * hwloc has no limit of time: where a sandbox refuses sched_getaffinity(), it asks again without end. So it is called apart (apart.h). If it
 * takes too long, the process asks hwloc no more.
 */
#include "layers/outlet/apart.h"
#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "topo/probe/topo.h"

#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>

/* One question to hwloc. */
struct question {
    struct apart apart;
    hwloc_topology_t hwloc;
    char *text; /* hwloc's answer; NULL: hwloc has failed, for the reason `error` */
    int bytes;  /* of the answer, with the zero at the end */
    int error;
};

static bool gave_up; /* in this process, or in an ancestor of it */

/* hwloc runs without its plugins for accelerators: they would start the drivers of GPUs that this process may not even use.
 * It also runs without its plugin for PCI, which leaks memory. Without this plugin hwloc finds the same in /sys. */
static hwloc_topology_t new_hwloc(void) {
    static const char *const unwanted[] = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl", "pci"};
    hwloc_topology_t hwloc;
    if (hwloc_topology_init(&hwloc) != 0)
        return NULL;
    hwloc_topology_set_io_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_ALL);
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    return hwloc;
}

static void question_free(struct apart *job) {
    struct question *question = (struct question *)job;
    if (question->text != NULL)
        hwloc_free_xmlbuffer(question->hwloc, question->text);
    if (question->hwloc != NULL)
        hwloc_topology_destroy(question->hwloc);
    free(question);
}

static void ask_hwloc(struct apart *job) {
    struct question *question = (struct question *)job;
    question->error = ENOMEM;
    question->hwloc = new_hwloc();
    if (question->hwloc != NULL &&
        (hwloc_topology_load(question->hwloc) != 0 ||
         hwloc_topology_export_xmlbuffer(question->hwloc, &question->text, &question->bytes, 0) != 0))
        question->error = errno;
}

static enum collet_result err_too_slow(double limit_s) {
    return err_set(COLLET_ERR_SYSTEM,
                   "hwloc has looked at this machine for %g s and does not end; does a sandbox refuse a system call? "
                   "COLLET_TOPO_FILE takes a topology from a file instead",
                   limit_s);
}

static enum collet_result ask(double limit_s, struct question **question_p) {
    struct question *question;
    if (gave_up)
        return err_too_slow(limit_s);
    COLLET_TRY(memory_get(&question, 1, sizeof *question, "no memory to look at this machine"));
    question->apart = (struct apart){.name = "collet-hwloc", .act = ask_hwloc, .free_job = question_free};
    if (apart_call(&question->apart, (uint64_t)(limit_s * 1e9))) {
        *question_p = question;
        return COLLET_SUCCESS;
    }
    gave_up = true;
    log_always(GRAPH, "hwloc has looked at this machine for %g s and does not end: going on without it", limit_s);
    return err_too_slow(limit_s);
}

enum collet_result topo_probe(double limit_s, struct topo **topo_p) {
    struct question *question = NULL;
    COLLET_TRY(ask(limit_s, &question));
    enum collet_result status;
    errno = question->error;
    if (question->text != NULL)
        status = topo_read_text(question->text, (size_t)question->bytes - 1, "this machine", TOPO_PROBED, topo_p);
    else if (question->hwloc == NULL)
        status = err_set(COLLET_ERR_NO_MEMORY, "no memory to look at this machine");
    else
        status = err_set(COLLET_ERR_SYSTEM, "hwloc cannot look at this machine: %m");
    apart_free(&question->apart);
    return status;
}
