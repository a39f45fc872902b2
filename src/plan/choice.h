/* SPDX-License-Identifier: Apache-2.0
 *
 * How a collective is done: what a planner chooses, and a call is made of.
 */
#ifndef COLLET_PLAN_CHOICE_H
#define COLLET_PLAN_CHOICE_H

#include "fifo/protocol.h"
#include "program/program.h"

#include <stddef.h>

struct plan_choice {
    const struct algorithm *algorithm; /* NULL: not chosen yet */
    enum protocol protocol;
    int nchannels;
    uint32_t chunk_bytes;
    double predicted_ns;
};

/* The choice in words, for logs and collet_comm_plan(). */
void plan_choice_text(const struct plan_choice *choice, char *text, size_t room);

#endif
