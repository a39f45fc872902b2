/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a fuzz target on the files it is given: if there is no libFuzzer, the corpus is tried all the same.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_BYTES (1u << 20)

int main(int argc, char **argv) {
    uint8_t *room = malloc(MOST_BYTES);
    for (int k = 1; k < argc && room != NULL; k++) {
        FILE *file = fopen(argv[k], "rb");
        if (file == NULL) {
            perror(argv[k]);
            return 1;
        }
        size_t size = fread(room, 1, MOST_BYTES, file);
        fclose(file);
        uint8_t *exact = malloc(size + (size == 0)); /* so that a sanitizer sees its end */
        memcpy(exact, room, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    free(room);
    printf("%d inputs\n", argc - 1);
    return 0;
}
