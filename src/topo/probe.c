/* SPDX-License-Identifier: Apache-2.0
 *
 * This machine: hwloc has the tree, the kernel the links and ports, the GPUs' library the rest.
 */
#include "base/err.h"
#include "base/log.h"
#include "topo/gpus.h"
#include "topo/hwloc_read.h"
#include "topo/sysfs.h"
#include "topo/topo.h"

enum collet_result topo_probe(struct topo **topo_p) {
    struct topo *topo;
    COLLET_TRY(topo_probe_hwloc(&topo));
    topo_read_sysfs(topo, "/sys");
    topo_add_interfaces(topo, "/sys");
    topo_probe_gpus(topo);
    enum collet_result status = topo_finish(topo);
    if (status == COLLET_SUCCESS)
        *topo_p = topo;
    else
        topo_destroy(topo);
    return status;
}

static enum collet_result file_or_probe(const char *path, struct topo **topo_p) {
    if (path[0] == '\0')
        return topo_probe(topo_p);
    if (topo_read_file(path, TOPO_THIS_MACHINE, topo_p) == COLLET_SUCCESS)
        return COLLET_SUCCESS;
    log_warn(GRAPH, "%s; going on with what this machine has", err_last());
    return topo_probe(topo_p);
}

enum collet_result topo_load(const char *file_path, const char *dump_path, struct topo **topo_p) {
    struct topo *topo;
    COLLET_TRY(file_or_probe(file_path, &topo));
    if (dump_path[0] != '\0') {
        enum collet_result status = topo_write_file(topo, dump_path);
        if (status != COLLET_SUCCESS) {
            topo_destroy(topo);
            return status;
        }
    }
    *topo_p = topo;
    return COLLET_SUCCESS;
}
