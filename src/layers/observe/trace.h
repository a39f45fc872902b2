/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_TRACE: the time of each step of a rank, the reasons of its waits, and the times when its wires carried data. The trace reads the
 * flight recorder. Its file is written when the rank's communicator ends.
 *
 *      visit        try: BUSY │ … │ visit        try: STEPPED        try: STEPPED      a reading of the counter at each mark: when
 *      ▲                            ▲                        ▲                   ▲     the visit begins, and behind a step that was done
 *                   └─ since        └─ begin                 └─ end, begin       └─ end
 *
 * A try that is BUSY does not read the counter: the wait begins at the last reading. An event holds only facts that nobody can
 * find out later. The rest is looked up in the program when the file is written.
 *
 * A message becomes an arrow if both its ends are found. Both ends give a message the same number: the number of
 * messages of the same round that go through its connection before it.
 */
#ifndef COLLET_LAYERS_OBSERVE_TRACE_H
#define COLLET_LAYERS_OBSERVE_TRACE_H

#include "api/comm.h"
#include "seams/observe.h"

struct trace;
/* Starts a communicator's trace. */
enum collet_result trace_begin(const struct collet_comm *comm, struct trace **trace_p);
/* Ends the trace: writes the file, if there are events. */
void trace_end(struct trace *trace, const struct recorder *recorder);

#endif
