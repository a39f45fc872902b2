/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank tells collet-status of itself. The watch makes the report; the rank's own threads need do nothing.
 */
#ifndef COLLET_LAYERS_OBSERVE_REPORT_H
#define COLLET_LAYERS_OBSERVE_REPORT_H

#include "api/engine.h"

#define REPORT_CALLS 6

/* A call that is under way. */
struct report_call {
    uint64_t sequence, count;
    uint64_t idle_ns; /* since when it has not moved; 0: it moves */
    int32_t collective, type, op, root;
    int32_t waits_for;           /* a rank; −1: for none */
    uint8_t connecting, sending; /* it waits for a connection; for credit, not for data */
    uint16_t protocol;
    char algorithm[16];
};

struct report {
    uint64_t calls; /* collectives so far */
    uint64_t counters[CONN_COUNTERS];
    int32_t failure;
    int32_t ncalls; /* under way: so many of them are below */
    char name[32];  /* of the communicator */
    struct report_call call[REPORT_CALLS];
    char error[256]; /* of the failure, cut */
};
_Static_assert(sizeof(struct report) <= BOOT_REPORT_BYTES, "travels as a report");

/* The boot_reporter of a communicator. */
size_t report_make(const void *comm, char text[BOOT_REPORT_BYTES]);

/* What a rank of another process has said. False: it is no report. Numbers in it may be any. */
bool report_read(const void *text, size_t bytes, struct report *report);

#endif
