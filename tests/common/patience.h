/* SPDX-License-Identifier: Apache-2.0
 *
 * For loops that wait for the library: each of their turns calls be_patient(). If nothing comes of it, the test fails, instead of
 * going on without end.
 */
#ifndef COLLET_TESTS_PATIENCE_H
#define COLLET_TESTS_PATIENCE_H

#include "common/fair.h"
#include "common/level.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PATIENCE_NS                                                                                                    \
    (3 * LEVEL_SOON_NS) /* for all loops of a case together, which take seconds where a machine is busy */

static uint64_t patience_ends_ns;

static inline void patience_begin(void) { patience_ends_ns = fair_now_ns() + PATIENCE_NS; }

static inline void be_patient(void) {
    if (fair_now_ns() > patience_ends_ns)
        fail_msg("nothing came of it in %llu s", PATIENCE_NS / 1000000000ull);
}

#endif
