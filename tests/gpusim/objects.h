/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of an object or a library that nvcc has made, or of a PTX file, as texts for the simulated machine.
 */
#ifndef COLLET_GPUSIM_OBJECTS_H
#define COLLET_GPUSIM_OBJECTS_H

#include "gpusim/machine.h"

#define OBJECTS_MAX 64
struct objects {
    char *texts[OBJECTS_MAX]; /* PTX, one per fatbin */
    int n;
};

/* False: there is no such file, or it has neither fatbins nor PTX. */
bool objects_read(struct objects *objects, const char *path, uint32_t arch);
void objects_free(struct objects *objects);
/* The text that has a kernel whose mangled name contains this, and its whole name; NULL: none has. */
const char *objects_find(const struct objects *objects, const char *part, char *name, size_t room);

#endif
