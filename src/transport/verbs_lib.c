/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs_lib.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} FUNCTIONS[] = {
#define F(field, name)                                                                                                 \
    { name, offsetof(struct verbs_lib, field) }
    F(fork_init, "ibv_fork_init"),
    F(get_device_list, "ibv_get_device_list"),
    F(free_device_list, "ibv_free_device_list"),
    F(get_device_name, "ibv_get_device_name"),
    F(open_device, "ibv_open_device"),
    F(close_device, "ibv_close_device"),
    F(query_device, "ibv_query_device"),
    F(query_port, "ibv_query_port"),
    F(query_gid_table, "_ibv_query_gid_table"),
    F(alloc_pd, "ibv_alloc_pd"),
    F(dealloc_pd, "ibv_dealloc_pd"),
    F(reg_mr, "ibv_reg_mr"),
    F(dereg_mr, "ibv_dereg_mr"),
    F(create_cq, "ibv_create_cq"),
    F(destroy_cq, "ibv_destroy_cq"),
    F(create_qp, "ibv_create_qp"),
    F(modify_qp, "ibv_modify_qp"),
    F(destroy_qp, "ibv_destroy_qp"),
    F(get_async_event, "ibv_get_async_event"),
    F(ack_async_event, "ibv_ack_async_event"),
    F(event_type_str, "ibv_event_type_str"),
    F(wc_status_str, "ibv_wc_status_str"),
#undef F
};

/* What most machines answer, without opening anything. */
static bool kernel_has_devices(void) {
    bool found = false;
    DIR *folder = opendir("/sys/class/infiniband");
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
