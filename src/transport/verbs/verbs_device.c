/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/verbs_device.h"

#include "base/cpus.h"
#include "base/fork_lock.h"
#include "base/log.h"
#include "base/low.h"
#include "base/memory.h"
#include "base/os.h"
#include "boot/address.h"
#include "boot/process.h"

#define SLOW 2 /* a port is not used if the fastest port is faster by more than this factor */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------------------------------------------- GIDs */

static bool is_ipv4(const uint8_t *raw) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(raw, mapped, sizeof(mapped)) == 0;
}

/* The kind of one GID; −1: a loopback address, which connects to nobody. */
static int verbs_gid_kind(const struct ibv_gid_entry *entry) {
    static const uint8_t loopback[16] = {[15] = 1};
    const uint8_t *raw = entry->gid.raw;
    if (entry->gid_type == IBV_GID_TYPE_IB)
        return VERBS_INFINIBAND;
    if (memcmp(raw, loopback, sizeof(loopback)) == 0 || (is_ipv4(raw) && raw[12] == 127))
        return -1;
    if (entry->gid_type == IBV_GID_TYPE_ROCE_V1)
        return VERBS_ROCE_V1;
    if (is_ipv4(raw))
        return raw[12] == 169 && raw[13] == 254 ? VERBS_ROCE_LINK : VERBS_ROCE_IPV4;
    return raw[0] == 0xfe && (raw[1] & 0xc0) == 0x80 ? VERBS_ROCE_LINK : VERBS_ROCE_IPV6;
}

void verbs_gid_text(const union ibv_gid *gid, char text[VERBS_GID_TEXT_BYTES]) {
    bool v4 = is_ipv4(gid->raw);
    inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid->raw + 12 : gid->raw, text, VERBS_GID_TEXT_BYTES);
}

const char *verbs_kind_name(enum verbs_kind kind) {
    static const char *const names[] = {"InfiniBand", "RoCEv2 over IPv4", "RoCEv2 over IPv6", "RoCEv2, link-local",
                                        "RoCEv1"};
    return names[kind];
}

/* Bits by place: the usable ports of the kind's link layer. */
static uint32_t verbs_card_ports(uint64_t card, enum verbs_kind kind) {
    const int shift = kind == VERBS_INFINIBAND ? 8 : 8 + VERBS_NUMBERS_MAX;
    return card >> shift & ((1u << VERBS_NUMBERS_MAX) - 1);
}

int verbs_pair_ports(uint64_t mine, uint64_t theirs, enum verbs_kind kind, uint8_t places[VERBS_NUMBERS_MAX]) {
    const uint32_t here = verbs_card_ports(mine, kind), there = verbs_card_ports(theirs, kind);
    const int most = (here & there) != 0 ? VERBS_NUMBERS_MAX : __builtin_popcount(there);
    int n = 0;
    for (uint32_t left = (here & there) != 0 ? here & there : here; left != 0 && n < most; left &= left - 1)
        places[n++] = (uint8_t)__builtin_ctz(left);
    return n;
}

int verbs_common_kind(uint64_t a, uint64_t b) {
    uint8_t places[VERBS_NUMBERS_MAX];
    int best = -1, most = 0;
    for (int kind = 0; kind < VERBS_KIND_COUNT; kind++) {
        const bool common = verbs_card_kinds(a) & verbs_card_kinds(b) & 1u << kind;
        const int n = common ? verbs_pair_ports(a, b, (enum verbs_kind)kind, places) : 0;
        if (n > most) {
            best = kind;
            most = n;
        }
    }
    return best;
}

/* The card of this host. Ethernet ports that lack the host's best Ethernet kind are left out. */
uint64_t verbs_host_card(const struct verbs_host *host) {
    uint64_t card = host->kinds;
    const int ethernet = __builtin_ffs((int)(host->kinds & ~(1u << VERBS_INFINIBAND))) - 1;
    for (int k = 0; k < host->nports; k++) {
        const struct verbs_port *port = &host->ports[k];
        const int kind = port->infiniband ? VERBS_INFINIBAND : ethernet, first = port->infiniband ? 8 : 32;
        if (kind >= 0 && (port->kinds & 1u << kind) && port->place < VERBS_NUMBERS_MAX &&
            !verbs_device_is_gone(port->device))
            card |= 1ull << (first + port->place);
    }
    return card;
}

/* Is this GID better than the port's present GID of this kind? */
static bool is_better_gid(const struct verbs_port *port, int kind, const struct ibv_gid_entry *entry) {
    const bool routed = kind == VERBS_INFINIBAND && verbs_gid_flid(&entry->gid) != 0;
    if (port->gid_index[kind] < 0)
        return true;
    if (kind == VERBS_INFINIBAND && routed != (verbs_gid_flid(&port->gids[kind]) != 0))
        return routed;
    return (int)entry->gid_index < port->gid_index[kind];
}

static bool config_addresses_have(const struct config_addresses *range, const uint8_t address[16]) {
    const int whole = range->bits / 8, left = range->bits % 8;
    return memcmp(range->first, address, (size_t)whole) == 0 &&
           (left == 0 || (range->first[whole] ^ address[whole]) >> (8 - left) == 0);
}

/* Does config allow this GID? A range of addresses is a range of IP addresses. */
static bool is_wanted_gid(const struct config *config, int kind, const struct ibv_gid_entry *entry) {
    struct config_addresses range;
    if (config->ib_gid_index >= 0 && entry->gid_index != (uint32_t)config->ib_gid_index)
        return false;
    config_addresses_read(config->ib_addr_range, &range);
    return kind == VERBS_INFINIBAND || config_addresses_have(&range, entry->gid.raw);
}

/* Chooses the first allowed GID of each kind, and stores it in port->gid_index, gids and kinds, with the GIDs' interface. On InfiniBand it
 * prefers a GID with a FLID, which is valid in all subnets. */
static void verbs_port_choose(struct verbs_port *port, const struct ibv_gid_entry *entries, int n,
                              const struct config *config) {
    port->kinds = port->interface = 0;
    memset(port->gid_index, 0xff, sizeof(port->gid_index));
    for (int k = 0; k < n; k++) {
        const struct ibv_gid_entry *entry = &entries[k];
        int kind = verbs_gid_kind(entry);
        if (entry->port_num == port->number && port->interface == 0)
            port->interface = entry->ndev_ifindex;
        if (entry->port_num != port->number || kind < 0 || !is_wanted_gid(config, kind, entry) ||
            !is_better_gid(port, kind, entry))
            continue;
        port->gid_index[kind] = (int)entry->gid_index;
        port->gids[kind] = entry->gid;
        port->kinds |= 1u << kind;
    }
}

/* --------------------------------------------------------------------------------------------------------------- ports */

/* Does a list "name[:port],…" include the port? Names are prefixes; ^ in front excludes, = compares whole names. */
static bool verbs_port_listed(const char *list, const char *device, int port) {
    char with_port[VERBS_NAME_BYTES + 8];
    snprintf(with_port, sizeof(with_port), "%s:%d", device, port);
    bool alone = address_interface_allowed(list, device), both = address_interface_allowed(list, with_port);
    return list[0] == '^' ? alone && both : alone || both;
}

static const char *state_text(enum ibv_port_state state) {
    switch (state) {
    case IBV_PORT_DOWN: return "down: check the cable, or set the link up (ip link set … up)";
    case IBV_PORT_INIT:
    case IBV_PORT_ARMED: return "waiting for a subnet manager: start opensm, or look at the switch's";
    default: return "not active";
    }
}

static void why_not(struct verbs_port *port, const char *text) {
    port->kinds = 0;
    snprintf(port->why, sizeof(port->why), "%s", text);
}

/* Each bit of active_width is a number of lanes; each bit of active_speed is a speed per lane, from 2.5 Gbit/s up. */
static uint32_t mbits_of(const struct ibv_port_attr *attr) {
    static const uint32_t lane_mbits[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
    static const uint32_t lanes[] = {1, 4, 8, 12, 2};
    const int speed = __builtin_ffs(attr->active_speed) - 1, width = __builtin_ffs(attr->active_width) - 1;
    const bool known = speed >= 0 && speed < 8 && width >= 0 && width < 5;
    return known ? lane_mbits[speed] * lanes[width] : 0;
}

/* A key's top bit: its port is a full member of the partition, and may talk to every member. If a port has both memberships, the full one
 * is used. */
#define PKEY_FULL 0x8000u

/* Finds the partition of COLLET_IB_PKEY in the port's table; false: the table does not have it. */
static bool find_pkey(const struct verbs_host *host, struct verbs_port *port, int length, uint32_t wanted) {
    bool found = false;
    for (int k = 0; k < length; k++) {
        uint16_t key = 0;
        if (host->lib.query_pkey(port->device->context, port->number, k, &key) != 0)
            continue;
        const bool full = ntohs(key) & PKEY_FULL, empty = (ntohs(key) & (PKEY_FULL - 1)) == 0;
        if (empty || ((ntohs(key) ^ wanted) & (PKEY_FULL - 1)) != 0 || (found && !full))
            continue;
        port->pkey_index = (uint16_t)k;
        found = true;
        if (full)
            break;
    }
    return found;
}

static const char *why_no_gid(const struct config *config, int ngids) {
    if (ngids < 0)
        return "its driver does not list its GIDs: it may have more than collet can read";
    if (config->ib_gid_index >= 0)
        return "it has no GID of index COLLET_IB_GID_INDEX";
    return config->ib_addr_range[0] != '\0' ? "it has no address in COLLET_IB_ADDR_RANGE: look at ip address"
                                            : "it has no usable GID: give its network interface an IP address";
}

static void read_port(struct verbs_host *host, struct verbs_port *port, const struct config *config,
                      const struct ibv_gid_entry *gids, int ngids) {
    struct ibv_port_attr attr;
    memset(&attr, 0, sizeof(attr));
    verbs_port_choose(port, gids, ngids, config);
    bool any = port->kinds != 0;
    if (!verbs_port_listed(config->ib_hca, port->device->name, port->number)) {
        why_not(port, "excluded by COLLET_IB_HCA");
        return;
    }
    if (host->lib.query_port(port->device->context, port->number, (struct _compat_ibv_port_attr *)(void *)&attr) != 0) {
        why_not(port, "the driver does not tell its state");
        return;
    }
    port->infiniband = attr.link_layer == IBV_LINK_LAYER_INFINIBAND;
    port->place = (uint8_t)host->nplaces[port->infiniband]++;
    port->mbits = mbits_of(&attr);
    port->grh_required = attr.flags & IBV_QPF_GRH_REQUIRED;
    port->lid = attr.lid;
    port->mtu = attr.active_mtu;
    if (attr.state != IBV_PORT_ACTIVE)
        why_not(port, state_text(attr.state));
    else if (!any)
        why_not(port, why_no_gid(config, ngids));
    else if (config->ib_pkey != 0 && port->infiniband &&
             !find_pkey(host, port, attr.pkey_tbl_len, (uint32_t)config->ib_pkey))
        why_not(port,
                "its table of partition keys lacks COLLET_IB_PKEY: ask the subnet manager's administrator, or see "
                "/sys/class/infiniband/*/ports/*/pkeys");
}

/* A slow management port beside fast ports would delay every message, because slots use all ports in turn. If the user lists ports, those
 * are used. */
static void leave_out_slow(struct verbs_host *host, const struct config *config) {
    uint32_t fastest = 0;
    const bool chosen = config->ib_hca[0] != '\0' && config->ib_hca[0] != '^';
    for (int k = 0; k < host->nports; k++)
        if (host->ports[k].kinds != 0 && host->ports[k].mbits > fastest)
            fastest = host->ports[k].mbits;
    for (int k = 0; k < host->nports && !chosen; k++) {
        struct verbs_port *port = &host->ports[k];
        if (port->kinds != 0 && port->mbits != 0 && port->mbits < fastest / SLOW)
            why_not(port, "much slower than another one; COLLET_IB_HCA can name it");
    }
}

static void log_port(const struct verbs_port *port) {
    char text[VERBS_GID_TEXT_BYTES];
    int kind = __builtin_ffs((int)port->kinds) - 1;
    if (kind < 0) {
        log_info(NET, "%s port %d is not used: %s", port->device->name, port->number, port->why);
        return;
    }
    verbs_gid_text(&port->gids[kind], text);
    log_info(NET, "%s port %d is used as GID %d, %s (%s: the first kind of network in collet's order that it has)",
             port->device->name, port->number, port->gid_index[kind], text, verbs_kind_name((enum verbs_kind)kind));
}

/* ------------------------------------------------------------------------------------------------------------- devices */

/* Opens a device. False: it cannot be used, and host->why says why. */
static bool open_device(struct verbs_host *host, struct ibv_device *from, const struct config *config) {
    struct verbs_device *device = &host->devices[host->ndevices];
    const struct verbs_lib *lib = &host->lib;
    *device = (struct verbs_device){.events = PTHREAD_MUTEX_INITIALIZER};
    snprintf(device->name, sizeof(device->name), "%s", lib->get_device_name(from));
    if (from->transport_type != IBV_TRANSPORT_IB) {
        snprintf(host->why, sizeof(host->why), "%s is neither InfiniBand nor RoCE", device->name);
        return false;
    }
    errno = 0;
    device->context = lib->open_device(from);
    if (device->context == NULL) {
        snprintf(host->why, sizeof(host->why),
                 "%s cannot be opened: %s (this user needs to read and write /dev/infiniband/uverbs*)", device->name,
                 strerror(errno));
        return false;
    }
    device->pd = lib->alloc_pd(device->context);
    if (device->pd == NULL) {
        snprintf(host->why, sizeof(host->why), "%s gives no protection domain: %s", device->name, strerror(errno));
        lib->close_device(device->context);
        return false;
    }
    char function[PATH_MAX];
    snprintf(function, sizeof function, "%s/device", from->ibdev_path);
    device->software = access(function, F_OK) != 0;
    device->relaxed = config->ib_relaxed_ordering == 1 || (config->ib_relaxed_ordering == 2 && !device->software);
    snprintf(function, sizeof function, "%s/device/local_cpulist", from->ibdev_path);
    os_cpu_set_read(function, &device->cpus);
    int fd = device->context->async_fd;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); /* so that verbs_device_look() does not block */
    host->ndevices++;
    return true;
}

static void read_ports(struct verbs_host *host, struct verbs_device *device, const struct config *config) {
    struct ibv_gid_entry gids[VERBS_GIDS_MAX];
    struct ibv_device_attr attr;
    memset(&attr, 0, sizeof(attr));
    if (host->lib.query_device(device->context, &attr) != 0)
        attr.phys_port_cnt = 1;
    ssize_t n = host->lib.query_gid_table(device->context, gids, VERBS_GIDS_MAX, 0, sizeof(gids[0]));
    for (int number = 1; number <= attr.phys_port_cnt && host->nports < VERBS_PORTS_MAX; number++) {
        struct verbs_port *port = &host->ports[host->nports++];
        *port = (struct verbs_port){.device = device, .number = (uint8_t)number, .place = VERBS_NUMBERS_MAX};
        read_port(host, port, config, gids, (int)n);
    }
}

/* The position of a device in the machine: the path of its PCI function; for a software device, the path of its network interface; "": not
 * known. */
static void device_place(const struct ibv_device *device, char place[PATH_MAX]) {
    char path[PATH_MAX], interface[ADDRESS_INTERFACE_BYTES] = "";
    snprintf(path, sizeof path, "%s/device", device->ibdev_path);
    if (realpath(path, place) != NULL)
        return;
    snprintf(path, sizeof path, "%s/parent", device->ibdev_path);
    FILE *file = os_fopen(path, "re");
    const bool named = file != NULL && fscanf(file, "%15s", interface) == 1;
    if (file != NULL)
        fclose(file);
    snprintf(path, sizeof path, "/sys/class/net/%s/device", interface);
    if (!named || realpath(path, place) == NULL)
        place[0] = '\0';
}

/* Sorts devices by position: libibverbs may list them in different orders on equal hosts. */
static void sort_devices(struct ibv_device **list, int count) {
    char place[PATH_MAX], other[PATH_MAX];
    for (int k = 1; k < count; k++) {
        struct ibv_device *device = list[k];
        int at = k;
        device_place(device, place);
        for (; at > 0; at--) {
            device_place(list[at - 1], other);
            if (strcmp(other, place) <= 0)
                break;
            list[at] = list[at - 1];
        }
        list[at] = device;
    }
}

/* Is the module that registers GPU memory, under its present or older name, in this folder of kernel modules? */
static bool verbs_peermem_is_in(const char *modules) {
    static const char *const names[] = {"nvidia_peermem", "nv_peer_mem"};
    char path[PATH_MAX];
    bool found = false;
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof path, "%s/%s", modules, names[k]);
        found |= access(path, F_OK) == 0;
    }
    return found;
}

/* Opens the devices like verbs_host(), into the caller's struct. */
static void verbs_host_open(struct verbs_host *host, const struct config *config) {
    const char *why = "COLLET_IB_DISABLE is set";
    int count = 0;
    SCOPED_LOW;
    memset(host, 0, sizeof(*host));
    if (config->ib_disable || !verbs_lib_open(&host->lib, &why)) {
        snprintf(host->why, sizeof(host->why), "%s", why);
        log_info(NET, "no RDMA: %s", host->why);
        return;
    }
    host->peermem = verbs_peermem_is_in("/sys/module");
    host->lib.fork_init(); /* must be the first call; does nothing if the kernel needs no help */
    snprintf(host->why, sizeof(host->why), "libibverbs finds no device: install its provider (ibverbs-providers)");
    struct ibv_device **list = host->lib.get_device_list(&count);
    if (list != NULL)
        sort_devices(list, count);
    for (int k = 0; list != NULL && k < count && host->ndevices < VERBS_DEVICES_MAX; k++)
        if (open_device(host, list[k], config))
            read_ports(host, &host->devices[host->ndevices - 1], config);
        else
            log_info(NET, "%s", host->why);
    if (list != NULL)
        host->lib.free_device_list(list);
    leave_out_slow(host, config);
    for (int k = 0; k < host->nports; k++) {
        log_port(&host->ports[k]);
        host->kinds |= host->ports[k].kinds;
    }
    if (host->kinds == 0 && host->nports > 0)
        snprintf(host->why, sizeof(host->why), "no port is usable; %s port %d: %s", host->ports[0].device->name,
                 host->ports[0].number, host->ports[0].why);
}

FORK_LOCK(host_lock); /* the loader and libibverbs have their own locks */

struct verbs_host *verbs_host(void) {
    static struct verbs_host the_host;
    static unsigned generation;
    static bool opened;
    SCOPED_LOCK(&host_lock);
    if (!opened || generation != process_forks) { /* a child cannot use what its parent opened */
        verbs_host_open(&the_host, config_process());
        opened = true;
        generation = process_forks;
    }
    return &the_host;
}

/* -------------------------------------------------------------------------------------------------------------- events */

static void port_event(struct verbs_host *host, const struct verbs_device *device, int number, int down) {
    for (int k = 0; k < host->nports; k++)
        if (host->ports[k].device == device && host->ports[k].number == number)
            __atomic_store_n(&host->ports[k].down, down, __ATOMIC_RELAXED);
    log_warn(NET, "port %d of %s %s", number, device->name, down ? "has gone down" : "is active again");
}

static void take_event(struct verbs_host *host, struct verbs_device *device, const struct ibv_async_event *event) {
    switch (event->event_type) {
    case IBV_EVENT_PORT_ERR: port_event(host, device, event->element.port_num, 1); break;
    case IBV_EVENT_PORT_ACTIVE: port_event(host, device, event->element.port_num, 0); break;
    case IBV_EVENT_DEVICE_FATAL:
        __atomic_store_n(&device->removed, 1, __ATOMIC_RELAXED);
        log_warn(NET, "device %s has failed or was removed", device->name);
        break;
    case IBV_EVENT_CQ_ERR: __atomic_store_n((int *)event->element.cq->cq_context, 1, __ATOMIC_RELAXED); break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        /* The queue pair cannot be destroyed before this event is acknowledged, so the int still exists. */
        __atomic_store_n((int *)event->element.qp->qp_context, (int)event->event_type, __ATOMIC_RELAXED);
        break;
    default: log_info(NET, "%s: %s", device->name, host->lib.event_type_str(event->event_type));
    }
}

void verbs_device_look(struct verbs_host *host, struct verbs_device *device) {
    struct ibv_async_event event;
    if (verbs_device_is_gone(device) || pthread_mutex_trylock(&device->events) != 0)
        return; /* there are no more events, or another thread reads them */
    while (host->lib.get_async_event(device->context, &event) == 0) {
        take_event(host, device, &event);
        host->lib.ack_async_event(&event);
    }
    pthread_mutex_unlock(&device->events);
}
