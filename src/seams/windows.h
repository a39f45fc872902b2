/* SPDX-License-Identifier: Apache-2.0
 *
 * What communicators know of the layer "windows": a group registers windows. Without the layer there are none.
 */
#ifndef COLLET_SEAMS_WINDOWS_H
#define COLLET_SEAMS_WINDOWS_H

#include "collet.h"

#include <stddef.h>

/* A checked call of collet_win_register(). */
struct window_post {
    struct collet_comm *comm;
    void *buff;
    size_t bytes;
    struct collet_window **window_p;
};

/* Registers several windows at once, and blocks until the other ranks come. The posts may be of ranks of one communicator, which wait
 * for each other. Returns the first failure. */
enum collet_result window_register_all(const struct window_post *posts, int nposts);

#endif
