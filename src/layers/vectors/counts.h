/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays of counts and displacements, as the caller gives them: checked, and turned into extents that live as long as the
 * call does.
 */
#ifndef COLLET_LAYERS_VECTORS_COUNTS_H
#define COLLET_LAYERS_VECTORS_COUNTS_H

#include "base/err.h"
#include "exec/exec.h"

/* The arguments about one buffer. */
struct counts {
    const char *name;     /* name of the counts in collet.h */
    const size_t *counts; /* [rank]; of a buffer that is one block: that block's, or NULL */
    const size_t *displs; /* [rank]; NULL: blocks lie one behind another */
};

/* Fills in what a request says of counts. Errors: INVALID_ARGUMENT (a NULL array, counts that contradict each other or
 * overflow), NO_MEMORY; request->extents is then NULL or the caller's to free, as otherwise. */
enum collet_result counts_read(struct exec_request *request, int rank, int nranks, const struct counts *in,
                               const struct counts *out);

/* INVALID_ARGUMENT if a buffer with elements is NULL, or buffers overlap otherwise than in place. */
enum collet_result counts_check_buffers(const struct exec_request *request, int rank, int nranks, const void *in,
                                        const void *out);

#endif
