/* SPDX-License-Identifier: Apache-2.0
 *
 * One short text from rank 0 to all ranks of a job, through the store that its launcher keeps for that. Two ways to speak
 * to launchers: PMI-1, lines on a socket (MPICH's hydra, srun --mpi=pmi2), and PMIx, a library that is opened when it is
 * needed (Open MPI, srun --mpi=pmix). Neither is needed to build.
 *
 *    rank 0:      put key = text ─▶ barrier
 *    the others:                    barrier ─▶ get key
 *
 * Once a process has spoken to its launcher, launchers expect it to say goodbye, and take an end without it for a crash:
 * exit() and returning from main() do so, _exit() does not. One thread at a time.
 */
#ifndef COLLET_LAYERS_LAUNCHERS_PMI_H
#define COLLET_LAYERS_LAUNCHERS_PMI_H

#include "base/config.h"
#include "collet.h"

#include <stdbool.h>
#include <stdint.h>

#define PMI_TEXT_BYTES 320 /* with the final zero; no space, '=' or newline in it */

/* Is this process's launcher one that understands it? */
bool pmi_is_here(void);
bool pmix_is_here(void);

/* Collective over the job. Rank 0 passes its text, the others get it there. Waits for COLLET_INIT_TIMEOUT at most. Errors:
 * TIMEOUT, SYSTEM. */
enum collet_result pmi_share(int rank, const char *key, char text[PMI_TEXT_BYTES], const struct config *config);
enum collet_result pmix_share(int rank, const char *key, char text[PMI_TEXT_BYTES], const struct config *config);

#endif
