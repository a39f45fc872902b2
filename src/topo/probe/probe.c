/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes this machine. hwloc has the tree, the kernel has the links and ports, and the library of the GPUs has the rest.
 *
 * hwloc's answer is taken as XML, as if it were a file about this machine: see files.c, which adds the rest.
 *
 * These questions have no limit of time. If a sandbox refuses sched_getaffinity(), hwloc repeats the call without end. While other programs
 * make and remove network interfaces, the kernel lets nobody read the speed of one. So a thread apart (apart.h) looks. If it takes too long,
 * the process does not look again.
 */
#include "layers/outlet/apart.h"
#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "topo/probe/topo.h"

#include <hwloc.h>
#include <stdlib.h>

/* One look at this machine. */
struct machine_look {
    struct apart apart;
    struct topo *topo;
    enum collet_result status;
    char text[ERR_TEXT_BYTES]; /* Text of the error `status`. */
};

/* Maximum time of the thread that looks (apart.h): a thousand times what it usually needs. */
#define LOOK_NS 10000000000ull

/* Seconds by the clock after which this process, or an ancestor that forked it, gave up. 0: nobody gave up. */
static double gave_up_after_s;
/* Who is asked at the moment, for texts. The thread that looks may outlive its job's owner, so it is not in the job. */
static const char *asked = "hwloc";

/* Makes a topology that is not loaded yet, without these plugins of hwloc. Those for accelerators would start the drivers of
 * GPUs that this process may not even use. The one for PCI leaks memory, and hwloc finds the same in /sys without it. The
 * one for x86 moves its thread to each CPU in turn, and waits there if the CPU is busy. What it adds to /sys is not used
 * here. */
static hwloc_topology_t new_hwloc(void) {
    static const char *const unwanted[] = {"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl", "pci", "x86"};
    hwloc_topology_t hwloc;
    if (hwloc_topology_init(&hwloc) != 0)
        return NULL;
    hwloc_topology_set_io_types_filter(hwloc, HWLOC_TYPE_FILTER_KEEP_ALL);
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        hwloc_topology_set_components(hwloc, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    return hwloc;
}

static void look_free(struct apart *job) {
    struct machine_look *look = (struct machine_look *)job;
    topo_destroy(look->topo);
    free(look);
}

static enum collet_result read_hwloc(hwloc_topology_t hwloc, struct machine_look *look) {
    char *text;
    int bytes; /* Bytes of the text, with the zero at its end. */
    if (hwloc_topology_load(hwloc) != 0 || hwloc_topology_export_xmlbuffer(hwloc, &text, &bytes, 0) != 0)
        return err_set(COLLET_ERR_SYSTEM, "hwloc cannot look at this machine: %m");
    __atomic_store_n(&asked, "the kernel or NVML", __ATOMIC_RELAXED);
    enum collet_result status = topo_read_text(text, (size_t)bytes - 1, "this machine", TOPO_PROBED, &look->topo);
    hwloc_free_xmlbuffer(hwloc, text);
    return status;
}

static void look(struct apart *job) {
    struct machine_look *look = (struct machine_look *)job;
    hwloc_topology_t hwloc = new_hwloc();
    look->status =
        hwloc != NULL ? read_hwloc(hwloc, look) : err_set(COLLET_ERR_NO_MEMORY, "no memory to look at this machine");
    if (look->status != COLLET_SUCCESS)
        snprintf(look->text, sizeof look->text, "%s", err_last());
    if (hwloc != NULL)
        hwloc_topology_destroy(hwloc);
}

static enum collet_result err_too_slow(void) {
    return err_set(COLLET_ERR_SYSTEM,
                   "%s has looked at this machine for %.2g s and does not end; does a sandbox refuse a system call? "
                   "COLLET_TOPO_FILE takes a topology from a file instead",
                   __atomic_load_n(&asked, __ATOMIC_RELAXED), gave_up_after_s);
}

static enum collet_result look_apart(double clock_s, struct machine_look **look_p) {
    const uint64_t clock_ns = (uint64_t)(clock_s * 1e9), begun_ns = os_now_ns();
    if (gave_up_after_s > 0)
        return err_too_slow();
    struct machine_look *job;
    COLLET_TRY(memory_get(&job, 1, sizeof *job, "no memory to look at this machine"));
    job->apart = (struct apart){.name = "collet-hwloc", .act = look, .free_job = look_free};
    if (apart_call(&job->apart, clock_ns < LOOK_NS ? clock_ns : LOOK_NS, clock_ns)) {
        *look_p = job;
        return COLLET_SUCCESS;
    }
    gave_up_after_s = (double)(os_now_ns() - begun_ns) / 1e9;
    log_always(GRAPH, "%s has looked at this machine for %.2g s and does not end: going on without it",
               __atomic_load_n(&asked, __ATOMIC_RELAXED), gave_up_after_s);
    return err_too_slow();
}

enum collet_result topo_probe(double clock_s, struct topo **topo_p) {
    struct machine_look *look = NULL;
    COLLET_TRY(look_apart(clock_s, &look));
    enum collet_result status = look->status == COLLET_SUCCESS ? COLLET_SUCCESS : err_adopt(look->status, look->text);
    if (status == COLLET_SUCCESS)
        *topo_p = look->topo;
    look->topo = NULL;
    apart_free(&look->apart);
    return status;
}
