/* SPDX-License-Identifier: Apache-2.0
 *
 * The caller's arrays of counts and displacements. They are checked, and turned into extents that live as long as the call.
 */
#ifndef COLLET_LAYERS_VECTORS_COUNTS_H
#define COLLET_LAYERS_VECTORS_COUNTS_H

#include "base/err.h"
#include "exec/exec.h"

/* The arguments for one buffer. */
struct counts {
    const char *name;     /* name of the counts in collet.h */
    const size_t *counts; /* [rank]; for a buffer of one block: the address of its count, or NULL */
    const size_t *displs; /* [rank]; NULL: blocks lie one behind another */
};

/* Fills in the request's fields that depend on counts. Errors: INVALID_ARGUMENT (a NULL array, counts that contradict
 * each other or overflow), NO_MEMORY. request->extents is then NULL, or the caller frees it as usual. */
enum collet_result counts_read(struct exec_request *request, int rank, int nranks, const struct counts *in,
                               const struct counts *out);

/* INVALID_ARGUMENT: a buffer with elements is NULL, or buffers overlap in another way than in place. */
enum collet_result counts_check_buffers(const struct exec_request *request, int rank, int nranks, const void *in,
                                        const void *out);

#endif
