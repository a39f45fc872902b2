/* SPDX-License-Identifier: Apache-2.0
 *
 * A communicator's thread that drives its asynchronous calls while nobody waits for them. It begins with the first such
 * call and ends with the communicator.
 *
 *    asleep ──── a call was issued, or a driver left calls behind ───▶ drives
 *           ◀─── nothing is left, or another thread drives or wants to
 *
 * A thread that waits for calls drives them itself, before this thread: so no switch between threads is needed.
 */
#ifndef COLLET_LAYERS_STREAMS_ENGINE_THREAD_H
#define COLLET_LAYERS_STREAMS_ENGINE_THREAD_H

#include "seams/streams.h"

struct engine_thread;

/* Starts the thread, unless it runs already. The caller holds the lock under which asynchronous calls are issued. */
enum collet_result engine_thread_start(struct collet_comm *comm);

#endif
