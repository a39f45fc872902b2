/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapping.h"

#include "base/err.h"
#include "base/os.h"
#include "base/remedy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static enum collet_result map_shared(int fd, size_t bytes, void **memory_p) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return err_set(os_memory_code(), "cannot map %zu bytes of shared memory: %m%s", bytes, os_remedy());
    *memory_p = memory;
    return COLLET_SUCCESS;
}

/* An old kernel refuses the flag MFD_NOEXEC_SEAL. A kernel that requires this flag refuses every memfd without it. */
static int create_memfd(const char *name) {
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd;
    OS_DESCRIPTOR(fd, memfd_create(name, flags | MFD_NOEXEC_SEAL));
    return fd < 0 && errno == EINVAL ? os_high(memfd_create(name, flags)) : fd;
}

enum collet_result os_shared_file(const char *name, size_t bytes, int *fd_p) {
    int fd = create_memfd(name);
    if (fd < 0)
        return err_set(os_memory_code(), "cannot create shared memory (memfd %s): %m%s", name, os_remedy());
    enum collet_result result = COLLET_SUCCESS;
    struct rlimit limit; /* Beyond this limit, ftruncate() would end the process by a signal */
    const bool fits = getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
    errno = EFBIG;
    if (!fits || fchmod(fd, 0600) != 0 || ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        result = err_set(os_memory_code(), "cannot size %zu bytes of shared memory (memfd %s): %m%s", bytes, name,
                         fits ? os_remedy() : "; it counts as a file: raise that limit (ulimit -f)");
    if (result == COLLET_SUCCESS)
        *fd_p = fd;
    else
        close(fd);
    return result;
}

enum collet_result os_shared_create(const char *name, size_t bytes, void **memory_p, int *fd_p) {
    int fd;
    COLLET_TRY(os_shared_file(name, bytes, &fd));
    enum collet_result result = map_shared(fd, bytes, memory_p);
    if (result == COLLET_SUCCESS)
        *fd_p = fd;
    else
        close(fd);
    return result;
}

/* Checks the size that another process told. Access beyond the end of a file, or of a file that shrinks later, would kill this
 * process. */
static enum collet_result check_shared(int fd, size_t bytes) {
    struct stat status;
    if (fstat(fd, &status) != 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot look at shared memory of another process: %m");
    if (!S_ISREG(status.st_mode) || status.st_size < 0 || (size_t)status.st_size != bytes)
        return err_set(COLLET_ERR_SYSTEM,
                       "what another process shares is not the memory of %zu bytes that it announced", bytes);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return err_set(COLLET_ERR_SYSTEM, "shared memory of another process may shrink and is therefore not mapped");
    return COLLET_SUCCESS;
}

enum collet_result os_shared_map(int fd, size_t bytes, void **memory_p) {
    COLLET_TRY(check_shared(fd, bytes));
    return map_shared(fd, bytes, memory_p);
}

enum collet_result os_shared_find(int pid, int fd, size_t bytes, int *fd_p) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
    int own_fd;
    OS_DESCRIPTOR(own_fd, open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (own_fd < 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot open shared memory of process %d (%s): %m%s", pid, path, os_remedy());
    enum collet_result result = check_shared(own_fd, bytes);
    if (result == COLLET_SUCCESS)
        *fd_p = own_fd;
    else
        close(own_fd);
    return result;
}

enum collet_result os_shared_open(int pid, int fd, size_t bytes, void **memory_p) {
    int own_fd;
    COLLET_TRY(os_shared_find(pid, fd, bytes, &own_fd));
    enum collet_result result = map_shared(own_fd, bytes, memory_p);
    close(own_fd); /* The mapping remains */
    return result;
}

/* Copies in several steps: the kernel copies at most 2 GiB at once, and stops where a mapping ends. */
static bool process_copy(int pid, void *here, uint64_t there, size_t bytes, bool reads) {
    ssize_t moved = 1;
    for (size_t at = 0; at < bytes && moved > 0; at += (size_t)moved) {
        struct iovec local = {(char *)here + at, bytes - at}, remote = {(void *)(uintptr_t)(there + at), bytes - at};
        moved =
            reads ? process_vm_readv(pid, &local, 1, &remote, 1, 0) : process_vm_writev(pid, &local, 1, &remote, 1, 0);
    }
    return moved > 0;
}

bool os_process_read(int pid, void *to, uint64_t from, size_t bytes) {
    return process_copy(pid, to, from, bytes, true);
}

bool os_process_write(int pid, uint64_t to, const void *from, size_t bytes) {
    return process_copy(pid, (void *)(uintptr_t)from, to, bytes, false);
}

enum collet_result os_memory_create(size_t bytes, void **memory_p) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return err_set(os_memory_code(), "cannot map %zu bytes of memory: %m%s", bytes, os_remedy());
    *memory_p = memory;
    return COLLET_SUCCESS;
}

void os_memory_destroy(void *memory, size_t bytes) {
    if (memory != NULL)
        munmap(memory, bytes);
}
