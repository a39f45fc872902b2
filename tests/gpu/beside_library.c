/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/beside_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARES_FROM 23000

void cuda_must(cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(error));
    exit(1);
}

void library_must(const struct library *library, int result, const char *what) {
    if (result == NCCL_SUCCESS || result == NCCL_IN_PROGRESS)
        return;
    printf("%s: %s: %s: %s\n", library->name, what, library->get_error_string(result),
           library->get_last_error != NULL ? library->get_last_error(NULL) : "");
    exit(1);
}

static void *find(void *handle, const char *name) {
    void *found = dlsym(handle, name);
    if (found == NULL) {
        printf("there is no %s in it: %s\n", name, dlerror());
        exit(1);
    }
    return found;
}

#define FIND(member, symbol) *(void **)&library->member = find(handle, symbol)

static void find_all(struct library *library, void *handle) {
    FIND(get_version, "ncclGetVersion");
    FIND(get_error_string, "ncclGetErrorString");
    FIND(get_unique_id, "ncclGetUniqueId");
    FIND(comm_init_rank, "ncclCommInitRank");
    FIND(comm_destroy, "ncclCommDestroy");
    FIND(comm_get_async_error, "ncclCommGetAsyncError");
    FIND(all_reduce, "ncclAllReduce");
    FIND(all_gather, "ncclAllGather");
    FIND(send, "ncclSend");
    FIND(recv, "ncclRecv");
    FIND(group_start, "ncclGroupStart");
    FIND(group_end, "ncclGroupEnd");
    *(void **)&library->get_last_error = dlsym(handle, "ncclGetLastError"); /* from 2.13 on */
}

/* NVIDIA's library needs to be told, and on one GPU neither switches nor PAT are for it. */
static void allow_ranks_on_one_gpu(void) {
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    setenv("NCCL_PAT_ENABLE", "0", 0);
}

void library_open(struct library *library, const char *path, const char *name) {
    if (strcmp(name, "collet") != 0)
        allow_ranks_on_one_gpu();
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        printf("%s\n", dlerror());
        exit(1);
    }
    find_all(library, handle);
    LIBRARY_MUST(library, get_version(&library->version));
    snprintf(library->name, sizeof(library->name), "%s", name);
}

bool library_shares_gpus(const struct library *library) {
    if (strcmp(library->name, "collet") == 0 || library->version >= SHARES_FROM)
        return true;
    printf("%s refuses two ranks on one GPU: it can do that from version %d on, and is %d\n", library->name,
           SHARES_FROM, library->version);
    return false;
}
