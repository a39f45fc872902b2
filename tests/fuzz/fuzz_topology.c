/* SPDX-License-Identifier: Apache-2.0
 *
 * Topologies: NCCL's and hwloc's XML of a file, and one line of text. What is read is written, read again, and searched.
 */
#include "fuzz.h"
#include "topo/probe/topo.h"
#include "topo/probe/xml_write.c"

#include <stdlib.h>

static void use(const struct topo *topo) {
    struct topo *again, *two;
    char *text;
    if (topo_write_text(topo, &text) == COLLET_SUCCESS) {
        if (topo_read_text(text, strlen(text), "written", TOPO_RECORDED, &again) == COLLET_SUCCESS)
            topo_destroy(again);
        free(text);
    }
    if (topo->nnodes < 64 && topo_repeat(topo, 2, &two) == COLLET_SUCCESS)
        topo_destroy(two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct topo *topo;
    char line[256];
    if (topo_read_text((const char *)data, size, "fuzz", TOPO_RECORDED, &topo) == COLLET_SUCCESS) {
        use(topo);
        topo_destroy(topo);
    }
    if (size >= sizeof line)
        return 0;
    memcpy(line, data, size);
    line[size] = '\0';
    if (topo_synthetic(line, &topo) == COLLET_SUCCESS)
        topo_destroy(topo);
    return 0;
}
