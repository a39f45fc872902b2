/* SPDX-License-Identifier: Apache-2.0
 *
 * print_ptx FILE FOLDER: the PTX of an object or a library, as the simulated machine reads it: a file for each fatbin.
 */
#include "gpusim/objects.h"

#include <stdio.h>

#define ANY_ARCH 9999

int main(int argc, char **argv) {
    struct objects objects = {0};
    if (argc != 3 || !objects_read(&objects, argv[1], ANY_ARCH)) {
        printf("%s\n", argc == 3 ? gpusim_error() : "print_ptx FILE FOLDER");
        return 1;
    }
    for (int k = 0; k < objects.n; k++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%d.ptx", argv[2], k);
        FILE *file = fopen(path, "w");
        if (file == NULL || fputs(objects.texts[k], file) < 0 || fclose(file) != 0)
            return 1;
    }
    objects_free(&objects);
    return 0;
}
