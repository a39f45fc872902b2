/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "elastic": no communicator has a parent, and no guest is sent on to another meeting point.
 */
#include "seams/elastic.h"

#include "api/comm.h"

enum collet_result split_join(struct collet_comm *comm) { return comm_join_alone(comm); }

enum collet_result split_poll(struct collet_comm *parent) {
    (void)parent;
    return COLLET_SUCCESS;
}

void split_discard(struct collet_comm *comm) { (void)comm; }

void relay_destroy(struct relay *relay) { (void)relay; }

bool relay_via(struct rendezvous *meeting, const struct frame *frame) {
    (void)meeting, (void)frame;
    return false;
}

void relay_pass_up(struct relay *relay, const struct frame *frame) { (void)relay, (void)frame; }
void relay_fail(struct relay *relay, const struct failure *failure) { (void)relay, (void)failure; }
