/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "elastic": no communicator has a parent.
 */
#include "seams/elastic.h"

#include "api/comm.h"
#include "api/join.h"

enum collet_result split_join(struct collet_comm *comm) { return comm_join_alone(comm); }

enum collet_result split_poll(struct collet_comm *parent) {
    (void)parent;
    return COLLET_SUCCESS;
}

void split_discard(struct collet_comm *comm) { (void)comm; }
