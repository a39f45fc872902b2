/* SPDX-License-Identifier: Apache-2.0
 *
 * Is a test linked with the whole library, or with the core and some layers (tests/common/part.c)?
 */
#ifndef COLLET_TESTS_WHOLE_H
#define COLLET_TESTS_WHOLE_H

#include <stdbool.h>

extern const bool library_is_whole;

#endif
