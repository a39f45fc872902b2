/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that programs get from collet, and memory that programs register. One list holds all allocations of this process. Each
 * communicator has a list of its registrations.
 *
 *    mapped pages       │ … │ the program's memory │ … │          in the shared heap (layers/memory/heap.h); if that has no room, elsewhere
 *                           ▲ begins at a page; if the memory is as long as a huge page, at a huge page
 */
#include "seams/layer.h"

#include "api/comm.h"
#include "base/low.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "layers/gpu/buffers.h"
#include "layers/memory/heap.h"
#include "layers/memory/os_memory.h"
#include "layers/memory/registration.h"

#include <stdlib.h>

struct allocation { /* Host memory. For allocations on GPUs see layers/gpu/buffers.h */
    struct allocation *next;
    void *memory;
    void *mapped; /* Beginning of its pages */
    size_t mapped_bytes;
    struct registration *registration;
};

struct collet_registration {
    struct collet_registration *next;
    struct registration *of_host; /* NULL: the registered memory is not host memory */
};

/* Protects all lists of this file. */
PROCESS_LOCK(lists_lock);
static struct allocation *allocations;

/* ---- allocation ---- */

static enum collet_result allocate_elsewhere(struct allocation *a, size_t bytes, size_t align) {
    if (__builtin_add_overflow(bytes, align - 1, &a->mapped_bytes))
        return err_set(COLLET_ERR_NO_MEMORY, "%zu bytes are more than there are addresses", bytes);
    COLLET_TRY(os_memory_create(a->mapped_bytes, &a->mapped));
    a->memory = (void *)(((uintptr_t)a->mapped + align - 1) / align * align);
    return COLLET_SUCCESS;
}

/* Frees the memory of an allocation. In a forked child, memory from the parent's shared heap is private memory, and is freed as such. */
static void allocation_end(const struct allocation *a) {
    if (!heap_give_back(a->memory))
        os_memory_destroy(a->mapped, a->mapped_bytes);
}

static enum collet_result allocation_fill(struct allocation *a, size_t bytes) {
    size_t align = bytes >= OS_HUGE_PAGE_BYTES ? OS_HUGE_PAGE_BYTES : 1;
    a->memory = a->mapped = heap_take(bytes, align);
    a->mapped_bytes = bytes;
    if (a->memory == NULL)
        COLLET_TRY(allocate_elsewhere(a, bytes, align));
    enum collet_result result = os_memory_touch(a->memory, bytes);
    if (result == COLLET_SUCCESS)
        result = registration_make(a->memory, bytes, &a->registration);
    if (result != COLLET_SUCCESS)
        allocation_end(a);
    return result;
}

static enum collet_result allocate_on_host(size_t bytes, void **memory) {
    struct allocation *a;
    COLLET_TRY(memory_get(&a, 1, sizeof *a, "no memory to note an allocation"));
    enum collet_result result = allocation_fill(a, bytes);
    if (result != COLLET_SUCCESS) {
        free(a);
        return result;
    }
    SCOPED_LOCK(&lists_lock);
    a->next = allocations;
    allocations = a;
    *memory = a->memory;
    return COLLET_SUCCESS;
}

static enum collet_result allocate_on_gpu(size_t bytes, int device, void **memory) {
    int ordinal;
    COLLET_TRY(gpu_find(device, "device", &ordinal));
    SCOPED_LOW;
    COLLET_TRY(gpu_driver()->open(ordinal));
    return gpu_buffer_create(ordinal, bytes, memory);
}

enum collet_result collet_mem_alloc(void **memory, size_t bytes, int device) {
    if (memory == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "memory is NULL: pass the address of a pointer");
    if (bytes == 0)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "bytes is 0: ask for 1 or more");
    return device == COLLET_DEVICE_HOST ? allocate_on_host(bytes, memory) : allocate_on_gpu(bytes, device, memory);
}

/* Removes an allocation from the list, and returns it; NULL: the list does not have it. */
static struct allocation *forget_allocation(const void *memory) {
    SCOPED_LOCK(&lists_lock);
    struct allocation **link = &allocations, *found;
    while (*link != NULL && (*link)->memory != memory)
        link = &(*link)->next;
    found = *link;
    if (found != NULL)
        *link = found->next;
    return found;
}

enum collet_result collet_mem_free(void *memory) {
    enum collet_result result;
    if (memory == NULL)
        return COLLET_SUCCESS;
    if (gpu_buffer_destroy(memory, &result))
        return result;
    struct allocation *a = forget_allocation(memory);
    if (a == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "memory is %p: that did not come from collet_mem_alloc(), or is freed already", memory);
    registration_end(a->registration);
    allocation_end(a);
    free(a);
    return COLLET_SUCCESS;
}

/* ---- registration ---- */

static void forget(struct collet_registration *registration) {
    registration_end(registration->of_host);
    free(registration);
}

static enum collet_result comm_register(struct collet_comm *comm, const void *buff, size_t bytes,
                                        struct collet_registration **registration) {
    COLLET_TRY(comm_check_usable(comm));
    if (buff == NULL || registration == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%s",
                       buff == NULL ? "buff is NULL: pass the buffer"
                                    : "registration is NULL: pass where the handle goes");
    uintptr_t end;
    if (bytes == 0 || __builtin_add_overflow((uintptr_t)buff, bytes, &end))
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "bytes is %zu: no buffer at %p is that long", bytes, buff);
    struct collet_registration *r;
    COLLET_TRY(memory_get(&r, 1, sizeof *r, "no memory for a registration"));
    enum collet_result result = !comm_is_on_gpu(comm) ? registration_make(buff, bytes, &r->of_host) : COLLET_SUCCESS;
    if (result != COLLET_SUCCESS) {
        free(r);
        return result;
    }
    SCOPED_LOCK(&lists_lock);
    r->next = comm->registrations;
    *registration = comm->registrations = r;
    return COLLET_SUCCESS;
}

/* An abort in another thread waits until this returns. */
enum collet_result collet_comm_register(struct collet_comm *comm, const void *buff, size_t bytes,
                                        struct collet_registration **registration) {
    if (comm == NULL || !comm_enter(comm))
        return comm_check(comm);
    enum collet_result result = comm_register(comm, buff, bytes, registration);
    comm_leave(comm);
    return result;
}

enum collet_result collet_comm_deregister(struct collet_comm *comm, struct collet_registration *registration) {
    COLLET_TRY(comm_check(comm));
    if (registration == NULL)
        return COLLET_SUCCESS;
    SCOPED_LOCK(&lists_lock);
    struct collet_registration **link = &comm->registrations;
    while (*link != NULL && *link != registration)
        link = &(*link)->next;
    if (*link == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT,
                       "registration is %p: none of this communicator's, or deregistered already",
                       (void *)registration);
    *link = registration->next;
    forget(registration);
    return COLLET_SUCCESS;
}

static void deregister_all(struct collet_comm *comm) {
    SCOPED_LOCK(&lists_lock);
    for (struct collet_registration *next; comm->registrations != NULL; comm->registrations = next) {
        next = comm->registrations->next;
        forget(comm->registrations);
    }
}

/* Ends the registrations of a communicator, when the communicator ends. */
static bool memory_close(struct collet_comm *comm) {
    deregister_all(comm);
    return true;
}

const struct layer layer_memory = {.comm_close = memory_close};
