/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash of a few numbers. All ranks compute the same hash from the same numbers.
 */
#ifndef COLLET_BASE_HASH_H
#define COLLET_BASE_HASH_H

#include <stdint.h>

static inline uint32_t hash_mix(uint32_t hash, uint64_t value) {
    hash = (hash ^ (uint32_t)value) * 2654435761u;
    hash = (hash ^ (uint32_t)(value >> 32)) * 2246822519u;
    return hash ^ hash >> 15;
}

#endif
