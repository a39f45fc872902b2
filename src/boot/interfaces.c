/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/interfaces.h"

#include "base/err.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "seams/outlet.h"

#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

/* Adds an entry, unless it has an address of a kind that collet does not use. */
static void add(struct interfaces *made, const struct ifaddrs *found) {
    struct interface *entry = &made->list[made->count];
    int first = 0;
    snprintf(entry->name, sizeof entry->name, "%.15s", found->ifa_name);
    entry->flags = found->ifa_flags;
    if (found->ifa_addr == NULL ||
        (found->ifa_addr->sa_family != AF_PACKET && !address_from_sockaddr(found->ifa_addr, &entry->address)))
        return;
    while (strcmp(made->list[first].name, entry->name) != 0)
        first++;
    const bool new = first == made->count, up = (found->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP;
    entry->address.link = (uint8_t)(first < UINT8_MAX ? first + 1 : UINT8_MAX);
    entry->address.speed = !new ? made->list[first].address.speed : up ? speed_of(entry->name) : 0;
    made->count++;
}

struct interfaces *interfaces_read(void) {
    struct ifaddrs *all;
    size_t n = 0;
    while (getifaddrs(&all) != 0)
        if (!os_more_descriptors())
            return NULL;
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next)
        n++;
    struct interfaces *made = calloc(1, sizeof *made + n * sizeof *made->list);
    for (const struct ifaddrs *i = all; i != NULL && made != NULL; i = i->ifa_next)
        add(made, i);
    freeifaddrs(all);
    return made;
}

/* ---- which are worth offering ---- */

static bool is_up(const struct interface *interface) {
    const unsigned usable = IFF_UP | IFF_RUNNING;
    return (interface->flags & usable) == usable;
}

/* Has this entry an address of the family? 0: of any. */
static bool has_family(const struct interface *interface, int family) {
    const int own = interface->address.family == 4 ? AF_INET : interface->address.family == 6 ? AF_INET6 : AF_UNSPEC;
    return own != AF_UNSPEC && (family == 0 || own == family);
}

enum sort { WANTED, OTHER, LOOPBACK };

static enum sort sort_of(const struct interface *interface, const char *wanted) {
    if (interface->flags & IFF_LOOPBACK)
        return LOOPBACK;
    return strcmp(interface->name, wanted) == 0 ? WANTED : OTHER;
}

/* Which addresses are wanted? */
struct request {
    const char *ifname, *wanted;
    int family;
};

static void collect(const struct interfaces *all, const struct request *request, enum sort sort, int limit,
                    struct address_set *set) {
    for (int k = 0; k < all->count && set->count < limit; k++) {
        const struct interface *interface = &all->list[k];
        if (!is_up(interface) || sort_of(interface, request->wanted) != sort ||
            !address_interface_allowed(request->ifname, interface->name) || !has_family(interface, request->family))
            continue;
        struct address *address = &set->addresses[set->count++];
        *address = interface->address;
        address->wanted = sort == WANTED;
    }
}

enum collet_result address_local(const char *ifname, int family, const char *wanted, struct address_set *set) {
    const struct request request = {ifname, wanted, family};
    SCOPED_FREE struct interfaces *all = NULL;
    COLLET_TRY(outlet_interfaces(false, &all));
    memset(set->addresses, 0, sizeof set->addresses);
    set->count = 0;
    collect(all, &request, WANTED, ADDRESS_MAX - 2, set); /* leaves places free for another interface … */
    collect(all, &request, OTHER, ADDRESS_MAX - 1, set);  /* … and for loopback */
    collect(all, &request, LOOPBACK, ADDRESS_MAX, set);
    if (set->count == 0)
        return err_set(COLLET_ERR_SYSTEM, "no network interface that is up has a usable address%s%s%s",
                       ifname[0] ? " and matches COLLET_SOCKET_IFNAME='" : "", ifname, ifname[0] ? "'" : "");
    return COLLET_SUCCESS;
}

bool address_of_interface(const char *interface, int family, struct address *address) {
    SCOPED_FREE struct interfaces *all = NULL;
    if (outlet_interfaces(false, &all) != COLLET_SUCCESS)
        return false;
    for (int k = 0; k < all->count; k++)
        if (is_up(&all->list[k]) && strcmp(all->list[k].name, interface) == 0 && has_family(&all->list[k], family)) {
            *address = all->list[k].address;
            return true;
        }
    return false;
}

void address_interface(const struct address *address, char interface[ADDRESS_INTERFACE_BYTES]) {
    SCOPED_FREE struct interfaces *all = NULL;
    snprintf(interface, ADDRESS_INTERFACE_BYTES, "?");
    if (outlet_interfaces(true, &all) != COLLET_SUCCESS)
        return;
    for (int k = 0; k < all->count; k++)
        if (all->list[k].address.family == address->family &&
            memcmp(all->list[k].address.ip, address->ip, sizeof address->ip) == 0)
            snprintf(interface, ADDRESS_INTERFACE_BYTES, "%s", all->list[k].name);
}

bool address_came_to(int fd, const char *ifname) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* an IPv4 address as IPv6 sockets show it */
    struct sockaddr_storage here;
    socklen_t bytes = sizeof here;
    struct address address;
    char interface[ADDRESS_INTERFACE_BYTES];
    if (ifname[0] == '\0')
        return true;
    if (getsockname(fd, (struct sockaddr *)&here, &bytes) != 0 ||
        !address_from_sockaddr((struct sockaddr *)&here, &address))
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
    SCOPED_FREE struct interfaces *all = NULL;
    char names[256] = "";
    size_t used = 0;
    if (outlet_interfaces(true, &all) != COLLET_SUCCESS)
        return;
    for (int k = 0; k < all->count && used < sizeof names; k++) {
        const struct interface *interface = &all->list[k];
        if (interface->address.family == 0 && !is_up(interface) && address_interface_allowed(ifname, interface->name))
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%s%s", used ? ", " : "", interface->name,
                                     interface->flags & IFF_UP ? " (no carrier)" : "");
    }
    if (used > 0)
        log_info(NET, "interfaces that are down are not used: %s", names);
}
