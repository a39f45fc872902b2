/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes and waits of a stream itself: no kernel runs for them. The runtime has no function for that. The driver has one since CUDA 11.7
 * that nobody has to enable first (cuStreamBatchMemOp, its second version).
 *
 * Run on one H200 on 2026-11-26, never on several GPUs.
 */
#include "layers/gpu/cuda_words.h"

#include "base/err.h"
#include "layers/gpu/cuda_entry.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string.h>

/* Operations per call. A call of the driver takes fewer than 256. */
#define BATCH 128u

typedef CUresult (*batch_operations)(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations,
                                     unsigned flags);

/* By default, a write has a fence of the whole system before it, and a wait compares the plain value. */
static CUstreamBatchMemOpParams operation_of(const struct gpu_word_op *op) {
    CUstreamBatchMemOpParams to;
    memset(&to, 0, sizeof(to));
    if (op->waits) {
        to.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        to.waitValue.address = (CUdeviceptr)(uintptr_t)op->word;
        to.waitValue.value = op->value;
        to.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    } else {
        to.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        to.writeValue.address = (CUdeviceptr)(uintptr_t)op->word;
        to.writeValue.value = op->value;
        to.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
    }
    return to;
}

static batch_operations find_batch(void) {
    static batch_operations found; /* every thread finds the same function */
    batch_operations batch = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (batch == NULL)
        batch = (batch_operations)cuda_entry("cuStreamBatchMemOp", 11070);
    __atomic_store_n(&found, batch, __ATOMIC_RELAXED);
    return batch;
}

static bool says(enum cudaDeviceAttr attribute, int ordinal) {
    int value = 0;
    bool known = cudaDeviceGetAttribute(&value, attribute, ordinal) == cudaSuccess;
    cudaGetLastError();
    return known && value != 0;
}

/* A driver that has the function may still refuse to run it. No attribute tells that for 32-bit words. But a GPU that does 64-bit words
 * also does 32-bit words. */
static bool is_allowed(void) {
    int ordinal;
    bool known = cudaGetDevice(&ordinal) == cudaSuccess;
    cudaGetLastError();
    return known && (says((enum cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, ordinal) ||
                     says((enum cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, ordinal));
}

bool gpu_cuda_has_words(void) { return find_batch() != NULL && is_allowed(); }

enum collet_result gpu_cuda_words(const struct gpu_word_op *ops, uint32_t nops, void *stream) {
    CUstreamBatchMemOpParams operations[BATCH];
    batch_operations batch = find_batch();
    if (batch == NULL)
        return err_set(COLLET_ERR_UNSUPPORTED,
                       "the CUDA driver has no cuStreamBatchMemOp of CUDA 11.7, which COLLET_CTA_POLICY=zero needs");
    for (uint32_t at = 0, n; at < nops; at += n) {
        n = nops - at < BATCH ? nops - at : BATCH;
        for (uint32_t k = 0; k < n; k++)
            operations[k] = operation_of(&ops[at + k]);
        CUresult error = batch(stream, n, operations, 0);
        if (error != CUDA_SUCCESS)
            return err_set(COLLET_ERR_SYSTEM, "cuStreamBatchMemOp failed (CUresult %d)", (int)error);
    }
    return COLLET_SUCCESS;
}
