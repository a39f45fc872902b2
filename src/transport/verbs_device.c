/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs_device.h"

#include "base/log.h"
#include "base/memory.h"
#include "boot/address.h"
#include "boot/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------------------------------------------- GIDs */

static bool is_ipv4(const uint8_t *raw) {
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(raw, mapped, sizeof(mapped)) == 0;
}

int verbs_gid_kind(const struct ibv_gid_entry *entry) {
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

int verbs_common_kind(uint32_t a, uint32_t b) { return __builtin_ffs((int)(a & b)) - 1; }

void verbs_port_choose(struct verbs_port *port, const struct ibv_gid_entry *entries, int n, int only) {
    port->kinds = port->interface = 0;
    memset(port->gid_index, 0xff, sizeof(port->gid_index));
    for (int k = 0; k < n; k++) {
        const struct ibv_gid_entry *entry = &entries[k];
        int kind = verbs_gid_kind(entry);
        if (entry->port_num == port->number && port->interface == 0)
            port->interface = entry->ndev_ifindex;
        if (entry->port_num != port->number || kind < 0 || (only >= 0 && entry->gid_index != (uint32_t)only))
            continue;
        if (port->gid_index[kind] >= 0 && port->gid_index[kind] <= (int)entry->gid_index)
            continue;
        port->gid_index[kind] = (int)entry->gid_index;
        port->gids[kind] = entry->gid;
        port->kinds |= 1u << kind;
    }
}

/* --------------------------------------------------------------------------------------------------------------- ports */

bool verbs_port_listed(const char *list, const char *device, int port) {
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

static void read_port(struct verbs_host *host, struct verbs_port *port, const struct config *config,
                      const struct ibv_gid_entry *gids, int ngids) {
    struct ibv_port_attr attr;
    memset(&attr, 0, sizeof(attr));
    verbs_port_choose(port, gids, ngids, (int)config->ib_gid_index);
    bool any = port->kinds != 0;
    if (!verbs_port_listed(config->ib_hca, port->device->name, port->number)) {
        why_not(port, "excluded by COLLET_IB_HCA");
        return;
    }
    if (host->lib.query_port(port->device->context, port->number, (struct _compat_ibv_port_attr *)(void *)&attr) != 0) {
        why_not(port, "the driver does not tell its state");
        return;
    }
    port->grh_required = attr.flags & IBV_QPF_GRH_REQUIRED;
    port->lid = attr.lid;
    port->mtu = attr.active_mtu;
    if (attr.state != IBV_PORT_ACTIVE)
        why_not(port, state_text(attr.state));
    else if (!any)
        why_not(port, config->ib_gid_index >= 0 ? "it has no GID of index COLLET_IB_GID_INDEX"
                                                : "it has no usable GID: give its network interface an IP address");
}

static void log_port(const struct verbs_port *port) {
    char text[VERBS_GID_TEXT_BYTES];
    int kind = verbs_common_kind(port->kinds, port->kinds);
    if (kind < 0) {
        log_info(NET, "%s port %d is not used: %s", port->device->name, port->number, port->why);
        return;
    }
    verbs_gid_text(&port->gids[kind], text);
    log_info(NET, "%s port %d is used as GID %d, %s (%s: the first kind of network in collet's order that it has)",
             port->device->name, port->number, port->gid_index[kind], text, verbs_kind_name((enum verbs_kind)kind));
}

/* ------------------------------------------------------------------------------------------------------------- devices */

/* False, with the reason in host->why: the device is of no use. */
static bool open_device(struct verbs_host *host, struct ibv_device *from) {
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
    int fd = device->context->async_fd;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); /* for verbs_device_look() */
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
        *port = (struct verbs_port){.device = device, .number = (uint8_t)number};
        read_port(host, port, config, gids, n > 0 ? (int)n : 0);
        log_port(port);
        host->kinds |= port->kinds;
    }
}

void verbs_host_open(struct verbs_host *host, const struct config *config) {
    const char *why = "COLLET_IB_DISABLE is set";
    int count = 0;
    memset(host, 0, sizeof(*host));
    if (config->ib_disable || !verbs_lib_open(&host->lib, &why)) {
        snprintf(host->why, sizeof(host->why), "%s", why);
        log_info(NET, "no RDMA: %s", host->why);
        return;
    }
    host->peermem = access("/sys/module/nvidia_peermem", F_OK) == 0;
    host->lib.fork_init(); /* before all else; where the kernel makes it superfluous, it does nothing */
    snprintf(host->why, sizeof(host->why), "libibverbs finds no device: install its provider (ibverbs-providers)");
    struct ibv_device **list = host->lib.get_device_list(&count);
    for (int k = 0; list != NULL && k < count && host->ndevices < VERBS_DEVICES_MAX; k++)
        if (open_device(host, list[k]))
            read_ports(host, &host->devices[host->ndevices - 1], config);
        else
            log_info(NET, "%s", host->why);
    if (list != NULL)
        host->lib.free_device_list(list);
    if (host->kinds == 0 && host->nports > 0)
        snprintf(host->why, sizeof(host->why), "no port is usable; %s port %d: %s", host->ports[0].device->name,
                 host->ports[0].number, host->ports[0].why);
}

void verbs_host_close(struct verbs_host *host) {
    for (int k = 0; k < host->ndevices; k++) {
        host->lib.dealloc_pd(host->devices[k].pd);
        host->lib.close_device(host->devices[k].context);
    }
    host->ndevices = host->nports = 0;
    host->kinds = 0;
}

struct verbs_host *verbs_host(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct verbs_host the_host;
    static unsigned generation;
    static bool opened;
    process_identity(); /* from here on forks are counted */
    SCOPED_LOCK(&lock);
    if (!opened || generation != process_generation()) { /* what the parent opened is of no use to a child */
        verbs_host_open(&the_host, config_process());
        opened = true;
        generation = process_generation();
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
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
        /* Destroying the queue pair waits until this event is acknowledged, so the int is still there. */
        __atomic_store_n((int *)event->element.qp->qp_context, (int)event->event_type, __ATOMIC_RELAXED);
        break;
    default: log_info(NET, "%s: %s", device->name, host->lib.event_type_str(event->event_type));
    }
}

void verbs_device_look(struct verbs_host *host, struct verbs_device *device) {
    struct ibv_async_event event;
    if (pthread_mutex_trylock(&device->events) != 0)
        return; /* somebody is at it */
    while (host->lib.get_async_event(device->context, &event) == 0) {
        take_event(host, device, &event);
        host->lib.ack_async_event(&event);
    }
    pthread_mutex_unlock(&device->events);
}
