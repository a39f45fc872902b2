/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that -J and --csv name. "-" is standard output: then the table goes to standard error.
 */
#include "perf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *take_output(void) {
    const int fd = dup(STDOUT_FILENO);
    fflush(stdout);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    return fdopen(fd, "w");
}

FILE *files_create(const char *path) {
    if (strcmp(path, "-") == 0)
        return take_output();
    size_t room = strlen(path) + 16;
    char *name = perf_allocate(room);
    FILE *file;
    snprintf(name, room, "%s", path);
    for (int suffix = 0; !(file = fopen(name, "wx")) && errno == EEXIST; suffix++)
        snprintf(name, room, "%s.%d", path, suffix);
    fprintf(stderr, file ? "%s: writes %s\n" : "%s: cannot write %s: %m\n", program_invocation_short_name, name);
    free(name);
    return file;
}
