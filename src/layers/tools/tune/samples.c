/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/tune/samples.h"

#include "base/err.h"

#include <string.h>

#define HEAD "collet-tune samples: %d CPUs, %15s"
#define LINE_BYTES 128

/* ---- out ---- */

static void write_cell(const struct lab *lab, int size, int candidate, FILE *out) {
    const struct lab_cell *cell = &lab->cells[size][candidate];
    char name[LAB_NAME_BYTES];
    for (int round = 0; round < lab->rounds; round++)
        if (cell->class[round] < LAB_CLASSES)
            fprintf(out, "%d %llu %s %d %.5g %s\n", lab->options.nranks, (unsigned long long)lab->options.sizes[size],
                    lab_class_names[cell->class[round]], round, cell->us[round],
                    lab_name(&lab->candidates[candidate], name));
}

void samples_write(struct lab *const *labs, int nlabs, FILE *out) {
    fprintf(out, "collet-tune samples: %d CPUs, %s\n# ranks bytes class round µs candidate\n", labs[0]->cpus,
            labs[0]->options.transport);
    for (int l = 0; l < nlabs; l++)
        for (int size = 0; size < labs[l]->options.nsizes; size++)
            for (int k = 0; k < labs[l]->ncandidates; k++)
                write_cell(labs[l], size, k, out);
}

/* ---- in ---- */

struct sample {
    int nranks, round;
    unsigned long long bytes;
    float us;
    char class[8], candidate[LAB_NAME_BYTES];
};

static struct lab *lab_of(struct lab *const *labs, int nlabs, int nranks) {
    for (int l = 0; l < nlabs; l++)
        if (labs[l]->options.nranks == nranks)
            return labs[l];
    return NULL;
}

static int size_of(const struct lab *lab, uint64_t bytes) {
    int size = 0;
    while (size < lab->options.nsizes && lab->options.sizes[size] != bytes)
        size++;
    return size;
}

static int candidate_of(const struct lab *lab, const char *name) {
    char known[LAB_NAME_BYTES];
    int k = 0;
    while (k < lab->ncandidates && strcmp(lab_name(&lab->candidates[k], known), name) != 0)
        k++;
    return k;
}

static int class_of(const char *name) {
    int class = 0;
    while (class < LAB_CLASSES && strcmp(lab_class_names[class], name) != 0)
        class ++;
    return class;
}

/* Stores a sample. Returns NULL, or what does not fit. */
static const char *put(struct lab *const *labs, int nlabs, const int *first_round, const struct sample *sample) {
    struct lab *lab = lab_of(labs, nlabs, sample->nranks);
    if (lab == NULL)
        return "so many ranks are not among --procs";
    int size = size_of(lab, sample->bytes), candidate = candidate_of(lab, sample->candidate);
    int class = class_of(sample->class), l = 0;
    while (labs[l] != lab)
        l++;
    if (size == lab->options.nsizes)
        return "this size is not among --sizes";
    if (candidate == lab->ncandidates)
        return "there is no such candidate";
    if (class == LAB_CLASSES || sample->round < 0 || !(sample->us > 0))
        return "near or far, a round from 0 and a time are needed";
    if (sample->round >= LAB_ROUNDS_MAX - first_round[l])
        return "there are more rounds than can be judged together";
    const int round = first_round[l] + sample->round;
    lab->cells[size][candidate].us[round] = sample->us;
    lab->cells[size][candidate].class[round] = (uint8_t) class;
    if (lab->rounds <= round)
        lab->rounds = round + 1;
    return NULL;
}

static bool refuse(const char *path, int line, const char *what) {
    err_set(COLLET_ERR_INVALID_ARGUMENT, "%s, line %d: %s", path, line, what);
    return false;
}

static bool head_fits(const char *text, const struct lab *lab) {
    int cpus;
    char transport[16];
    return sscanf(text, HEAD, &cpus, transport) == 2 && cpus == lab->cpus &&
           strcmp(transport, lab->options.transport) == 0;
}

static bool read_samples(FILE *in, const char *path, struct lab *const *labs, int nlabs) {
    char text[LINE_BYTES];
    int first_round[nlabs];
    for (int l = 0; l < nlabs; l++)
        first_round[l] = labs[l]->rounds;
    if (fgets(text, sizeof text, in) == NULL || !head_fits(text, labs[0]))
        return refuse(path, 1, "these are not samples of so many CPUs and this transport");
    for (int line = 2; fgets(text, sizeof text, in) != NULL; line++) {
        struct sample sample;
        if (text[0] == '#')
            continue;
        if (sscanf(text, "%d %llu %7s %d %f %47[^\n]", &sample.nranks, &sample.bytes, sample.class, &sample.round,
                   &sample.us, sample.candidate) != 6)
            return refuse(path, line, "ranks bytes class round µs candidate are needed");
        const char *wrong = put(labs, nlabs, first_round, &sample);
        if (wrong != NULL)
            return refuse(path, line, wrong);
    }
    return true;
}

bool samples_read(const char *path, struct lab *const *labs, int nlabs) {
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return refuse(path, 0, "cannot be opened");
    bool read = read_samples(in, path, labs, nlabs);
    fclose(in);
    return read;
}
