/* SPDX-License-Identifier: Apache-2.0
 *
 * Run on one H200 on 2026-11-26. tests/layers/gpu/test_cuda_context.c runs it with an emulated driver.
 */
#include "layers/gpu/cuda_context.h"

#include "base/err.h"
#include "layers/gpu/cuda_entry.h"

#include <cuda.h>
#include <pthread.h>

typedef CUresult (*get_device)(CUdevice *device, int ordinal);
typedef CUresult (*retain_context)(CUcontext *context, CUdevice device);
typedef CUresult (*push_context)(CUcontext context);
typedef CUresult (*to_context)(CUcontext *context);
typedef CUresult (*context_id)(CUcontext context, unsigned long long *id);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext contexts[CUDA_GPUS_MAX]; /* stores release; pairs with loads of threads that need it */
static uint64_t
    ids[CUDA_GPUS_MAX]; /* [GPU]: number of the context. After a reset, a new context may have the same handle */
static push_context push;
static to_context pop, current;
static context_id id_of; /* NULL: the driver is older than CUDA 12.0, and has no such numbers */

static uint64_t id_now(CUcontext context) {
    unsigned long long id = 0;
    if (id_of == NULL)
        return 1;
    return id_of(context, &id) == CUDA_SUCCESS ? id : 0;
}

static enum collet_result make(int ordinal) {
    get_device device_of = (get_device)cuda_entry("cuDeviceGet", 11000);
    retain_context retain = (retain_context)cuda_entry("cuDevicePrimaryCtxRetain", 11000);
    CUcontext context;
    CUdevice device;
    push = (push_context)cuda_entry("cuCtxPushCurrent", 11000);
    pop = (to_context)cuda_entry("cuCtxPopCurrent", 11000);
    current = (to_context)cuda_entry("cuCtxGetCurrent", 11000);
    id_of = (context_id)cuda_entry("cuCtxGetId", 12000);
    if (device_of == NULL || retain == NULL || push == NULL || pop == NULL || current == NULL)
        return err_set(COLLET_ERR_UNSUPPORTED, "the CUDA driver has no functions for contexts");
    CUresult error = device_of(&device, ordinal);
    if (error == CUDA_SUCCESS)
        error = retain(&context, device);
    if (error != CUDA_SUCCESS)
        return err_set(
            error == CUDA_ERROR_OUT_OF_MEMORY ? COLLET_ERR_NO_MEMORY : COLLET_ERR_SYSTEM,
            "GPU %d cannot be used: no context on it (CUresult %d); is it in exclusive mode, or its memory full?",
            ordinal, (int)error);
    __atomic_store_n(&ids[ordinal], id_now(context), __ATOMIC_RELAXED);
    __atomic_store_n(&contexts[ordinal], context, __ATOMIC_RELEASE); /* pairs with cuda_context_push() */
    return COLLET_SUCCESS;
}

uint64_t cuda_context_id(int ordinal) {
    const CUcontext context = __atomic_load_n(&contexts[ordinal], __ATOMIC_ACQUIRE); /* pairs with make() */
    const uint64_t made = __atomic_load_n(&ids[ordinal], __ATOMIC_RELAXED);
    return context != NULL && id_now(context) == made ? made : 0;
}

enum collet_result cuda_context_make(int ordinal) {
    enum collet_result result = COLLET_SUCCESS;
    if (ordinal < 0 || ordinal >= CUDA_GPUS_MAX)
        return err_set(COLLET_ERR_UNSUPPORTED, "GPU %d: collet drives the first %d of a process", ordinal,
                       CUDA_GPUS_MAX);
    pthread_mutex_lock(&lock);
    if (cuda_context_id(ordinal) == 0)
        result = make(ordinal);
    pthread_mutex_unlock(&lock);
    return result;
}

int cuda_context_push(int ordinal) {
    CUcontext context = __atomic_load_n(&contexts[ordinal], __ATOMIC_ACQUIRE), now;
    if (context == NULL)
        return 0;
    return !(current(&now) == CUDA_SUCCESS && now == context) && push(context) == CUDA_SUCCESS;
}

void cuda_context_pop(void) {
    CUcontext gone;
    pop(&gone);
}
