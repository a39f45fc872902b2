/* SPDX-License-Identifier: Apache-2.0
 *
 * IP addresses as they travel in unique ids and tables, and which of this host's are worth offering.
 */
#ifndef COLLET_BOOT_ADDRESS_H
#define COLLET_BOOT_ADDRESS_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
    uint8_t family; /* 4 or 6 */
    uint8_t link;   /* addresses of one interface have the same; 0: of an interface that is not known */
    uint8_t speed;  /* log2 of its Mbit/s; 0: not known */
    uint8_t wanted; /* 1: of the interface that a connection is meant to use */
    uint8_t ip[16]; /* network order; the first four bytes for IPv4 */
};
_Static_assert(sizeof(struct address) == 20, "travels in unique ids");

/* Where something listens: each of these addresses, on one port. */
#define ADDRESS_MAX 4
struct address_set {
    struct address addresses[ADDRESS_MAX];
    uint16_t count, port;
    uint32_t zero;
};
/* Is what another process sent a set of 1 … ADDRESS_MAX addresses of known kinds, and a port? */
bool address_set_valid(const struct address_set *set);

#define ADDRESS_TEXT_BYTES 64
void address_text(const struct address *address, int port, char text[ADDRESS_TEXT_BYTES]);
/* "a:1, b:1 …", cut to fit. */
void address_set_text(const struct address_set *set, char *text, size_t room);

bool address_is_loopback(const struct address *address);
socklen_t address_to_sockaddr(const struct address *address, int port, struct sockaddr_storage *storage);

/* Was this connection made to an address of an interface that COLLET_SOCKET_IFNAME allows? "" allows all. */
bool address_came_to(int fd, const char *ifname);

/* A socket that listens at all addresses of this host, AF_INET6 for both kinds; port 0: any of COLLET_PORT_RANGE. −1: errno
 * says why not. */
int address_listen(int family, int port);
/* The same at one address of this host, and this port. */
int address_listen_at(const struct address *address, int port);
int address_port(int fd); /* where it listens */

/* COLLET_SOCKET_FAMILY's text: 0 for both, else AF_INET or AF_INET6. Another text is an INVALID_USAGE. */
enum collet_result address_family(const char *text, int *family_p);

/* Fills set->addresses with this host's usable ones: interfaces that are up and that ifname allows (see
 * COLLET_SOCKET_IFNAME), loopback last. Those of the interface `wanted` come first and are marked; "" wants none. family as
 * from address_family(). SYSTEM if there is none. */
enum collet_result address_local(const char *ifname, int family, const char *wanted, struct address_set *set);

/* An address of this interface, if it is up and has one of the family (AF_INET or AF_INET6). */
bool address_of_interface(const char *interface, int family, struct address *address);

/* The name of the interface that has this address, "?" if none has. */
#define ADDRESS_INTERFACE_BYTES 16 /* IFNAMSIZ */
void address_interface(const struct address *address, char interface[ADDRESS_INTERFACE_BYTES]);

/* Says in the log which of the interfaces that ifname allows are down, and so are not among these. */
void address_log_down(const char *ifname);

/* Does ifname (a list of prefixes; ^ in front excludes, = compares whole names; "" allows all) allow this interface? */
int address_interface_allowed(const char *ifname, const char *interface);

/* Fills set->addresses with what host means; SYSTEM with the resolver's reason. May ask a name server. */
enum collet_result address_resolve(const char *host, int family, struct address_set *set);

/* Splits "host:port" or "[v6]:port"; variable is what the error blames. */
#define ADDRESS_HOST_BYTES 256
enum collet_result address_parse(const char *variable, const char *text, char host[ADDRESS_HOST_BYTES], int *port_p);

#endif
