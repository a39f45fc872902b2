/* SPDX-License-Identifier: Apache-2.0
 *
 * Over which interfaces the sockets between two ranks go.
 *
 *      the plan ties channels to NICs      all sockets over the interface of the ring's NIC, at both ends
 *      (nic.h), as where each NIC
 *      has a channel                       ring 0 ── channel 0 ── eth0 ═══ eth0        every interface has a channel of
 *                                          ring 1 ── channel 1 ── eth1 ═══ eth1        its own: together they use all
 *
 *      it does not: one channel for        sockets in turn over the listener's fastest interfaces
 *      several NICs, send and receive;
 *      or that interface leads nowhere     channel 0 ─┬─ socket 0 ── eth0 ═══ eth0     one channel uses all
 *                                                     └─ socket 1 ── eth1 ═══ eth1
 */
#ifndef COLLET_TRANSPORT_TCP_WAY_H
#define COLLET_TRANSPORT_TCP_WAY_H

#include "boot/address.h"
#include "transport/conn.h"

/* Binds a socket to one interface, as far as the kernel allows it. False: errno says why not. */
bool tcp_way_bind(int fd, int family, const char *interface);

/* Chooses among the addresses whose bit in `failed` is clear: one per fastest interface. Returns their number; 0: none is
 * left. */
int tcp_ways_choose(const struct address_set *set, unsigned failed, int ways[ADDRESS_MAX]);

/* Bits: the addresses of the interface to which the listener's end is tied; 0: it is not tied. */
unsigned tcp_ways_wanted(const struct address_set *set);

#endif
