/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread of a communicator that drives its asynchronous calls while nobody waits for them. It begins with the first such
 * call and ends with the communicator.
 *
 *    asleep ──── a call was issued, or a driver left calls behind ───▶ drives
 *           ◀─── nothing is left, or another thread drives or wants to
 *
 * A thread that waits goes first: it does its calls itself, without a change of threads.
 */
#ifndef COLLET_LAYERS_STREAMS_ENGINE_THREAD_H
#define COLLET_LAYERS_STREAMS_ENGINE_THREAD_H

#include "seams/streams.h"

struct engine_thread;

/* With the lock under which asynchronous calls are issued. Again: no effect. */
enum collet_result engine_thread_start(struct collet_comm *comm);

#endif
