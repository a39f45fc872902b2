/* SPDX-License-Identifier: Apache-2.0
 *
 * The planner's choice for a collective: algorithm, protocol, channels and chunk.
 */
#ifndef COLLET_PLAN_CHOICE_H
#define COLLET_PLAN_CHOICE_H

#include "fifo/protocol.h"
#include "program/program.h"

#include <stddef.h>

struct plan_choice {
    const struct algorithm *algorithm; /* NULL: nothing is chosen yet */
    enum protocol protocol;
    int nchannels;
    uint32_t chunk_bytes;
    double predicted_ns;
};

/* Writes the choice as a text, for logs and collet_comm_plan(). */
void plan_choice_text(const struct plan_choice *choice, char *text, size_t room);

#endif
