/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "elastic": no communicator has a parent, no vote comes, and no guest is sent on to another meeting point.
 */
#include "seams/elastic.h"

#include "base/err.h"

enum collet_result split_try(struct collet_comm *comm, bool *settles) {
    (void)comm, (void)settles;
    return COLLET_SUCCESS;
}

enum collet_result split_settle(struct collet_comm *comm, enum collet_result result) {
    (void)comm;
    return result;
}

void split_end(struct collet_comm *comm, enum collet_result result) { (void)comm, (void)result; }
void split_refuse(struct collet_comm *comm, enum collet_result code) { (void)comm, (void)code; }

enum collet_result split_poll(struct collet_comm *parent) {
    (void)parent;
    return COLLET_SUCCESS;
}

void split_discard(struct collet_comm *comm) { (void)comm; }

struct letter *hub_recall(struct hub *hub, const struct letter *vote) {
    (void)hub, (void)vote;
    return NULL;
}

void hub_forget_consents(struct hub *hub) { (void)hub; }

enum collet_result hub_stock_consent(struct boot *boot) {
    (void)boot;
    return COLLET_SUCCESS;
}

void relay_create(struct rendezvous *meeting, const struct frame *frame) { (void)meeting, (void)frame; }
void relay_destroy(struct relay *relay) { (void)relay; }

bool relay_leads_to(const struct relay *relay, const struct frame *frame) {
    (void)relay, (void)frame;
    return false;
}

void relay_announce(struct relay *relay, int rank) { (void)relay, (void)rank; }
void relay_pass_up(struct relay *relay, const struct frame *frame) { (void)relay, (void)frame; }
void relay_fail(struct relay *relay, const struct failure *failure) { (void)relay, (void)failure; }
