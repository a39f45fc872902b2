/* SPDX-License-Identifier: Apache-2.0
 *
 * A fuzz target: one function of bytes that came from somebody else. It may refuse them. It may not crash, hang, leak, or
 * touch memory that it should not.
 *
 *     libFuzzer (clang)  ──┐                              ┌─▶ what a parser of the library does with them
 *     replay.c (any cc)  ──┴─▶ LLVMFuzzerTestOneInput() ──┘
 *     corpus/<target>/    what is tried first: samples, and every case that was once found
 */
#ifndef COLLET_TESTS_FUZZ_H
#define COLLET_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes numbers from the front of an input; behind its end all are 0. */
struct fuzz_input {
    const uint8_t *data;
    size_t size;
};

static inline uint8_t fuzz_byte(struct fuzz_input *input) {
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

/* At most `most` of the bytes that are left; *size says how many. */
static inline const uint8_t *fuzz_bytes(struct fuzz_input *input, size_t most, size_t *size) {
    const uint8_t *bytes = input->data;
    *size = input->size < most ? input->size : most;
    input->data += *size;
    input->size -= *size;
    return bytes;
}

/* Overwrites a few bytes of a message that is right, so that one comes deeper than noise does: count, then (place,
 * value) each. */
static inline void fuzz_patch(struct fuzz_input *input, void *message, size_t bytes) {
    for (int k = fuzz_byte(input) % 8; k > 0; k--) {
        size_t at = fuzz_byte(input) | (size_t)fuzz_byte(input) << 8;
        ((uint8_t *)message)[at % bytes] = fuzz_byte(input);
    }
}

/* A file that has these bytes; close() it. Its path is valid until then. */
int fuzz_file(const void *data, size_t size, char path[64]);

/* A Unix socket that has connected to this one. */
int fuzz_connect(int listener);

#endif
