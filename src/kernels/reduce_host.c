/* SPDX-License-Identifier: Apache-2.0
 *
 * The registry of the variants of reduce_variant.c, best first, and the choice among them by what the CPU can do.
 */
#include "kernels/reduce_host.h"

struct candidate {
    const struct reduce_variant *variant;
    int (*runs_here)(void);
};

static int always(void) { return 1; }

#if defined(__x86_64__)
/* Every CPU with AVX2 and FMA has F16C too. */
static int has_avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static const struct candidate candidates[] = {
    {&reduce_variant_avx512, has_avx512}, {&reduce_variant_avx2, has_avx2}, {&reduce_variant_plain, always}};
#else
static const struct candidate candidates[] = {{&reduce_variant_plain, always}};
#endif

const struct reduce_variant *reduce_host_nth(int n) {
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (candidates[i].runs_here() && n-- == 0)
            return candidates[i].variant;
    return NULL;
}

reduce_fn reduce_host_get(enum collet_type type, enum collet_op op) { return reduce_host_nth(0)->fn[op][type]; }

const char *reduce_host_variant(void) { return reduce_host_nth(0)->name; }
