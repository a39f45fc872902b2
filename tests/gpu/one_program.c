/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of the acceptance as one, for its bundle: each by itself would bring all kernels along.
 *
 *    one_program NAME argument…     test_accept, collet-info, collet-tune, all_reduce_perf, overlap
 *
 * The Makefile has renamed their main().
 */
#include <stdio.h>
#include <string.h>

#define PROGRAMS(X)                                                                                                    \
    X("test_accept", test_accept_main)                                                                                 \
    X("collet-info", collet_info_main)                                                                                 \
    X("collet-tune", collet_tune_main)                                                                                 \
    X("all_reduce_perf", all_reduce_perf_main)                                                                         \
    X("overlap", overlap_main)

#define DECLARE(name, function) int function(int argc, char **argv);
PROGRAMS(DECLARE)

#define ROW(name, function) {name, function},
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} programs[] = {PROGRAMS(ROW)};

int main(int argc, char **argv) {
    for (size_t k = 0; argc > 1 && k < sizeof(programs) / sizeof(*programs); k++)
        if (strcmp(programs[k].name, argv[1]) == 0)
            return programs[k].run(argc - 1, argv + 1);
    fprintf(stderr, "usage: one_program NAME argument…; names are");
    for (size_t k = 0; k < sizeof(programs) / sizeof(*programs); k++)
        fprintf(stderr, " %s", programs[k].name);
    fprintf(stderr, "\n");
    return 2;
}
