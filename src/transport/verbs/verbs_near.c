/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/verbs_near.h"

#include "layers/gpu/gpu.h"
#include "topo/probe/paths.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Returns the shortest path from a node of the device: the device has one node for each port. */
static enum topo_class shortest(const struct topo *topo, const struct topo_paths *paths, const char *device) {
    enum topo_class least = PATH_NONE;
    for (int n = topo->hosts[0].first_node; n < topo->hosts[0].end_node; n++) {
        const struct topo_node *node = &topo->nodes[n];
        if (node->kind != TOPO_NIC || strcmp(node->nic.name, device) != 0)
            continue;
        enum topo_class class = topo_path_to(paths, n)->class;
        least = class < least ? class : least;
    }
    return least;
}

enum topo_class verbs_path_to_gpu(const struct config *config, const char *device, int ordinal) {
    char busid[GPU_BUSID_BYTES];
    const struct topo *topo;
    struct topo_paths *paths;
    gpu_busid(ordinal, busid);
    if (topo_here(config, &topo) != COLLET_SUCCESS)
        return PATH_NONE;
    int gpu = topo_find_busid(topo, busid);
    if (gpu < 0 || topo_paths_from(topo, gpu, PATHS_IN_HOST, &paths) != COLLET_SUCCESS)
        return PATH_NONE;
    enum topo_class class = shortest(topo, paths, device);
    free(paths);
    return class;
}

bool verbs_is_near(const struct config *config, enum topo_class path) {
    enum topo_class level = PATH_LOC;
    while (level < PATH_SYS && strcasecmp(topo_class_name(level), config->net_gdr_level) != 0)
        level++;
    return path <= level || path == PATH_NONE;
}
