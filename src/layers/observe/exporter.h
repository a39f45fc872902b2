/* SPDX-License-Identifier: Apache-2.0
 *
 * COLLET_METRICS: this process shows its ranks, even while the program hangs. The watch does it, and for a file a thread of its own.
 *
 *      9400, 9400-9407, ADDRESS:9400     a server at the first of these ports that is free: HTTP, one page whatever is asked for
 *      /run/collet.%p.prom               a file, written anew every 10 s
 */
#ifndef COLLET_LAYERS_OBSERVE_EXPORTER_H
#define COLLET_LAYERS_OBSERVE_EXPORTER_H

#include "base/err.h"

#include <stdbool.h>

struct collet_comm;

/* From now on the rank is among those of its process, if its COLLET_METRICS has them shown. */
enum collet_result exporter_add(struct collet_comm *comm);
void exporter_remove(struct collet_comm *comm); /* harmless if it was not added */

#endif
