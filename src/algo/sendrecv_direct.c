/* SPDX-License-Identifier: Apache-2.0
 *
 * Send and receive: one step each, at the two ends of a connection. The root of the program is the peer.
 *
 *      send   IN ──▶ peer                 recv   peer ──▶ OUT
 *
 * The connection has its own lane, so that a user's messages never mix with messages of a collective. The peer may be the rank itself:
 * then the connection leads from the rank to itself, and send and receive are two workers that run at the same time.
 */
#include "program/program.h"

void send_direct_build(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .local = IN(0), .send = PEER_LANE(prog->root, PROG_LANE_P2P));
}

void recv_direct_build(struct prog *prog) {
    prog_worker(prog);
    prog_step(prog, .recv = PEER_LANE(prog->root, PROG_LANE_P2P), .store = OUT(0));
}
