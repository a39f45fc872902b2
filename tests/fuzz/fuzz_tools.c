/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that tools are given: tables of perf programs (collet-plot), samples of a lab (collet-tune --samples), edited programs
 * (collet-prog --edited).
 */
#define main plot_main
#include "layers/tools/collet-plot.c"
#undef main
#include "layers/tools/common/arguments.c"
#include "layers/tools/common/sink.c"
#include "layers/tools/common/text.c"
#include "layers/tools/plot/walk.c"
#include "layers/tools/prog/script.c"
#include "layers/tools/tune/samples.c"

#include "fuzz.h"

#include <unistd.h>

#define ROUNDS_BEFORE 3

/* ---- tables ---- */

static void with_tables(const uint8_t *data, size_t size) {
    static struct plot plot;
    char path[64], *paths[] = {path}, *text = NULL;
    size_t bytes;
    const int fd = fuzz_file(data, size, path);
    memset(&plot, 0, sizeof plot);
    if (read_files(&plot, paths, 1)) {
        FILE *out = open_memstream(&text, &bytes);
        write_script(out, &plot, "out.svg");
        fclose(out);
        free(text);
    }
    close(fd);
}

/* ---- samples ---- */

const char *const lab_class_names[LAB_CLASSES] = {[LAB_NEAR] = "near", [LAB_FAR] = "far"};
const char *lab_name(const struct plan_choice *candidate, char name[LAB_NAME_BYTES]) {
    snprintf(name, LAB_NAME_BYTES, "%s", candidate->algorithm->name);
    return name;
}

/* Of two labs, which have some rounds already. */
static void with_samples(const uint8_t *data, size_t size) {
    static struct lab few, many;
    struct lab *const labs[] = {&few, &many};
    char path[64];
    const int fd = fuzz_file(data, size, path);
    for (int k = 0; k < 2; k++) {
        *labs[k] = (struct lab){.cpus = 2, .ncandidates = 2, .rounds = ROUNDS_BEFORE};
        labs[k]->options = (struct lab_options){.nranks = 2 + 2 * k, .transport = "shm", .sizes = {8, 64}, .nsizes = 2};
        for (int c = 0; c < 2; c++)
            labs[k]->candidates[c].algorithm = &algorithms[c];
    }
    (void)samples_read(path, labs, 2);
    close(fd);
    for (int k = 0; k < 2; k++)
        if (labs[k]->rounds < ROUNDS_BEFORE || labs[k]->rounds > LAB_ROUNDS_MAX)
            abort();
}

/* ---- programs ---- */

static void with_programs(struct fuzz_input *input) {
    const uint8_t kind = fuzz_byte(input);
    const struct prog_shape shape = PROG_FLAT(1 + kind % 4);
    char why[256], *printed = NULL, *text = strndup((const char *)input->data, input->size);
    size_t bytes;
    struct cast cast;
    const struct algorithm *of = &algorithms[(kind >> 2) % 8];
    const struct algorithm algorithm = script_algorithm(of, shape.nranks, text);
    if (prog_check(&algorithm, &shape, 0, 2, kind >> 5 & 1, why, sizeof why) &&
        cast_create(&algorithm, &shape, 0, &cast) == COLLET_SUCCESS) {
        FILE *out = open_memstream(&printed, &bytes);
        script_print(&cast, out);
        fclose(out);
        const struct algorithm again = script_algorithm(of, shape.nranks, printed);
        if (!prog_check(&again, &shape, 0, 2, kind >> 5 & 1, why, sizeof why))
            abort(); /* what is printed reads as the same */
        free(printed);
        cast_destroy(&cast);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    switch (fuzz_byte(&input) % 3) {
    case 0: with_tables(input.data, input.size); break;
    case 1: with_samples(input.data, input.size); break;
    default: with_programs(&input);
    }
    return 0;
}
