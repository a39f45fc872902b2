/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp_way.h"

#include "boot/interfaces.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

bool tcp_way_bind(int fd, int family, const char *interface) {
    const int on = 1;
    struct sockaddr_storage name;
    struct address address;
    if (!address_of_interface(interface, family, &address)) {
        errno = EADDRNOTAVAIL;
        return false;
    }
    socklen_t length = address_to_sockaddr(&address, 0, &name);
    setsockopt(fd, SOL_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on)); /* the port depends on the destination */
    if (bind(fd, (struct sockaddr *)&name, length) != 0)              /* hosts may choose routes by this address … */
        return false;
    /* … if not, this selects the route. Before Linux 5.7 only root may do that; then the address must suffice. */
    return setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) == 0 || errno == EPERM;
}

/* ---------------------------------------------------------------------------------------------------- what is offered */

static int worth_of(const struct address *address) { return address_is_loopback(address) ? 0 : 1 + address->speed; }

static bool has_link(const struct address_set *set, const int *ways, int nways, uint8_t link) {
    for (int k = 0; k < nways; k++)
        if (set->addresses[ways[k]].link == link)
            return true;
    return false;
}

int tcp_ways_choose(const struct address_set *set, unsigned failed, int ways[ADDRESS_MAX]) {
    int best = -1, nways = 0;
    for (int k = 0; k < set->count; k++)
        if (!(failed & 1u << k) && worth_of(&set->addresses[k]) > best)
            best = worth_of(&set->addresses[k]);
    for (int k = 0; k < set->count; k++) {
        const struct address *address = &set->addresses[k];
        if (!(failed & 1u << k) && worth_of(address) == best && !has_link(set, ways, nways, address->link))
            ways[nways++] = k;
    }
    return nways;
}

unsigned tcp_ways_wanted(const struct address_set *set) {
    unsigned wanted = 0;
    for (int k = 0; k < set->count && k < ADDRESS_MAX; k++)
        wanted |= (unsigned)(set->addresses[k].wanted != 0) << k;
    return wanted;
}
