/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-info: what this build is and how it is configured here and now.
 */
#include "base/config.h"
#include "base/err.h"
#include "base/os.h"
#include "kernels/reduce_host.h"
#include "transport/transport.h"

#include <stdio.h>

int main(int argc, char **argv) {
    struct config config;
    if (argc > 1) {
        fprintf(stderr, "%s: unexpected argument \"%s\"; it takes none\n", argv[0], argv[1]);
        return 2;
    }
    printf("collet %d.%d.%d\n", COLLET_MAJOR, COLLET_MINOR, COLLET_PATCH);
    printf("host %s, %d CPUs allowed, reductions: %s\n", os_host_name(), os_cpu_count(), reduce_host_variant());
    printf("transports:");
    for (const struct transport *const *t = transports; *t != NULL; t++)
        printf(" %s", (*t)->name);
    printf("\n\n");
    if (config_read(&config) != COLLET_SUCCESS) {
        fprintf(stderr, "%s: %s\n", argv[0], err_last());
        return 1;
    }
    config_print(&config, stdout);
    return 0;
}
