/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a rank's last calls, and how far they are: collet_comm_dump(), COLLET_DUMP_FILE.
 */
#ifndef COLLET_LAYERS_OBSERVE_DUMP_H
#define COLLET_LAYERS_OBSERVE_DUMP_H

#include "layers/observe/recorder.h"

/* Prints the newest calls of the flight recorder. Another thread may be writing. */
void dump_print(const struct collet_comm *comm, FILE *out);

/* The communicator has failed: writes all calls of the flight recorder as JSON to COLLET_DUMP_FILE, once. */
void dump_save(const struct collet_comm *comm, enum collet_result result, const char *text);

/* Prints how far a call is, worker by worker. Another thread may be running the call. */
void exec_dump(const struct exec_call *call, FILE *out);

#endif
