/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/common/sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *written; /* Name of the file that is standard output now. NULL: standard output is as it was. */

static bool cannot_write(const char *option, const char *path) {
    fprintf(stderr, "%s: %s: cannot write %s: %s\n", program_invocation_short_name, option, path, strerror(errno));
    return false;
}

void sink_wrote(const char *path) { fprintf(stderr, "%s: wrote %s\n", program_invocation_short_name, path); }

bool sink_begin(const char *path) {
    if (path == NULL || strcmp(path, "-") == 0)
        return true;
    written = path;
    return freopen(path, "w", stdout) != NULL || cannot_write("--output", path);
}

int sink_end(int status) {
    const bool failed = ferror(stdout) != 0;
    if (fflush(stdout) != 0 || failed) {
        cannot_write("--output", written != NULL ? written : "standard output");
        return EXIT_FAILURE;
    }
    if (written != NULL)
        sink_wrote(written);
    return status;
}

FILE *sink_open(const char *option, const char *path) {
    FILE *file = fopen(path, "we");
    if (file == NULL)
        cannot_write(option, path);
    return file;
}

bool sink_close(const char *option, const char *path, FILE *file) {
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        return cannot_write(option, path);
    sink_wrote(path);
    return true;
}
