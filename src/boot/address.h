/* SPDX-License-Identifier: Apache-2.0
 *
 * IP addresses as they travel in unique ids and tables.
 */
#ifndef COLLET_BOOT_ADDRESS_H
#define COLLET_BOOT_ADDRESS_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct address {
    uint8_t family; /* 4 or 6 */
    uint8_t link;   /* number of the interface, equal for all its addresses; 0: unknown interface */
    uint8_t speed;  /* log2 of the interface's Mbit/s; 0: unknown */
    uint8_t wanted; /* 1: an address of the interface that the connection should use */
    uint8_t ip[16]; /* network byte order; IPv4 uses the first four bytes */
};
_Static_assert(sizeof(struct address) == 20, "travels in unique ids");

/* The addresses of a listener: all with one port. */
#define ADDRESS_MAX 4
struct address_set {
    struct address addresses[ADDRESS_MAX];
    uint16_t count, port;
    uint32_t zero;
};
/* Checks a set that another process sent: 1 … ADDRESS_MAX addresses of known kinds, and a port. */
bool address_set_valid(const struct address_set *set);

#define ADDRESS_TEXT_BYTES 64
void address_text(const struct address *address, int port, char text[ADDRESS_TEXT_BYTES]);
/* "a:1, b:1 …"; cut if there is no more room. */
void address_set_text(const struct address_set *set, char *text, size_t room);

bool address_is_loopback(const struct address *address);
/* False: other hosts cannot use this address. It is of another family, or an IPv6 address that is valid on one link only. */
bool address_from_sockaddr(const struct sockaddr *from, struct address *address);
socklen_t address_to_sockaddr(const struct address *address, int port, struct sockaddr_storage *storage);

/* A socket that listens on all addresses of this host; AF_INET6 accepts IPv4 too. port 0: any port of COLLET_PORT_RANGE. −1: failed, errno
 * says why. */
int address_listen(int family, int port);
/* Listens on one address of this host, and on this port. */
int address_listen_at(const struct address *address, int port);
int address_port(int fd); /* the port on which it listens */

/* Parses COLLET_SOCKET_FAMILY: 0 for both families, else AF_INET or AF_INET6. INVALID_USAGE: any other text. */
enum collet_result address_family(const char *text, int *family_p);

#define ADDRESS_INTERFACE_BYTES 16 /* IFNAMSIZ */
/* Does ifname allow this interface? It is a list of prefixes; ^ in front excludes, = compares whole names, "" allows all. */
int address_interface_allowed(const char *ifname, const char *interface);

/* Resolves a host name into set->addresses; may ask a name server. Errors: SYSTEM, with the resolver's reason. */
enum collet_result address_resolve(const char *host, int family, struct address_set *set);

/* Splits "host:port" or "[v6]:port". variable: the name in the error text. */
#define ADDRESS_HOST_BYTES 256
enum collet_result address_parse(const char *variable, const char *text, char host[ADDRESS_HOST_BYTES], int *port_p);

#endif
