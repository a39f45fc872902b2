/* SPDX-License-Identifier: Apache-2.0
 *
 * The RDMA devices of this machine, their ports, and under which address (GID) each port is used.
 *
 *    device (context, protection domain)
 *      port 1 ── GID table: │ 0 fe80::…  RoCEv1 │ 1 fe80::…  RoCEv2 │ 2 ::ffff:10.0.0.2 RoCEv1 │ 3 the same, RoCEv2 │
 *                             kind: v1             link-local           v1                         IPv4
 *
 * The GIDs of a port tell to which kinds of network the port belongs. The first GID of each kind is used. Two ranks use a kind
 * that both have, and pair their ports: number 0 with number 0, and so on. Each such pair is a rail (verbs_rail.c).
 *
 * A port's number is its place among all ports of its link layer, InfiniBand or Ethernet, whatever their state. So an
 * unplugged cable on one host does not change the numbers of other ports. Devices are in the order of their positions in
 * the machine, so equal hosts number their ports in the same way. At init, each rank tells all others which numbers are
 * usable, in its card:
 *
 *     card   │ kinds, bits 0 … 7 │ InfiniBand ports that are usable, bits 8 … 31 │ Ethernet ports, bits 32 … 55 │
 *
 * The devices are opened once per process, at the first communicator. They stay open until the process ends.
 */
#ifndef COLLET_TRANSPORT_VERBS_VERBS_DEVICE_H
#define COLLET_TRANSPORT_VERBS_VERBS_DEVICE_H

#include "base/config.h"
#include "base/cpus.h"
#include "transport/verbs/verbs_lib.h"

#include <pthread.h>
#include <string.h>

/* Kinds of networks, in order of preference: routed networks first. */
enum verbs_kind {
    VERBS_INFINIBAND,
    VERBS_ROCE_IPV4,
    VERBS_ROCE_IPV6,
    VERBS_ROCE_LINK, /* RoCEv2 with link-local addresses: one subnet only */
    VERBS_ROCE_V1,   /* not IP: one subnet only */
    VERBS_KIND_COUNT
};

#define VERBS_DEVICES_MAX 16
#define VERBS_PORTS_MAX 32
#define VERBS_GIDS_MAX 1024  /* maximum number of GIDs to read, in less than 64 KiB */
#define VERBS_NUMBERS_MAX 24 /* maximum number of used ports of one link layer */
#define VERBS_NAME_BYTES 64
#define VERBS_TEXT_BYTES 160
#define VERBS_GID_TEXT_BYTES 48

struct verbs_device {
    char name[VERBS_NAME_BYTES];
    struct ibv_context *context;
    struct ibv_pd *pd;
    pthread_mutex_t events; /* held while the device's events are read */
    int removed;            /* 1: an event said that the device was removed */
    struct os_cpu_set cpus; /* CPUs near the device; empty: not known */
    bool software;          /* a software device (rxe, siw), without a PCI function */
    bool relaxed;           /* memory may be registered for writes in any order (verbs_memory.h) */
};

struct verbs_port {
    struct verbs_device *device;
    uint8_t number;     /* number of the port on its device, from 1 */
    uint8_t place;      /* number among the host's ports of its link layer; VERBS_NUMBERS_MAX or more: not used */
    bool infiniband;    /* 1: InfiniBand; 0: Ethernet */
    uint32_t mbits;     /* Mbit/s; 0: not known */
    int down;           /* 1: an event said that the port is down */
    bool grh_required;  /* every queue pair must be addressed by GID */
    unsigned interface; /* number of its network interface; 0: not known */
    uint16_t lid;
    uint16_t pkey_index; /* index in its table of partition keys */
    enum ibv_mtu mtu;
    int gid_index[VERBS_KIND_COUNT]; /* [kind] index of the port's GID; −1: none */
    union ibv_gid gids[VERBS_KIND_COUNT];
    uint32_t kinds;             /* bits by enum verbs_kind; 0: the port is not usable … */
    char why[VERBS_TEXT_BYTES]; /* … for this reason; with the remedy */
};

struct verbs_host {
    struct verbs_lib lib;
    int ndevices, nports;
    struct verbs_device devices[VERBS_DEVICES_MAX];
    struct verbs_port ports[VERBS_PORTS_MAX];
    uint32_t kinds;                 /* kinds of all usable ports */
    int nplaces[2];                 /* [link layer, 1: InfiniBand] number of used ports */
    bool peermem;                   /* nvidia-peermem is loaded: devices register GPU memory by address */
    char why[2 * VERBS_TEXT_BYTES]; /* if kinds is 0: the reason, with the remedy */
};

/* Is the device gone? Then nothing new is made on the device, and nobody asks it anything. */
static inline bool verbs_device_is_gone(const struct verbs_device *device) {
    return __atomic_load_n(&device->removed, __ATOMIC_RELAXED);
}

/* The RDMA devices of this process. Never NULL. After fork() the child opens its own. */
struct verbs_host *verbs_host(void);

uint64_t verbs_host_card(const struct verbs_host *host);
static inline uint32_t verbs_card_kinds(uint64_t card) { return card & 0xff; }

/* Chooses, from both cards, the kind of network that two ranks use: the kind with the most pairs of ports; among equals the first. −1: there
 * is none. */
int verbs_common_kind(uint64_t a, uint64_t b);
/* Lists, by place, the ports of this kind that the rank with card `mine` uses toward the rank with card `theirs`: places that are usable at
 * both ends. If there is no such place, the numbers of ports do not tell networks apart. Then the first usable ports are paired, then the
 * second ones, and so on. Returns the number of ports. */
int verbs_pair_ports(uint64_t mine, uint64_t theirs, enum verbs_kind kind, uint8_t places[VERBS_NUMBERS_MAX]);
const char *verbs_kind_name(enum verbs_kind kind);

/* Writes an address for people: 10.0.0.2, or fe80::1. */
void verbs_gid_text(const union ibv_gid *gid, char text[VERBS_GID_TEXT_BYTES]);

/* Local InfiniBand GIDs: │ 10 bits fixed │ 22 bits 0 │ FLID │ subnet │ 64 bits of the port │. A FLID is a LID that routers between
 * subnets know; 0: the port has no FLID. Other GIDs have 64 bits of subnet. */
static inline bool verbs_gid_is_local(const union ibv_gid *gid) { return gid->raw[0] == 0xfe && gid->raw[1] >= 0x80; }
static inline uint16_t verbs_gid_flid(const union ibv_gid *gid) {
    return verbs_gid_is_local(gid) ? (uint16_t)(gid->raw[4] << 8 | gid->raw[5]) : 0;
}
static inline bool verbs_gids_share_subnet(const union ibv_gid *a, const union ibv_gid *b) {
    if (!verbs_gid_is_local(a) || !verbs_gid_is_local(b))
        return memcmp(a->raw, b->raw, 8) == 0;
    return memcmp(a->raw, b->raw, 4) == 0 && memcmp(a->raw + 6, b->raw + 6, 2) == 0;
}

/* Reads the device's events: ports go down or come back, devices vanish, queue pairs fail. If a queue pair fails, the event's type is stored
 * in the int to which its qp_context points. Does not block. Any thread may call it. */
void verbs_device_look(struct verbs_host *host, struct verbs_device *device);

#endif
