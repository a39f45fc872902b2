/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/memory/os_memory.h"

#include "base/err.h"
#include "base/mapping.h"
#include "base/remedy.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Reserves addresses that start at a multiple of the huge page size: a file can use huge pages only if addresses and offsets are aligned
 * alike. A later mapping replaces the reserved one. */
static void *find_huge_room(size_t bytes) {
    const size_t huge = OS_HUGE_PAGE_BYTES;
    char *room = mmap(NULL, bytes + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    size_t skipped = (huge - (uintptr_t)room % huge) % huge;
    if (skipped > 0)
        munmap(room, skipped);
    munmap(room + skipped + bytes, huge - skipped);
    return room + skipped;
}

/* After mlockall(), the kernel fills all pages of a new mapping that may be touched, and all pages of a locked mapping when it becomes one
 * that may be touched. So this function first forbids access, then unlocks the mapping, and allows access last. */
static enum collet_result map_sparse(int fd, size_t bytes, int protection, void **memory_p) {
    void *room = find_huge_room(bytes);
    int flags = MAP_SHARED | MAP_NORESERVE | (room != NULL ? MAP_FIXED : 0);
    void *memory = mmap(room, bytes, PROT_NONE, flags, fd, 0);
    if (memory == MAP_FAILED) /* Do not unmap `room`: another thread may have memory there by now */
        return err_set(os_memory_code(), "cannot map %zu bytes of shared memory: %m%s", bytes, os_remedy());
    munlock(memory, bytes);
    mprotect(memory, bytes, protection);
    *memory_p = memory;
    return COLLET_SUCCESS;
}

enum collet_result os_sparse_create(const char *name, size_t bytes, void **memory_p, int *fd_p) {
    int fd;
    COLLET_TRY(os_shared_file(name, bytes, &fd));
    enum collet_result result = map_sparse(fd, bytes, PROT_NONE, memory_p);
    if (result == COLLET_SUCCESS)
        *fd_p = fd;
    else
        close(fd);
    return result;
}

enum collet_result os_sparse_open(int pid, int fd, size_t bytes, void **memory_p) {
    int own_fd;
    COLLET_TRY(os_shared_find(pid, fd, bytes, &own_fd));
    enum collet_result result = map_sparse(own_fd, bytes, PROT_READ | PROT_WRITE, memory_p);
    close(own_fd); /* The mapping remains */
    return result;
}

void os_sparse_drop(void *memory, size_t bytes) { madvise(memory, bytes, MADV_REMOVE); }

/* Only pages that the child writes become private. Pages that neither process has written since the fork stay shared. */
void os_sparse_copy(int fd, void *memory, size_t bytes) {
    mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, 0);
    close(fd);
}

void os_memory_open(void *memory, size_t bytes, bool open) {
    mprotect(memory, bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

size_t os_memory_bytes(void) {
    struct rlimit file;
    size_t bytes = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    return getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur < bytes ? (size_t)file.rlim_cur : bytes;
}

enum collet_result os_memory_touch(void *memory, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), machine = page * (size_t)sysconf(_SC_PHYS_PAGES);
    if (bytes >= machine)
        return err_set(COLLET_ERR_NO_MEMORY, "%zu bytes are more than this machine's memory of %zu", bytes, machine);
    if (bytes >= OS_HUGE_PAGE_BYTES)
        madvise(memory, bytes, MADV_HUGEPAGE); /* Kernels without huge pages ignore this */
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
        return COLLET_SUCCESS;
    if (errno == ENOMEM || errno == EFAULT)
        return err_set(COLLET_ERR_NO_MEMORY, "there are no %zu bytes of memory: %m%s", bytes, os_remedy());
    /* Kernels before 5.14 do not know MADV_POPULATE_WRITE */
    for (size_t at = 0; at < bytes; at += page)
        ((volatile char *)memory)[at] = 0;
    return COLLET_SUCCESS;
}
