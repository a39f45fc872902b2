/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/address.h"

#include "base/config.h"
#include "base/err.h"
#include "base/log.h"
#include "base/os.h"
#include "base/remedy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

static int list_interfaces(struct ifaddrs **list) {
    int failed;
    while ((failed = getifaddrs(list)) != 0 && os_more_descriptors())
        ;
    return failed;
}

/* False: other hosts cannot use this address. It is of another family, or an IPv6 address that is valid on one link only. */
static int from_sockaddr(const struct sockaddr *from, int family, struct address *address) {
    if (from == NULL || (family != 0 && from->sa_family != family))
        return 0;
    *address = (struct address){0};
    if (from->sa_family == AF_INET) {
        address->family = 4;
        memcpy(address->ip, &((const struct sockaddr_in *)from)->sin_addr, 4);
        return 1;
    }
    if (from->sa_family == AF_INET6) {
        const struct in6_addr *ip = &((const struct sockaddr_in6 *)from)->sin6_addr;
        address->family = 6;
        memcpy(address->ip, ip, 16);
        return !IN6_IS_ADDR_LINKLOCAL(ip);
    }
    return 0;
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

/* Asks the driver: sysfs may show the interfaces of another network namespace. */
static uint8_t speed_of(const char *interface) {
    struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
    struct ifreq request = {.ifr_data = (char *)&command};
    uint8_t speed = 0;
    int fd = os_high(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    if (fd >= 0 && ioctl(fd, SIOCETHTOOL, &request) == 0) {
        uint32_t mbits = (uint32_t)command.speed_hi << 16 | command.speed;
        for (; mbits > 1 && mbits != (uint32_t)SPEED_UNKNOWN; mbits /= 2)
            speed++;
    }
    if (fd >= 0)
        close(fd);
    return speed;
}

/* The number of an interface: the index of its first entry in the list, plus 1. */
static uint8_t link_of(const struct ifaddrs *list, const char *interface) {
    uint8_t number = 1;
    for (; strcmp(list->ifa_name, interface) != 0 && number < UINT8_MAX; list = list->ifa_next)
        number++;
    return number;
}

static bool is_up(const struct ifaddrs *interface) {
    const unsigned usable = IFF_UP | IFF_RUNNING;
    return (interface->ifa_flags & usable) == usable;
}

enum sort { WANTED, OTHER, LOOPBACK };

static enum sort sort_of(const struct ifaddrs *interface, const char *wanted) {
    if (interface->ifa_flags & IFF_LOOPBACK)
        return LOOPBACK;
    return strcmp(interface->ifa_name, wanted) == 0 ? WANTED : OTHER;
}

/* Which addresses are wanted? */
struct request {
    const char *ifname, *wanted;
    int family;
};

static void collect(const struct ifaddrs *list, const struct request *request, enum sort sort, int limit,
                    struct address_set *set) {
    for (const struct ifaddrs *i = list; i != NULL && set->count < limit; i = i->ifa_next) {
        struct address *address = &set->addresses[set->count];
        if (!is_up(i) || sort_of(i, request->wanted) != sort ||
            !address_interface_allowed(request->ifname, i->ifa_name) ||
            !from_sockaddr(i->ifa_addr, request->family, address))
            continue;
        address->link = link_of(list, i->ifa_name);
        address->speed = sort == LOOPBACK ? 0 : speed_of(i->ifa_name);
        address->wanted = sort == WANTED;
        set->count++;
    }
}

enum collet_result address_local(const char *ifname, int family, const char *wanted, struct address_set *set) {
    const struct request request = {ifname, wanted, family};
    struct ifaddrs *list;
    if (list_interfaces(&list) != 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot list the network interfaces: %m%s", os_remedy());
    memset(set->addresses, 0, sizeof set->addresses);
    set->count = 0;
    collect(list, &request, WANTED, ADDRESS_MAX - 2, set); /* leaves places free for another interface … */
    collect(list, &request, OTHER, ADDRESS_MAX - 1, set);  /* … and for loopback */
    collect(list, &request, LOOPBACK, ADDRESS_MAX, set);
    freeifaddrs(list);
    if (set->count == 0)
        return err_set(COLLET_ERR_SYSTEM, "no network interface that is up has a usable address%s%s%s",
                       ifname[0] ? " and matches COLLET_SOCKET_IFNAME='" : "", ifname, ifname[0] ? "'" : "");
    return COLLET_SUCCESS;
}

bool address_of_interface(const char *interface, int family, struct address *address) {
    struct ifaddrs *list;
    bool found = false;
    if (list_interfaces(&list) != 0)
        return false;
    for (const struct ifaddrs *i = list; i != NULL && !found; i = i->ifa_next)
        found = is_up(i) && strcmp(i->ifa_name, interface) == 0 && from_sockaddr(i->ifa_addr, family, address);
    freeifaddrs(list);
    return found;
}

void address_interface(const struct address *address, char interface[ADDRESS_INTERFACE_BYTES]) {
    struct ifaddrs *list;
    struct address one;
    snprintf(interface, ADDRESS_INTERFACE_BYTES, "?");
    if (list_interfaces(&list) != 0)
        return;
    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next)
        if (from_sockaddr(i->ifa_addr, 0, &one) && one.family == address->family &&
            memcmp(one.ip, address->ip, sizeof one.ip) == 0)
            snprintf(interface, ADDRESS_INTERFACE_BYTES, "%s", i->ifa_name);
    freeifaddrs(list);
}

bool address_came_to(int fd, const char *ifname) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* an IPv4 address as IPv6 sockets show it */
    struct sockaddr_storage here;
    socklen_t bytes = sizeof here;
    struct address address;
    char interface[ADDRESS_INTERFACE_BYTES];
    if (ifname[0] == '\0')
        return true;
    if (getsockname(fd, (struct sockaddr *)&here, &bytes) != 0 || !from_sockaddr((struct sockaddr *)&here, 0, &address))
        return false;
    if (address.family == 6 && memcmp(address.ip, mapped, sizeof mapped) == 0) {
        address.family = 4;
        memmove(address.ip, address.ip + 12, 4);
        memset(address.ip + 4, 0, 12);
    }
    if (address_is_loopback(&address)) /* 127.0.0.2 is loopback too, but in no list */
        snprintf(interface, sizeof interface, "lo");
    else
        address_interface(&address, interface);
    return address_interface_allowed(ifname, interface);
}

void address_log_down(const char *ifname) {
    struct ifaddrs *list;
    char names[256] = "";
    size_t used = 0;
    if (list_interfaces(&list) != 0)
        return;
    for (const struct ifaddrs *i = list; i != NULL && used < sizeof names; i = i->ifa_next)
        if (i->ifa_addr != NULL && i->ifa_addr->sa_family == AF_PACKET && !is_up(i) &&
            address_interface_allowed(ifname, i->ifa_name))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s%s", used ? ", " : "", i->ifa_name,
                                     i->ifa_flags & IFF_UP ? " (no carrier)" : "");
    freeifaddrs(list);
    if (used > 0)
        log_info(NET, "interfaces that are down are not used: %s", names);
}

enum collet_result address_resolve(const char *host, int family, struct address_set *set) {
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *list;
    int error = getaddrinfo(host, NULL, &hints, &list);
    if (error != 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot find the address of host '%s': %s", host, gai_strerror(error));
    memset(set->addresses, 0, sizeof set->addresses);
    set->count = 0;
    for (struct addrinfo *i = list; i != NULL && set->count < ADDRESS_MAX; i = i->ai_next)
        set->count += (uint16_t)from_sockaddr(i->ai_addr, family, &set->addresses[set->count]);
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
