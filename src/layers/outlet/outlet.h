/* SPDX-License-Identifier: Apache-2.0
 *
 * Output that never waits for a file system. How is each thing done?
 *
 *      opening, closing, a whole file    are done apart (apart.h)
 *      a text for a pipe, a terminal     is tried until its time is over
 *      a text for a file of this host    is written at once
 *      a text for any other file         is written apart: NFS, FUSE …
 *
 * If a call that is made apart does not return, it is left alone. While there is such a call, further texts for such files are lost.
 */
#ifndef COLLET_LAYERS_OUTLET_OUTLET_H
#define COLLET_LAYERS_OUTLET_OUTLET_H

#include "seams/outlet.h"

void outlet_close(int fd);

/* Makes a whole file of a text, and replaces its earlier content. False: output_why() says why; or the file was not written
 * within limit_ms (a second more, if the machine is busy). */
bool outlet_save(const char *pattern, int rank, const char *text, unsigned long bytes, int limit_ms);

/* Like outlet_save(), but readers find the old text or the new text, each as a whole. */
bool outlet_replace(const char *pattern, const char *text, unsigned long bytes, int limit_ms);

#endif
