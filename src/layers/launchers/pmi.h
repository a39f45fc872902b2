/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes one short text from rank 0 to all ranks of a job, through the store of their launcher. There are two protocols:
 * PMI-1, lines on a socket (MPICH's hydra, srun --mpi=pmi2), and PMIx, a library that is opened at run time (Open MPI, srun
 * --mpi=pmix). Neither is needed to build.
 *
 *    rank 0:      put key = text ─▶ barrier
 *    the others:                    barrier ─▶ get key
 *
 * A process that has used its launcher's store must say goodbye to the launcher, which takes an end without goodbye for a
 * crash. exit() and returning from main() say goodbye; _exit() does not. Only one thread may use these functions at a time.
 */
#ifndef COLLET_LAYERS_LAUNCHERS_PMI_H
#define COLLET_LAYERS_LAUNCHERS_PMI_H

#include "base/config.h"
#include "collet.h"

#include <stdbool.h>
#include <stdint.h>

#define PMI_TEXT_BYTES 320 /* Bytes of a text with its final zero. The text has no space, '=' or newline */

/* Does this process's launcher speak PMI-1, or PMIx? */
bool pmi_is_here(void);
bool pmix_is_here(void);

/* All ranks of the job call it. Rank 0 passes its text, the others get it in `text`. It waits for COLLET_INIT_TIMEOUT at
 * most. Errors: TIMEOUT, SYSTEM. */
enum collet_result pmi_share(int rank, const char *key, char text[PMI_TEXT_BYTES], const struct config *config);
enum collet_result pmix_share(int rank, const char *key, char text[PMI_TEXT_BYTES], const struct config *config);

#endif
