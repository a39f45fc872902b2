/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread's GPU is before, during and after a call, on a driver with a stack of contexts and nothing else. In a build
 * without CUDA there is nothing to test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if defined(COLLET_CUDA)

#include "base/err.h"
#include "layers/gpu/cuda_context.h"
#include "layers/gpu/cuda_entry.h"

#include <cuda.h>
#include <stdbool.h>
#include <string.h>

enum { GPUS = 4, DEPTH = 8 };

static char primary[GPUS]; /* a context is the address of its GPU's */
static int retained[GPUS];
static CUcontext stack[DEPTH];
static int depth;
static const char *missing = "";
static bool full;
static unsigned long long resets[GPUS];
static bool destroyed[GPUS];

static CUresult device_get(CUdevice *device, int ordinal) {
    *device = 100 + ordinal;
    return ordinal < GPUS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult retain(CUcontext *context, CUdevice device) {
    if (full)
        return CUDA_ERROR_OUT_OF_MEMORY;
    retained[device - 100]++;
    destroyed[device - 100] = false;
    *context = (CUcontext)&primary[device - 100];
    return CUDA_SUCCESS;
}

static CUresult push_current(CUcontext context) {
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *context) {
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack[--depth];
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *context) {
    *context = depth > 0 ? stack[depth - 1] : NULL;
    return CUDA_SUCCESS;
}

static CUresult get_id(CUcontext context, unsigned long long *id) {
    const long gpu = (char *)context - primary;
    *id = 1 + (unsigned long long)gpu + GPUS * resets[gpu];
    return destroyed[gpu] ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

static void reset(int gpu) {
    resets[gpu]++;
    destroyed[gpu] = true;
}

void *cuda_entry(const char *name, unsigned version) {
    const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"cuDeviceGet", device_get},      {"cuDevicePrimaryCtxRetain", retain}, {"cuCtxPushCurrent", push_current},
        {"cuCtxPopCurrent", pop_current}, {"cuCtxGetCurrent", get_current},     {"cuCtxGetId", get_id},
    };
    (void)version;
    for (size_t k = 0; k < sizeof(functions) / sizeof(*functions); k++)
        if (strcmp(name, functions[k].name) == 0 && strcmp(name, missing) != 0)
            return functions[k].function;
    return NULL;
}

static CUcontext now(void) {
    CUcontext context;
    get_current(&context);
    return context;
}

/* Before the others: what could not be made once may be made later. */
static void what_keeps_a_gpu_from_being_used_is_said(void **state) {
    (void)state;
    missing = "cuCtxPushCurrent";
    assert_int_equal(cuda_context_make(0), COLLET_ERR_UNSUPPORTED);
    missing = "";
    full = true;
    assert_int_equal(cuda_context_make(0), COLLET_ERR_NO_MEMORY);
    assert_non_null(strstr(err_last(), "GPU 0"));
    full = false;
    assert_int_equal(cuda_context_make(GPUS), COLLET_ERR_SYSTEM);
    assert_int_equal(cuda_context_make(CUDA_GPUS_MAX), COLLET_ERR_UNSUPPORTED);
    assert_int_equal(cuda_context_make(-1), COLLET_ERR_UNSUPPORTED);
    assert_int_equal(cuda_context_push(1), 0); /* not made */
    assert_null(now());
}

/* The thread has never used a GPU, so GPU 0 is its current one; nothing is made there. */
static void a_thread_without_a_context_has_none_afterwards(void **state) {
    (void)state;
    assert_int_equal(cuda_context_make(3), COLLET_SUCCESS);
    assert_int_equal(cuda_context_push(3), 1);
    assert_ptr_equal(now(), &primary[3]);
    cuda_context_pop();
    assert_null(now());
    assert_int_equal(retained[0], 0);
}

static void a_thread_has_the_context_afterwards_that_it_had(void **state) {
    (void)state;
    for (int gpu = 0; gpu < GPUS; gpu++)
        assert_int_equal(cuda_context_make(gpu), COLLET_SUCCESS);
    push_current((CUcontext)&primary[1]);
    for (int gpu = 0; gpu < GPUS; gpu++) {
        int pushed = cuda_context_push(gpu);
        assert_int_equal(pushed, gpu != 1);
        assert_ptr_equal(now(), &primary[gpu]);
        if (pushed)
            cuda_context_pop();
        assert_ptr_equal(now(), &primary[1]);
    }
    depth = 0;
}

static void a_context_is_retained_once(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++)
        assert_int_equal(cuda_context_make(2), COLLET_SUCCESS);
    assert_int_equal(retained[2], 1);
}

static void a_context_behind_a_reset_is_another_one(void **state) {
    (void)state;
    assert_int_equal(cuda_context_make(1), COLLET_SUCCESS);
    const uint64_t before = cuda_context_id(1), of_another = cuda_context_id(2);
    const int times = retained[1];
    reset(1);
    assert_int_equal(cuda_context_id(1), 0);
    destroyed[1] = false; /* the program has used the GPU again, and has the context of before, it seems */
    assert_int_equal(cuda_context_id(1), 0);
    assert_int_equal(cuda_context_make(1), COLLET_SUCCESS);
    assert_int_equal(retained[1], times + 1);
    assert_true(cuda_context_id(1) != 0 && cuda_context_id(1) != before);
    assert_int_equal(cuda_context_id(2), of_another);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_keeps_a_gpu_from_being_used_is_said),
        cmocka_unit_test(a_thread_without_a_context_has_none_afterwards),
        cmocka_unit_test(a_thread_has_the_context_afterwards_that_it_had),
        cmocka_unit_test(a_context_is_retained_once),
        cmocka_unit_test(a_context_behind_a_reset_is_another_one),
    };
    return cmocka_run_group_tests_name("cuda_context", tests, NULL, NULL);
}

#else

#include <stdio.h>

int main(void) {
    printf("skipped: built without CUDA\n");
    return 77;
}

#endif
