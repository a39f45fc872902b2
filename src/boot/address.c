/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/address.h"

#include "base/config.h"
#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void address_text(const struct address *address, int port, char text[ADDRESS_TEXT_BYTES]) {
    char ip[INET6_ADDRSTRLEN] = "?";
    inet_ntop(address->family == 6 ? AF_INET6 : AF_INET, address->ip, ip, sizeof ip);
    snprintf(text, ADDRESS_TEXT_BYTES, address->family == 6 ? "[%s]:%d" : "%s:%d", ip, port);
}

void address_set_text(const struct address_set *set, char *text, size_t room) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < set->count && used < room; i++) {
        char one[ADDRESS_TEXT_BYTES];
        address_text(&set->addresses[i], set->port, one);
        used += (size_t)snprintf(text + used, room - used, "%s%s", i ? ", " : "", one);
    }
}

bool address_set_valid(const struct address_set *set) {
    for (int i = 0; i < set->count && i < ADDRESS_MAX; i++)
        if (set->addresses[i].family != 4 && set->addresses[i].family != 6)
            return false;
    return set->count >= 1 && set->count <= ADDRESS_MAX && set->port != 0;
}

bool address_is_loopback(const struct address *address) {
    static const uint8_t v6[16] = {[15] = 1};
    return address->family == 6 ? memcmp(address->ip, v6, sizeof v6) == 0 : address->ip[0] == 127;
}

socklen_t address_to_sockaddr(const struct address *address, int port, struct sockaddr_storage *storage) {
    memset(storage, 0, sizeof *storage);
    if (address->family == 6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        memcpy(&v6->sin6_addr, address->ip, 16);
        return sizeof *v6;
    }
    struct sockaddr_in *v4 = (struct sockaddr_in *)storage;
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    memcpy(&v4->sin_addr, address->ip, 4);
    return sizeof *v4;
}

bool address_from_sockaddr(const struct sockaddr *from, struct address *address) {
    *address = (struct address){0};
    if (from->sa_family == AF_INET) {
        address->family = 4;
        memcpy(address->ip, &((const struct sockaddr_in *)from)->sin_addr, 4);
        return true;
    }
    if (from->sa_family == AF_INET6) {
        const struct in6_addr *ip = &((const struct sockaddr_in6 *)from)->sin6_addr;
        address->family = 6;
        memcpy(address->ip, ip, 16);
        return !IN6_IS_ADDR_LINKLOCAL(ip);
    }
    return false;
}

static int listen_to(const struct sockaddr *name, socklen_t bytes) {
    const int on = 1, off = 0;
    int fd;
    OS_DESCRIPTOR(fd, socket(name->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (name->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(fd, name, bytes) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Listens on all addresses of this host; port 0: any port. */
static int listen_at(int family, int port) {
    const struct address all = {.family = family == AF_INET6 ? 6 : 4};
    return address_listen_at(&all, port);
}

int address_listen_at(const struct address *address, int port) {
    struct sockaddr_storage name;
    const socklen_t bytes = address_to_sockaddr(address, port, &name);
    return listen_to((const struct sockaddr *)&name, bytes);
}

int address_listen(int family, int port) {
    int first, last;
    uint32_t start;
    if (port != 0 || !config_port_range(config_process()->port_range, &first, &last))
        return listen_at(family, port);
    const int n = last - first + 1;
    os_random(&start, sizeof start); /* many processes start at the same time */
    for (int k = 0; k < n; k++) {
        int fd = listen_at(family, first + (int)((start + (unsigned)k) % (unsigned)n));
        if (fd >= 0 || (errno != EADDRINUSE && errno != EACCES))
            return fd;
    }
    return -1;
}

int address_port(int fd) {
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    getsockname(fd, (struct sockaddr *)&name, &length);
    return ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
                                            : ((struct sockaddr_in *)&name)->sin_port);
}

enum collet_result address_family(const char *text, int *family_p) {
    if (text[0] == '\0')
        *family_p = 0;
    else if (strcmp(text, "AF_INET") == 0)
        *family_p = AF_INET;
    else if (strcmp(text, "AF_INET6") == 0)
        *family_p = AF_INET6;
    else
        return err_set(COLLET_ERR_INVALID_USAGE, "COLLET_SOCKET_FAMILY is '%s': use AF_INET or AF_INET6, or unset it",
                       text);
    return COLLET_SUCCESS;
}

int address_interface_allowed(const char *ifname, const char *interface) {
    if (ifname[0] == '\0')
        return 1;
    int exclude = ifname[0] == '^', exact = ifname[exclude] == '=';
    const char *item = ifname + exclude + exact;
    while (*item != '\0') {
        size_t length = strcspn(item, ",");
        int matches = strncmp(item, interface, length) == 0 && (!exact || interface[length] == '\0');
        if (length > 0 && matches)
            return !exclude;
        item += length + (item[length] == ',');
    }
    return exclude;
}

enum collet_result address_resolve(const char *host, int family, struct address_set *set) {
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *list;
    int error = getaddrinfo(host, NULL, &hints, &list);
    if (error != 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot find the address of host '%s': %s", host, gai_strerror(error));
    memset(set->addresses, 0, sizeof set->addresses);
    set->count = 0;
    for (struct addrinfo *i = list; i != NULL && set->count < ADDRESS_MAX; i = i->ai_next)
        set->count += address_from_sockaddr(i->ai_addr, &set->addresses[set->count]);
    freeaddrinfo(list);
    if (set->count == 0)
        return err_set(COLLET_ERR_SYSTEM, "host '%s' has no address that can be used", host);
    return COLLET_SUCCESS;
}

enum collet_result address_parse(const char *variable, const char *text, char host[ADDRESS_HOST_BYTES], int *port_p) {
    const char *colon = strrchr(text, ':'), *start = text, *end = colon;
    if (text[0] == '[' && colon != NULL && colon > text + 1 && colon[-1] == ']') {
        start = text + 1;
        end = colon - 1;
    }
    char *rest = NULL;
    long port = colon != NULL ? strtol(colon + 1, &rest, 10) : 0;
    if (colon == NULL || end <= start || end - start >= ADDRESS_HOST_BYTES || *rest != '\0' || port < 1 || port > 65535)
        return err_set(COLLET_ERR_INVALID_USAGE, "%s is '%s': it must be host:port or [IPv6 address]:port", variable,
                       text);
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    *port_p = (int)port;
    return COLLET_SUCCESS;
}
