/* SPDX-License-Identifier: Apache-2.0
 *
 * A CRC is the remainder of a division of polynomials over bits. The CPU divides 8 bytes by one instruction. The table holds
 * the remainders of 4 bits, for CPUs without this instruction.
 */
#include "base/crc32c.h"

#include <string.h>

static const uint32_t remainders[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

/* Computes the same CRC without a special CPU instruction. */
static uint32_t crc32c_by_table(uint32_t before, const void *data, size_t bytes) {
    uint32_t crc = ~before;
    for (const uint8_t *at = data; bytes > 0; bytes--) {
        crc ^= *at++;
        crc = crc >> 4 ^ remainders[crc & 15];
        crc = crc >> 4 ^ remainders[crc & 15];
    }
    return ~crc;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t before, const void *data, size_t bytes) {
    const uint8_t *at = data;
    uint64_t crc = ~before, word;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; bytes > 0; bytes--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *at++);
    return ~(uint32_t)crc;
}

uint32_t crc32c(uint32_t before, const void *data, size_t bytes) {
    return __builtin_cpu_supports("sse4.2") ? by_instruction(before, data, bytes)
                                            : crc32c_by_table(before, data, bytes);
}

#else

uint32_t crc32c(uint32_t before, const void *data, size_t bytes) { return crc32c_by_table(before, data, bytes); }

#endif
