/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with NCCL's interface, opened by its path: NVIDIA's, or collet's. Declared here as far as it is used.
 */
#ifndef COLLET_TESTS_BESIDE_LIBRARY_H
#define COLLET_TESTS_BESIDE_LIBRARY_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

struct nccl_id {
    char bytes[128];
};
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };

struct library {
    char name[32]; /* as rows have it */
    int version;
    int (*get_version)(int *version);
    const char *(*get_error_string)(int result);
    const char *(*get_last_error)(void *comm);
    int (*get_unique_id)(struct nccl_id *id);
    int (*comm_init_rank)(void **comm, int nranks, struct nccl_id id, int rank);
    int (*comm_destroy)(void *comm);
    int (*comm_get_async_error)(void *comm, int *result);
    int (*all_reduce)(const void *in, void *out, size_t count, int type, int op, void *comm, cudaStream_t stream);
    int (*all_gather)(const void *in, void *out, size_t count, int type, void *comm, cudaStream_t stream);
    int (*send)(const void *in, size_t count, int type, int peer, void *comm, cudaStream_t stream);
    int (*recv)(void *out, size_t count, int type, int peer, void *comm, cudaStream_t stream);
    int (*group_start)(void);
    int (*group_end)(void);
};

void library_open(struct library *library, const char *path, const char *name);
/* Can several ranks be on one GPU? NVIDIA's library can do that from 2.30 on. If not, this says so. */
bool library_shares_gpus(const struct library *library);

/* A failure ends the process, in words. */
void library_must(const struct library *library, int result, const char *what);
void cuda_must(cudaError_t error, const char *what);
#define LIBRARY_MUST(library, call) library_must(library, (library)->call, #call)
#define CUDA_MUST(call) cuda_must(call, #call)

/* ---- what is asked of it ---- */

struct beside_options {
    const char *path, *name; /* of the library */
    const char *results;     /* a file for rows, or NULL */
    int nranks;
    bool messages; /* beside_memset(): not collectives */
    bool slow;
};

/* Exit statuses; 77: it cannot be asked here. */
int beside_latency(const struct beside_options *options);
int beside_memset(const struct beside_options *options);

#endif
