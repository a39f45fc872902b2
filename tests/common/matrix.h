/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix of conformance cases: every way to make a collective call that is worth telling from the others.
 *
 *      algorithm × protocol × setting × layout × ranks × type × op × count × place
 */
#ifndef COLLET_TESTS_MATRIX_H
#define COLLET_TESTS_MATRIX_H

#include "common/cover.h"
#include "common/trial.h"

enum matrix_parameter { ALGORITHM, PROTOCOL, SETTING, LAYOUT, NRANKS, TYPE, OP, COUNT, PLACE, NPARAMETERS };

/* Where the ranks live: values of LAYOUT. */
enum matrix_layout {
    GROUP,   /* one thread drives all */
    THREADS, /* of one process */
    HYBRID,  /* two processes, whose threads drive half of them each */
    SHM,     /* a process each */
    TCP,
};

#define MATRIX_RANKS_MAX 8

/* The product of all parameters; algorithms are those of the library's registry. */
struct cover matrix_create(void);

struct trial_call matrix_call(const struct cover_case *c);
int matrix_nranks(const struct cover_case *c);
uint64_t matrix_seed(const struct cover_case *c);
const char *matrix_layout_name(const struct cover_case *c);

#define MATRIX_NAME_BYTES 256
/* "allreduce/ring LL wrap32 shm float32 sum in-place count=17 n=5" */
void matrix_name(const struct cover_case *c, char name[MATRIX_NAME_BYTES]);

/* Sets the variables that a communicator for this case needs. */
void matrix_set_environment(const struct cover_case *c);

/* Order of cases: 0 if the same communicator can serve both … */
int matrix_by_team(const struct cover_case *a, const struct cover_case *b);
/* … and for qsort(): first by where the ranks live and how many they are, then by communicator, then mixed. */
int matrix_by_set_and_team(const void *first, const void *second);

#endif
