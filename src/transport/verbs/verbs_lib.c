/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/verbs_lib.h"

#include "topo/probe/sysfs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} FUNCTIONS[] = {
#define X(field, function) {#function, offsetof(struct verbs_lib, field)},
    VERBS_FUNCTIONS(X)
#undef X
};

/* A quick check, without opening anything: most machines have no RDMA devices. */
static bool kernel_has_devices(void) {
    bool found = false;
    DIR *folder = sysfs_opendir("/sys/class/infiniband");
    if (folder == NULL)
        return false;
    for (const struct dirent *entry; !found && (entry = readdir(folder)) != NULL;)
        found = entry->d_name[0] != '.';
    closedir(folder);
    return found;
}

bool verbs_lib_open(struct verbs_lib *lib, const char **why) {
    *why = "the kernel has no RDMA device (nothing in /sys/class/infiniband: load the driver of the card, or rdma_rxe)";
    if (!kernel_has_devices())
        return false;
    void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    *why = "libibverbs.so.1 cannot be opened: install rdma-core and its providers (libibverbs1, ibverbs-providers)";
    if (handle == NULL)
        return false;
    *why = "libibverbs is too old: rdma-core 32 or later is needed";
    for (size_t k = 0; k < sizeof(FUNCTIONS) / sizeof(FUNCTIONS[0]); k++) {
        void *function = dlsym(handle, FUNCTIONS[k].name);
        if (function == NULL)
            return false;
        memcpy((char *)lib + FUNCTIONS[k].offset, &function, sizeof(function));
    }
    void *function = dlsym(handle, "ibv_reg_dmabuf_mr");
    memcpy(&lib->reg_dmabuf_mr, &function, sizeof(function));
    return true;
}
