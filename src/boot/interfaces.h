/* SPDX-License-Identifier: Apache-2.0
 *
 * The network interfaces of this host with their addresses, and which of these are worth offering to others.
 */
#ifndef COLLET_BOOT_INTERFACES_H
#define COLLET_BOOT_INTERFACES_H

#include "boot/address.h"

/* An interface, with one of its addresses. The list has an entry without address for each interface, and one for each address. */
struct interface {
    char name[ADDRESS_INTERFACE_BYTES];
    unsigned flags; /* IFF_UP, IFF_RUNNING, IFF_LOOPBACK, … */
    struct address
        address; /* Its fields `link` and `speed` are set in all entries. Family 0: the entry has no address. */
};
struct interfaces {
    int count;
    struct interface list[];
};

/* Asks the kernel; the caller frees the list. NULL: errno says why there is none. May wait for as long as other programs change interfaces:
 * outlet_interfaces() has a limit. */
struct interfaces *interfaces_read(void);

/* Fills set->addresses with usable addresses of this host: of interfaces that are up, and that ifname allows (COLLET_SOCKET_IFNAME).
 * Addresses of interface `wanted` are first and marked ("": none is wanted). Loopback is last. family: see address_family(). Errors:
 * SYSTEM if there is none. */
enum collet_result address_local(const char *ifname, int family, const char *wanted, struct address_set *set);

/* An address of this interface with this family (AF_INET or AF_INET6). False: the interface is down, or has none. */
bool address_of_interface(const char *interface, int family, struct address *address);

/* Finds the name of the interface with this address; "?": none has it. */
void address_interface(const struct address *address, char interface[ADDRESS_INTERFACE_BYTES]);

/* Logs the interfaces that ifname allows but that are down, and so are not used. */
void address_log_down(const char *ifname);

/* Did this connection come to an interface that COLLET_SOCKET_IFNAME allows? "": all are allowed. */
bool address_came_to(int fd, const char *ifname);

#endif
