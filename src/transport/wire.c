/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/wire.h"

#include "base/os.h"

enum collet_result wire_memory_create(const struct conn_owner *owner, size_t bytes, void **memory_p) {
    if (owner->gpu == NULL)
        return os_memory_create(bytes, memory_p);
    const struct gpu_driver *driver = owner->gpu->driver;
    GPU_ENTERED(driver, owner->gpu->ordinal);
    return driver->memory->pinned_create(bytes, memory_p);
}

void wire_memory_destroy(const struct conn_owner *owner, void *memory, size_t bytes) {
    if (owner->gpu == NULL) {
        os_memory_destroy(memory, bytes);
        return;
    }
    const struct gpu_driver *driver = owner->gpu->driver;
    GPU_ENTERED(driver, owner->gpu->ordinal);
    if (memory != NULL)
        driver->memory->pinned_destroy(memory);
}

void wire_allow_loans(struct conn *conn, int (*only)(uint64_t address, uint32_t bytes)) {
    if (conn->owner->config->proxy || !conn_is_direct(conn->owner, "wire"))
        return;
    conn_allow_loans(conn, LOAN_WIRE, LOAN_WIRE_BYTES);
    conn->end.loans.only = only;
}
