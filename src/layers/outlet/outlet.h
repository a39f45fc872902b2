/* SPDX-License-Identifier: Apache-2.0
 *
 * Output that waits for no file system. Who does what?
 *
 *      opening, closing, a whole file    are done apart (apart.h)
 *      a text for a pipe, a terminal     is tried until its time is over
 *      a text for a file of this host    is written at once
 *      a text for any other file         is written apart: NFS, FUSE …
 *
 * What is done apart and does not return is left alone. While there is such a call, further texts for such files are lost.
 */
#ifndef COLLET_LAYERS_OUTLET_OUTLET_H
#define COLLET_LAYERS_OUTLET_OUTLET_H

#include "seams/outlet.h"

void outlet_close(int fd);

/* Makes a whole file of a text. What was in the file before goes. False: that has not been done within limit_ms, or output_why(). */
bool outlet_save(const char *pattern, int rank, const char *text, unsigned long bytes, int limit_ms);

#endif
