/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC32C (Castagnoli): finds every error of up to 32 bits in a row, and all but one in 2³² of the others.
 */
#ifndef COLLET_BASE_CRC32C_H
#define COLLET_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of earlier bytes, followed by these data. before: the CRC of the earlier bytes; 0: there are none. */
uint32_t crc32c(uint32_t before, const void *data, size_t bytes);

#endif
