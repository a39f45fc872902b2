/* SPDX-License-Identifier: Apache-2.0
 *
 * The program check: an algorithm that emits what the bytes say. The check may refuse it; what it accepts it must have run.
 */
#include "fuzz.h"
#include "program/program.h"

#define STEPS_MOST 12

static struct fuzz_input text;

static struct local local_of(struct fuzz_input *input) {
    static const enum step_region regions[] = {STEP_NONE, STEP_IN, STEP_OUT, STEP_TMP, STEP_IN, STEP_OUT};
    uint8_t kind = fuzz_byte(input);
    int count = kind & 0x40 ? fuzz_byte(input) % 4 : 1;
    struct run run = {fuzz_byte(input) % 8 - 1, count, kind & 0x80 ? (int8_t)fuzz_byte(input) : 1, 1};
    return (struct local){regions[kind % 6], run};
}

static struct peers peers_of(struct fuzz_input *input) {
    uint8_t kind = fuzz_byte(input);
    return (struct peers){.first = kind % 8 - 1, .count = kind >> 3 & 7 ? (kind >> 3 & 7) - 2 : 0, .lane = kind >> 6};
}

static void build(struct prog *prog) {
    struct fuzz_input input = text;
    uint8_t kind = fuzz_byte(&input);
    prog_slices(prog, 1 + kind % 4);
    if (kind & 0x10)
        prog_tmp(prog, kind >> 5);
    for (int k = 0; k < STEPS_MOST && input.size > 0; k++) {
        kind = fuzz_byte(&input);
        if (k == 0 || kind % 8 == 0)
            prog_worker(prog);
        bool mine = kind & 0x40 ? prog->rank == (kind >> 4 & 3) : true;
        struct step_text step = {.local = local_of(&input),
                                 .local_at = kind >> 3 & 1,
                                 .store = local_of(&input),
                                 .recv = peers_of(&input),
                                 .send = peers_of(&input),
                                 .finish = kind & 2,
                                 .copied = kind & 4,
                                 .origin = {__FILE__, __LINE__}};
        if (kind & 0x80) { /* relative to the rank, as most algorithms are */
            step.recv.first += prog->rank;
            step.send.first += prog->rank;
            step.store.run.first += prog->rank;
        }
        if (mine)
            prog_emit(prog, step);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    char why[256];
    uint8_t kind = fuzz_byte(&input), more = fuzz_byte(&input);
    struct prog_shape shape = PROG_FLAT(1 + more % 4);
    struct algorithm algorithm = {.name = "fuzz",
                                  .collective = (enum prog_collective)(kind % PROG_COLLECTIVE_COUNT),
                                  .build = build,
                                  .order = more & 0x80 ? PROG_IN_RANK_ORDER : PROG_ANY_ORDER};
    text = input;
    (void)prog_check(&algorithm, &shape, (more >> 2) % shape.nranks, 1 + (more >> 4 & 3), more & 0x40, why, sizeof why);
    return 0;
}
