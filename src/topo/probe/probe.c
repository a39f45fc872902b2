/* SPDX-License-Identifier: Apache-2.0
 *
 * Probes this machine. hwloc has the tree, the kernel has the links and ports, and the library of the GPUs has the rest.
 *
 * hwloc's answer is taken as XML, as if it were a file about this machine: see files.c, which adds the rest.
 */
#include "base/err.h"
#include "topo/probe/topo.h"

#include <hwloc.h>

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

enum collet_result topo_probe(struct topo **topo_p) {
    hwloc_topology_t hwloc = new_hwloc();
    enum collet_result status;
    char *text;
    int bytes; /* with the zero at the end */
    if (hwloc == NULL)
        return err_set(COLLET_ERR_NO_MEMORY, "no memory to look at this machine");
    if (hwloc_topology_load(hwloc) != 0 || hwloc_topology_export_xmlbuffer(hwloc, &text, &bytes, 0) != 0) {
        status = err_set(COLLET_ERR_SYSTEM, "hwloc cannot look at this machine: %m");
    } else {
        status = topo_read_text(text, (size_t)bytes - 1, "this machine", TOPO_PROBED, topo_p);
        hwloc_free_xmlbuffer(hwloc, text);
    }
    hwloc_topology_destroy(hwloc);
    return status;
}
