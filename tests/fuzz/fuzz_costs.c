/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_TUNER_FILE: what is read is printed, and reads as the same.
 */
#include "fuzz.h"
#include "layers/tuner/costs_file.h"

#include <stdlib.h>
#include <unistd.h>

static bool read_bytes(const void *data, size_t size, struct cost_table *costs) {
    char path[64];
    int fd = fuzz_file(data, size, path);
    bool good = costs_read(path, costs) == COLLET_SUCCESS;
    close(fd);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct cost_table costs, again;
    char *text = NULL;
    size_t bytes;
    costs = again = costs_default;
    if (!read_bytes(data, size, &costs))
        return 0;
    FILE *out = open_memstream(&text, &bytes);
    costs_print(&costs, "", out);
    fclose(out);
    if (!read_bytes(text, bytes, &again))
        abort();
    free(text);
    return 0;
}
