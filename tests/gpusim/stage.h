/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of a collective on GPUs of the simulated machine: the kernels that ship, in the PTX that nvcc made of them, with
 * programs and connections as the library gives them to a GPU (common/gang.h), but without the library.
 *
 *    stage_objects ─▶ stage_begin ─▶ stage_run ─▶ … ─▶ stage_end
 */
#ifndef COLLET_GPUSIM_STAGE_H
#define COLLET_GPUSIM_STAGE_H

#include "common/gang.h"
#include "gpusim/machine.h"

#define STAGE_RANKS_MAX 8
#define STAGE_CHANNELS 2
#define STAGE_WHY_BYTES 512

struct scene {
    const char *algorithm;
    enum prog_collective collective;
    enum protocol protocol;
    int nranks;
    uint32_t gpus; /* rank r is on GPU r modulo gpus */
    size_t count;  /* elements */
    uint32_t lanes;
    uint32_t calls; /* of a run, on the same connections */
    enum collet_type type;
    enum collet_op op;
    uint32_t lends_from; /* payloads of so many bytes are read where they are; 0: none is */
    bool in_place;
};

/* What GPUs may do in memory of others; the last one: lend what they overwrite. */
enum right {
    RIGHTS_ALL,
    RIGHTS_NO_PEERS,
    RIGHTS_WRONG_WAY,
    RIGHTS_SLOTS_READ_ONLY,
    RIGHTS_HEADS_READ_ONLY,
    RIGHTS_FREED,
    RIGHTS_LOANS,
    RIGHTS_IN_PLACE
};

struct stage {
    const struct scene *scene;
    enum right right;
    struct gpusim_module *module;
    const struct gpusim_kernel *kernel;
};

/* Reads the PTX of the library: $BUILD/lib/libcollet.so, or the files that GPUSIM_OBJECTS names, with spaces between them, for
 * the architecture that GPUSIM_ARCH names (75). False: it has none. */
bool stage_objects(void);
/* With the mutation that is set. False: gpusim_error(). */
bool stage_begin(struct stage *stage, const struct scene *scene, enum right right);
void stage_end(struct stage *stage);
/* A run on a machine of its own. False: why says what was wrong. */
bool stage_run(const struct stage *stage, uint32_t seed, char why[STAGE_WHY_BYTES]);
/* Of all GPUs in the last run: what a step, a wait or a load asks for. */
struct gpusim_counts stage_counts(const struct stage *stage);
/* How often the payload of a rank passed memory in the last run: bytes that lanes loaded and stored, of all ranks. */
double stage_passes(const struct stage *stage);

#endif
