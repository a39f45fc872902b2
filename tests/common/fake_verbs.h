/* SPDX-License-Identifier: Apache-2.0
 *
 * A libibverbs that moves memory within one process, for tests: it stands in for verbs_lib.c, which is then not linked.
 *
 *    post_send ─▶ the queue pair's list ── poll_cq of anybody: some of them, in a random order of queue pairs ─▶ executed
 *
 * It is as strict as a NIC, and stricter: addresses, keys and lengths are checked, queues must not overflow, inline data
 * must fit, and whatever was made must have been destroyed. What a test can make go wrong is in struct fake.
 *
 * Memory of a GPU does not show a NIC's writes at once: they are on their way, behind buses. They arrive when that NIC reads
 * from that memory, or when the GPU's driver flushes (fake_land), or never. With `gpu_ordered` they arrive at once.
 *
 * Where memory is registered for relaxed ordering, writes come to lie there in any order, but ahead of the next completion that
 * this device reports. Where the network `spreads`, plain writes do too, but ahead of the next immediate of their queue pair; where
 * it `spreads_all`, data that an immediate brings along may even come after it, which no network does to such writes.
 *
 * A write whose sender has given up may still be in the network: a device that is `dying` keeps such writes, and executes
 * them later if the queue pair they go to still takes them.
 */
#ifndef TESTS_COMMON_FAKE_VERBS_H
#define TESTS_COMMON_FAKE_VERBS_H

#include "transport/verbs/verbs_device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Not every test uses all of it. */
#pragma GCC diagnostic ignored "-Wunused-function"

/* A test that needs more says so. */
#ifndef FAKE_DEVICES
#define FAKE_DEVICES 2
#endif
#define FAKE_QPS 512
#define FAKE_WRITES 128 /* of one queue pair */
#define FAKE_MRS 512
#define FAKE_EVENTS 16
#define FAKE_GIDS (VERBS_GIDS_MAX + 8)
#define FAKE_INLINE 512
#define FAKE_PACKET                                                                                                    \
    64 /* what an immediate brings along stays with it up to this length, even where the network spreads_all */

struct fake_write {
    enum ibv_wr_opcode opcode;
    uint64_t wr_id, remote;
    uint32_t rkey, lkey, length, immediate;
    bool signalled, inlined;
    char *local;            /* where data come from; of a read, go to */
    char data[FAKE_INLINE]; /* of an inline write, as it was when posted */
};

struct fake_cq {
    struct ibv_cq cq; /* first */
    int entries, first, count;
    uint64_t npolls;
    struct ibv_wc *wcs;
    uint64_t *sends; /* by entry: how many sends of its queue pair are over with it */
    struct fake_qp **qps;
};

struct fake_qp {
    struct ibv_qp qp; /* first */
    enum ibv_qp_state state;
    struct ibv_qp_cap cap;
    struct fake_cq *cq;
    uint64_t serial; /* no other has it, whose number may be used again */
    uint32_t to, path_mtu;
    bool global;
    uint16_t dlid, pkey_index;
    uint8_t timeout, retry_cnt;
    struct fake_write writes[FAKE_WRITES];
    int nwrites;
    uint64_t executed, polled; /* sends, from the beginning */
    uint64_t receives[64];
    int nreceives;
    int events; /* not acknowledged */
};

struct fake_device {
    struct ibv_device device;
    struct ibv_context context;
    struct ibv_gid_entry gids[FAKE_GIDS];
    int ngids;
    enum ibv_port_state state;
    enum ibv_mtu mtu;
    uint8_t link_layer, flags, width, speed; /* as in struct ibv_port_attr */
    uint16_t pkeys[4];                       /* as people write them */
    int npkeys;
    uint16_t lid;
    struct ibv_async_event events[FAKE_EVENTS];
    int nevents;
    uint64_t written; /* bytes that its writes have put into other memory */
    /* What goes wrong. */
    bool dying;     /* every send fails with retry exceeded; what was on its way stays in the network for a while */
    bool lose_acks; /* sends are executed, but their senders see retry exceeded */
    bool hanging;   /* nothing moves */
    bool
        gone; /* it has failed: no work request is completed, and nothing is made or changed; but its queue pairs still take
                       writes until they are destroyed, as far as the kernel does that (EIO: it did so before) */
};

static struct fake {
    struct fake_device devices[FAKE_DEVICES];
    struct fake_qp *qps[FAKE_QPS]; /* by number … */
    uint32_t above;                /* … all of which have been below this one */
    struct {
        struct ibv_mr mr;
        int access;
        bool used, gpu;
    } mrs[FAKE_MRS];
    struct fake_landing {
        struct fake_landing *next;
        const struct ibv_pd *pd;                                              /* of the NIC that wrote it */
        enum fake_until { FAKE_FLUSHED, FAKE_REPORTED, FAKE_NOTIFIED } until; /* of a GPU; relaxed; spread */
        const struct fake_qp *by;                                             /* to which it came */
        char *to;
        uint32_t bytes;
        char data[];
    } * landing; /* writes that are not in memory yet */
    struct {
        struct fake_write write;
        uint32_t to;
        uint64_t serial;    /* of the queue pair that it is for, and would know by its packets' numbers */
    } network[FAKE_WRITES]; /* writes that nobody waits for any more */
    int nnetwork;
    int ncqs, npds;
    uint64_t chance, serials;
    uint64_t nposts, nwrites, ninline, nsignalled, nexecuted, nghosts, nregistered;
    uint64_t nrelaxed, nspread, nheavy; /* writes that lay waiting as such; immediates with more than 8 KiB of data */
    uint64_t nlent, nlandings;          /* writes from, and into, memory that is registered */
    const char *fault;                  /* a rule that was broken; NULL: none */
    /* What goes wrong. */
    int max_qp_wr, max_cqe;
    uint32_t max_inline;
    int reg_mr_errno, create_cq_errno, modify_errno, destroy_errno;
    int dmabuf_fd;                       /* that was registered last */
    int reg_dmabuf_errno, reg_gpu_errno; /* of GPU memory: as a dma-buf, by its address */
    bool (*is_gpu)(const void *memory);
    int (*is_registered)(uint64_t address, uint32_t bytes); /* NULL: nobody asks */
    bool gpu_ordered, no_loop, reads_hang;
    uint64_t nreads, nlanded;
    enum ibv_qp_state modify_fails_to;
    const struct ibv_context *modify_fails_on; /* NULL: on every device */
    bool no_rnr_check, absent, takes_no_dmabuf, refuses_relaxed, spreads, spreads_all;
    uint32_t refuse_in;          /* of so many receives the last is refused, and those behind it in its list; 0: none */
    uint32_t flip_in, flip_byte; /* of so many writes with data the last has a bit flipped, in this byte; 0: none */
} fake;

/* Proxies and executors are threads. */
static pthread_mutex_t fake_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int fake_enter(void) { return pthread_mutex_lock(&fake_lock); }
static void fake_leave(const int *entered) {
    (void)entered;
    pthread_mutex_unlock(&fake_lock);
}
#define FAKE_LOCKED __attribute__((cleanup(fake_leave), unused)) int entered = fake_enter()

static void fake_fault(const char *what) {
    if (fake.fault == NULL)
        fake.fault = what;
}

static uint64_t fake_random(void) {
    fake.chance ^= fake.chance << 13;
    fake.chance ^= fake.chance >> 7;
    fake.chance ^= fake.chance << 17;
    return fake.chance;
}

static struct fake_device *fake_device_of(const struct ibv_context *context) {
    for (int k = 0; k < FAKE_DEVICES; k++)
        if (context == &fake.devices[k].context)
            return &fake.devices[k];
    return NULL;
}

static struct fake_qp *fake_find(uint32_t number) { return number < FAKE_QPS ? fake.qps[number] : NULL; }

/* ---- completions ---- */

static void fake_complete(struct fake_qp *qp, struct ibv_wc wc, bool send) {
    struct fake_cq *cq = qp->cq;
    if (cq->count == cq->entries) {
        fake_fault("a completion queue overflowed");
        return;
    }
    int at = (cq->first + cq->count++) % cq->entries;
    wc.qp_num = qp->qp.qp_num;
    cq->wcs[at] = wc;
    cq->sends[at] = send ? qp->executed : 0;
    cq->qps[at] = qp;
}

static void fake_fail_qp(struct fake_qp *qp) {
    if (qp->state == IBV_QPS_ERR)
        return;
    qp->state = IBV_QPS_ERR;
    for (int k = 0; k < qp->nwrites; k++) {
        qp->executed++;
        fake_complete(qp, (struct ibv_wc){.wr_id = qp->writes[k].wr_id, .status = IBV_WC_WR_FLUSH_ERR}, true);
    }
    for (int k = 0; k < qp->nreceives; k++)
        fake_complete(qp, (struct ibv_wc){.wr_id = qp->receives[k], .status = IBV_WC_WR_FLUSH_ERR}, false);
    qp->nwrites = qp->nreceives = 0;
}

static void fake_event(int device, struct ibv_async_event event) {
    struct fake_device *d = &fake.devices[device];
    if (event.event_type == IBV_EVENT_QP_ACCESS_ERR)
        ((struct fake_qp *)(void *)event.element.qp)->events++;
    d->events[d->nevents++ % FAKE_EVENTS] = event;
}

/* ---- executing ---- */

/* The registration that a key, of these rights, names, if all bytes are inside. */
static int fake_registration(const struct ibv_pd *pd, uint32_t key, bool remote, uint64_t at, uint32_t bytes,
                             int access) {
    for (int k = 0; k < FAKE_MRS; k++) {
        const struct ibv_mr *mr = &fake.mrs[k].mr;
        uint64_t first = (uintptr_t)mr->addr;
        if (fake.mrs[k].used && (remote ? mr->rkey : mr->lkey) == key && mr->pd == pd && at >= first &&
            at - first <= mr->length && bytes <= mr->length - (at - first) && (fake.mrs[k].access & access) == access)
            return k;
    }
    return -1;
}

static bool fake_is_registered(uint64_t address, uint32_t bytes) {
    return fake.is_registered != NULL && bytes > 0 && fake.is_registered(address, bytes);
}

static const void *fake_local(const struct fake_write *write, const struct ibv_pd *pd) {
    if (write->inlined)
        return write->data;
    if (write->length == 0)
        return "";
    int access = write->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
    int k = fake_registration(pd, write->lkey, false, (uintptr_t)write->local, write->length, access);
    fake.nlent += k >= 0 && fake_is_registered((uintptr_t)write->local, write->length);
    return k >= 0 ? write->local : NULL;
}

/* What waits until then comes to lie in memory: of this protection domain (NULL: of all), and by this queue pair (NULL: by all). */
static void fake_land_some(enum fake_until until, const struct ibv_pd *pd, const struct fake_qp *by) {
    struct fake_landing **at = &fake.landing;
    while (*at != NULL) {
        struct fake_landing *landing = *at;
        if (landing->until != until || (pd != NULL && landing->pd != pd) || (by != NULL && landing->by != by)) {
            at = &landing->next;
            continue;
        }
        memcpy(landing->to, landing->data, landing->bytes);
        *at = landing->next;
        free(landing);
        fake.nlanded += until == FAKE_FLUSHED;
    }
}

/* What NICs of this protection domain (NULL: all) have written into memory of GPUs comes to lie there. */
static void fake_land(const struct ibv_pd *pd) {
    FAKE_LOCKED;
    fake_land_some(FAKE_FLUSHED, pd, NULL);
}
static void fake_land_all(void) { fake_land(NULL); }

/* Where the bytes are now: in memory, or waiting, between any two that wait. */
static char *fake_store(const struct fake_qp *by, int registration, bool tells, char *to, const void *data,
                        uint32_t bytes) {
    const bool gpu = fake.mrs[registration].gpu && !fake.gpu_ordered;
    const bool spread = tells ? fake.spreads_all && bytes > FAKE_PACKET : fake.spreads;
    const bool relaxed = fake.mrs[registration].access & IBV_ACCESS_RELAXED_ORDERING;
    if (!gpu && !spread && !relaxed)
        return memcpy(to, data, bytes);
    struct fake_landing *landing = malloc(sizeof(*landing) + bytes), **at = &fake.landing;
    *landing = (struct fake_landing){.until = gpu      ? FAKE_FLUSHED
                                              : spread ? FAKE_NOTIFIED
                                                       : FAKE_REPORTED,
                                     .pd = by->qp.pd,
                                     .by = by,
                                     .to = to,
                                     .bytes = bytes};
    memcpy(landing->data, data, bytes);
    fake.nspread += !gpu && spread;
    fake.nrelaxed += !gpu && !spread;
    while (*at != NULL && (gpu || fake_random() % 2 == 0))
        at = &(*at)->next;
    landing->next = *at;
    *at = landing;
    return landing->data;
}

static enum ibv_wc_status fake_refuse(struct fake_qp *to) {
    fake_event((int)(fake_device_of(to->qp.context) - fake.devices),
               (struct ibv_async_event){.element.qp = &to->qp, .event_type = IBV_EVENT_QP_ACCESS_ERR});
    fake_fail_qp(to);
    return IBV_WC_REM_ACCESS_ERR;
}

/* What the responder makes of a write, or of a read into `data`. */
static enum ibv_wc_status fake_respond(struct fake_qp *to, const struct fake_write *write, const void *data) {
    bool read = write->opcode == IBV_WR_RDMA_READ, tells = write->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    char *memory = (char *)(uintptr_t)write->remote;
    int registration = fake_registration(to->qp.pd, write->rkey, true, write->remote, write->length,
                                         read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
    if (registration < 0)
        return fake_refuse(to);
    if (tells && to->nreceives == 0)
        return IBV_WC_RNR_RETRY_EXC_ERR;
    fake.nexecuted++;
    fake.nlandings += !read && fake_is_registered(write->remote, write->length);
    if (read) {
        fake.nreads++;
        fake_land(to->qp.pd);
        memcpy(write->local, memory, write->length);
        return IBV_WC_SUCCESS;
    }
    if (tells)
        fake_land_some(FAKE_NOTIFIED, NULL, to);
    fake.nheavy += tells && write->length > 8192;
    char *stored = fake_store(to, registration, tells, memory, data, write->length);
    if (write->length > 0 && fake.flip_in > 0 && --fake.flip_in == 0)
        stored[fake.flip_byte % write->length] ^= 0x10;
    if (!tells)
        return IBV_WC_SUCCESS;
    struct ibv_wc wc = {.wr_id = to->receives[0],
                        .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                        .byte_len = write->length,
                        .imm_data = write->immediate,
                        .wc_flags = IBV_WC_WITH_IMM};
    memmove(to->receives, to->receives + 1, (size_t)--to->nreceives * sizeof(to->receives[0]));
    fake_complete(to, wc, false);
    return IBV_WC_SUCCESS;
}

static struct fake_write fake_take(struct fake_qp *qp) {
    struct fake_write write = qp->writes[0];
    memmove(qp->writes, qp->writes + 1, (size_t)--qp->nwrites * sizeof(write));
    return write;
}

/* A write that goes on alone: with the data as it was. */
static void fake_haunt(const struct fake_qp *qp, const struct fake_write *write, const void *data) {
    if (fake.nnetwork == FAKE_WRITES || write->length > FAKE_INLINE || write->opcode == IBV_WR_RDMA_READ)
        return;
    fake.network[fake.nnetwork].write = *write;
    fake.network[fake.nnetwork].write.inlined = true;
    fake.network[fake.nnetwork].to = qp->to;
    fake.network[fake.nnetwork].serial = fake_find(qp->to) != NULL ? fake_find(qp->to)->serial : 0;
    memcpy(fake.network[fake.nnetwork++].write.data, data, write->length);
}

static void fake_execute(struct fake_qp *qp) {
    struct fake_device *device = fake_device_of(qp->qp.context);
    struct fake_qp *to = fake_find(qp->to);
    if (qp->nwrites == 0 || qp->state != IBV_QPS_RTS || device->hanging ||
        (fake.reads_hang && qp->writes[0].opcode == IBV_WR_RDMA_READ))
        return;
    struct fake_write write = fake_take(qp);
    const void *data = fake_local(&write, qp->qp.pd);
    enum ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;
    qp->executed++;
    if (data == NULL)
        status = IBV_WC_LOC_PROT_ERR;
    else if (device->dying)
        fake_haunt(qp, &write, data);
    else if (to != NULL && (to->state == IBV_QPS_RTS || to->state == IBV_QPS_RTR) && to->to == qp->qp.qp_num)
        status = fake_respond(to, &write, data);
    if (status == IBV_WC_SUCCESS && write.opcode != IBV_WR_RDMA_READ)
        device->written += write.length;
    if (device->lose_acks && status == IBV_WC_SUCCESS)
        status = IBV_WC_RETRY_EXC_ERR;
    if (write.signalled || status != IBV_WC_SUCCESS)
        fake_complete(qp, (struct ibv_wc){.wr_id = write.wr_id, .status = status, .opcode = IBV_WC_RDMA_WRITE}, true);
    if (status == IBV_WC_SUCCESS)
        return;
    for (int k = 0; k < qp->nwrites && device->dying; k++)
        if ((data = fake_local(&qp->writes[k], qp->qp.pd)) != NULL)
            fake_haunt(qp, &qp->writes[k], data);
    fake_fail_qp(qp);
}

/* A write in the network, if there is one, comes at last. */
static void fake_ghost(void) {
    if (fake.nnetwork == 0)
        return;
    const uint64_t serial = fake.network[0].serial;
    struct fake_write write = fake.network[0].write;
    struct fake_qp *to = fake_find(fake.network[0].to);
    memmove(fake.network, fake.network + 1, (size_t)--fake.nnetwork * sizeof(fake.network[0]));
    if (to == NULL || to->serial != serial || (to->state != IBV_QPS_RTS && to->state != IBV_QPS_RTR))
        return;
    fake.nghosts++;
    fake_respond(to, &write, write.data);
}

/* The device fails. What it was given to send may be on its way. */
static void fake_remove(int device) {
    struct fake_device *d = &fake.devices[device];
    d->gone = d->hanging = true;
    for (int k = 0; k < FAKE_QPS; k++)
        for (struct fake_qp *qp = fake.qps[k]; qp != NULL && qp->qp.context == &d->context && qp->nwrites > 0;) {
            const struct fake_write write = fake_take(qp);
            const void *data = fake_local(&write, qp->qp.pd);
            if (data != NULL)
                fake_haunt(qp, &write, data);
        }
    fake_event(device, (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
}

static bool fake_is_gone(const struct ibv_context *context) { return fake_device_of(context)->gone; }

static void fake_move(void) {
    for (uint64_t n = fake_random() % 4; n > 0 && fake.above > 0; n--) {
        struct fake_qp *qp = fake_find((uint32_t)(fake_random() % fake.above));
        if (qp != NULL)
            fake_execute(qp);
    }
    if (fake_random() % 32 == 0)
        fake_ghost();
}

/* ---- the functions behind ibv_post_send, ibv_post_recv, ibv_poll_cq ---- */

static int fake_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
    FAKE_LOCKED;
    struct fake_qp *qp = (struct fake_qp *)(void *)ibv;
    fake.nposts++;
    for (; wr != NULL; wr = wr->next) {
        *bad = wr;
        if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR)
            return EINVAL;
        if (qp->executed + (uint64_t)qp->nwrites - qp->polled >= qp->cap.max_send_wr) {
            fake_fault("a send queue overflowed");
            return ENOMEM;
        }
        if (qp->state == IBV_QPS_ERR) {
            qp->executed++;
            fake_complete(qp, (struct ibv_wc){.wr_id = wr->wr_id, .status = IBV_WC_WR_FLUSH_ERR}, true);
            continue;
        }
        struct fake_write *write = &qp->writes[qp->nwrites++];
        *write = (struct fake_write){.opcode = wr->opcode,
                                     .wr_id = wr->wr_id,
                                     .remote = wr->wr.rdma.remote_addr,
                                     .rkey = wr->wr.rdma.rkey,
                                     .immediate = wr->imm_data,
                                     .signalled = wr->send_flags & IBV_SEND_SIGNALED};
        if (wr->num_sge == 1) {
            write->length = wr->sg_list->length;
            write->lkey = wr->sg_list->lkey;
            write->local = (char *)(uintptr_t)wr->sg_list->addr;
        }
        if ((wr->send_flags & IBV_SEND_INLINE) && fake.is_gpu != NULL && fake.is_gpu(write->local))
            fake_fault("inline data in memory of a GPU, where the CPU copies them");
        if ((wr->send_flags & IBV_SEND_INLINE) && write->length > qp->cap.max_inline_data)
            fake_fault("more inline data than there is room for");
        else if (wr->send_flags & IBV_SEND_INLINE) {
            memcpy(write->data, write->local, write->length);
            write->inlined = true;
            fake.ninline++;
        }
        fake.nwrites++;
        fake.nsignalled += write->signalled;
    }
    return 0;
}

static int fake_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
    FAKE_LOCKED;
    struct fake_qp *qp = (struct fake_qp *)(void *)ibv;
    for (; wr != NULL; wr = wr->next) {
        *bad = wr;
        if (fake.refuse_in > 0 && --fake.refuse_in == 0)
            return ENOMEM;
        if ((uint32_t)qp->nreceives == qp->cap.max_recv_wr) {
            fake_fault("a receive queue overflowed");
            return ENOMEM;
        }
        qp->receives[qp->nreceives++] = wr->wr_id;
    }
    return 0;
}

static int fake_poll_cq(struct ibv_cq *ibv, int room, struct ibv_wc *wcs) {
    FAKE_LOCKED;
    struct fake_cq *cq = (struct fake_cq *)(void *)ibv;
    int n = 0;
    cq->npolls++;
    fake_move();
    for (; n < room && cq->count > 0; n++, cq->count--) {
        wcs[n] = cq->wcs[cq->first];
        if (cq->sends[cq->first] != 0)
            cq->qps[cq->first]->polled = cq->sends[cq->first];
        fake_land_some(FAKE_REPORTED, cq->qps[cq->first] != NULL ? cq->qps[cq->first]->qp.pd : NULL, NULL);
        cq->first = (cq->first + 1) % cq->entries;
    }
    return n;
}

/* ---- the functions of struct verbs_lib ---- */

static int fake_fork_init(void) { return 0; }

static struct ibv_device **fake_get_device_list(int *count) {
    struct ibv_device **list = calloc(FAKE_DEVICES + 1, sizeof(*list));
    for (int k = 0; k < FAKE_DEVICES; k++)
        list[k] = &fake.devices[k].device;
    *count = FAKE_DEVICES;
    return list;
}

static void fake_free_device_list(struct ibv_device **list) { free(list); }
static const char *fake_get_device_name(struct ibv_device *device) { return device->name; }

static struct ibv_context *fake_open_device(struct ibv_device *device) {
    struct fake_device *d = (struct fake_device *)(void *)device;
    d->context = (struct ibv_context){.device = device, .async_fd = open("/dev/null", O_RDONLY)};
    d->context.ops.post_send = fake_post_send;
    d->context.ops.post_recv = fake_post_recv;
    d->context.ops.poll_cq = fake_poll_cq;
    return &d->context;
}

static int fake_close_device(struct ibv_context *context) { return close(context->async_fd); }

static int fake_query_device(struct ibv_context *context, struct ibv_device_attr *attr) {
    (void)context;
    *attr = (struct ibv_device_attr){.phys_port_cnt = 1, .max_qp_wr = fake.max_qp_wr, .max_cqe = fake.max_cqe};
    return 0;
}

static int fake_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *compat) {
    struct ibv_port_attr *attr = (struct ibv_port_attr *)(void *)compat;
    const struct fake_device *d = fake_device_of(context);
    if (port != 1)
        return EINVAL;
    attr->state = d->state;
    attr->active_mtu = d->mtu;
    attr->link_layer = d->link_layer;
    attr->flags = d->flags;
    attr->active_width = d->width;
    attr->active_speed = d->speed;
    attr->lid = d->lid;
    attr->pkey_tbl_len = (uint16_t)d->npkeys;
    return 0;
}

static int fake_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey) {
    const struct fake_device *d = fake_device_of(context);
    if (port != 1 || index < 0 || index >= d->npkeys)
        return -1;
    *pkey = htons(d->pkeys[index]);
    return 0;
}

static ssize_t fake_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t room,
                                    uint32_t flags, size_t entry_bytes) {
    const struct fake_device *d = fake_device_of(context);
    (void)flags;
    if (entry_bytes != sizeof(*entries) || room < (size_t)d->ngids)
        return -EINVAL;
    memcpy(entries, d->gids, (size_t)d->ngids * sizeof(*entries));
    return d->ngids;
}

static struct ibv_pd *fake_alloc_pd(struct ibv_context *context) {
    struct ibv_pd *pd = calloc(1, sizeof(*pd));
    pd->context = context;
    fake.npds++;
    return pd;
}

static int fake_dealloc_pd(struct ibv_pd *pd) {
    free(pd);
    fake.npds--;
    return 0;
}

static struct ibv_mr *fake_register(struct ibv_pd *pd, void *address, size_t bytes, int access, bool gpu) {
    if (fake_is_gone(pd->context))
        fake_fault("memory was registered with a device that is gone");
    for (int k = 0; k < FAKE_MRS; k++)
        if (!fake.mrs[k].used) {
            fake.nregistered++;
            fake.mrs[k].used = true;
            fake.mrs[k].gpu = gpu;
            fake.mrs[k].access = access;
            fake.mrs[k].mr = (struct ibv_mr){.context = pd->context,
                                             .pd = pd,
                                             .addr = address,
                                             .length = bytes,
                                             .lkey = 1000u + (uint32_t)k,
                                             .rkey = 2000u + (uint32_t)k};
            return &fake.mrs[k].mr;
        }
    return NULL;
}

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access) {
    FAKE_LOCKED;
    bool gpu = fake.is_gpu != NULL && fake.is_gpu(address);
    errno = gpu ? fake.reg_gpu_errno : fake.reg_mr_errno;
    return errno == 0 ? fake_register(pd, address, bytes, access, gpu) : NULL;
}

static struct ibv_mr *fake_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova,
                                        unsigned access) {
    if (iova != (uintptr_t)address)
        fake_fault("memory is registered at another address");
    errno = EINVAL;
    return fake.refuses_relaxed && (access & IBV_ACCESS_RELAXED_ORDERING)
               ? NULL
               : fake_reg_mr(pd, address, bytes, (int)access);
}

/* Takes no dma-buf that does not exist; which the errno tells from taking none at all. */
static struct ibv_mr *fake_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd,
                                         int access) {
    FAKE_LOCKED;
    errno = fake.takes_no_dmabuf ? EOPNOTSUPP : EBADF;
    if (fd < 0 || fake.takes_no_dmabuf)
        return NULL;
    errno = EINVAL;
    if (fake.refuses_relaxed && (access & IBV_ACCESS_RELAXED_ORDERING))
        return NULL;
    if (fcntl(fd, F_GETFD) < 0 || offset != 0 || bytes % 4096 != 0)
        fake_fault("no dma-buf, or not of whole pages");
    fake.dmabuf_fd = fd;
    errno = fake.reg_dmabuf_errno;
    return errno == 0 ? fake_register(pd, (void *)(uintptr_t)iova, bytes, access, true) : NULL;
}

/* What is on its way into memory that is no longer registered comes to nothing. */
static int fake_dereg_mr(struct ibv_mr *mr) {
    FAKE_LOCKED;
    for (struct fake_landing **at = &fake.landing; *at != NULL;) {
        struct fake_landing *landing = *at;
        if (landing->pd == mr->pd && landing->to >= (char *)mr->addr && landing->to < (char *)mr->addr + mr->length) {
            *at = landing->next;
            free(landing);
        } else {
            at = &landing->next;
        }
    }
    for (int k = 0; k < FAKE_MRS; k++)
        if (mr == &fake.mrs[k].mr)
            fake.mrs[k].used = false;
    return fake_is_gone(mr->context) ? EIO : 0;
}

static struct ibv_cq *fake_create_cq(struct ibv_context *context, int entries, void *user,
                                     struct ibv_comp_channel *channel, int vector) {
    FAKE_LOCKED;
    (void)channel, (void)vector;
    if (fake_is_gone(context))
        fake_fault("a completion queue was made on a device that is gone");
    errno = entries > fake.max_cqe ? EINVAL : fake.create_cq_errno;
    if (errno != 0)
        return NULL;
    struct fake_cq *cq = calloc(1, sizeof(*cq));
    cq->cq.context = context;
    cq->cq.cq_context = user;
    cq->entries = entries;
    cq->wcs = calloc((size_t)entries, sizeof(*cq->wcs));
    cq->sends = calloc((size_t)entries, sizeof(*cq->sends));
    cq->qps = calloc((size_t)entries, sizeof(struct fake_qp *));
    fake.ncqs++;
    return &cq->cq;
}

static int fake_destroy_cq(struct ibv_cq *ibv) {
    FAKE_LOCKED;
    struct fake_cq *cq = (struct fake_cq *)(void *)ibv;
    for (int k = 0; k < FAKE_QPS; k++)
        if (fake.qps[k] != NULL && fake.qps[k]->cq == cq)
            fake_fault("a completion queue was destroyed before its queue pairs");
    free(cq->wcs);
    free(cq->sends);
    free(cq->qps);
    free(cq);
    fake.ncqs--;
    return 0;
}

static struct ibv_qp *fake_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
    FAKE_LOCKED;
    errno = EINVAL;
    if (fake_is_gone(pd->context))
        fake_fault("a queue pair was made on a device that is gone");
    if (attr->cap.max_inline_data > fake.max_inline || attr->cap.max_send_wr > (uint32_t)fake.max_qp_wr ||
        attr->cap.max_recv_wr > (uint32_t)fake.max_qp_wr)
        return NULL;
    for (uint32_t k = 1; k < FAKE_QPS; k++)
        if (fake.qps[k] == NULL) {
            struct fake_qp *qp = fake.qps[k] = calloc(1, sizeof(*qp));
            fake.above = k >= fake.above ? k + 1 : fake.above;
            qp->qp = (struct ibv_qp){.context = pd->context, .qp_context = attr->qp_context, .pd = pd, .qp_num = k};
            qp->serial = ++fake.serials;
            qp->cap = attr->cap;
            qp->cq = (struct fake_cq *)(void *)attr->send_cq;
            return &qp->qp;
        }
    return NULL;
}

static int fake_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask) {
    FAKE_LOCKED;
    struct fake_qp *qp = (struct fake_qp *)(void *)ibv;
    if (fake_is_gone(ibv->context))
        return EIO;
    if (fake.modify_errno != 0 && attr->qp_state == fake.modify_fails_to &&
        (fake.modify_fails_on == NULL || fake.modify_fails_on == ibv->context))
        return fake.modify_errno;
    if (fake.no_loop && (mask & IBV_QP_DEST_QPN) && attr->dest_qp_num == ibv->qp_num)
        return EINVAL;
    if (mask & IBV_QP_DEST_QPN)
        qp->to = attr->dest_qp_num;
    if (mask & IBV_QP_PATH_MTU)
        qp->path_mtu = attr->path_mtu;
    if (mask & IBV_QP_TIMEOUT)
        qp->timeout = attr->timeout;
    if (mask & IBV_QP_RETRY_CNT)
        qp->retry_cnt = attr->retry_cnt;
    if (mask & IBV_QP_AV)
        qp->global = attr->ah_attr.is_global;
    if (mask & IBV_QP_AV)
        qp->dlid = attr->ah_attr.dlid;
    if (mask & IBV_QP_PKEY_INDEX)
        qp->pkey_index = attr->pkey_index;
    if (attr->qp_state == IBV_QPS_ERR)
        fake_fail_qp(qp);
    qp->state = attr->qp_state;
    return 0;
}

/* The queue pair is destroyed. What it has in its completion queue goes with it on some NICs, and stays on others. */
static void fake_sweep(struct fake_cq *cq, const struct fake_qp *qp, bool stays) {
    int count = cq->count;
    cq->count = 0;
    for (int k = 0; k < count; k++) {
        int from = (cq->first + k) % cq->entries, to = (cq->first + cq->count) % cq->entries;
        const bool its = cq->qps[from] == qp;
        if (its && !stays)
            continue;
        cq->wcs[to] = cq->wcs[from];
        cq->sends[to] = its ? 0 : cq->sends[from];
        cq->qps[to] = its ? NULL : cq->qps[from];
        cq->count++;
    }
}

static int fake_destroy_qp(struct ibv_qp *ibv) {
    FAKE_LOCKED;
    struct fake_qp *qp = (struct fake_qp *)(void *)ibv;
    if (qp->events != 0)
        fake_fault("a queue pair was destroyed before its events were acknowledged"); /* a real one would wait */
    const int error = fake.destroy_errno != 0 ? fake.destroy_errno : fake_is_gone(ibv->context) ? EIO : 0;
    fake_sweep(qp->cq, qp, fake_random() % 2);
    fake.qps[ibv->qp_num] = NULL;
    free(qp);
    return error;
}

static int fake_get_async_event(struct ibv_context *context, struct ibv_async_event *event) {
    FAKE_LOCKED;
    struct fake_device *d = fake_device_of(context);
    errno = EAGAIN;
    if (d->nevents == 0)
        return -1;
    *event = d->events[0];
    memmove(d->events, d->events + 1, (size_t)--d->nevents * sizeof(*event));
    return 0;
}

static void fake_ack_async_event(struct ibv_async_event *event) {
    FAKE_LOCKED;
    if (event->event_type == IBV_EVENT_QP_ACCESS_ERR)
        ((struct fake_qp *)(void *)event->element.qp)->events--;
}

static const char *fake_event_type_str(enum ibv_event_type type) {
    return type == IBV_EVENT_QP_ACCESS_ERR ? "local access violation work queue error" : "an event";
}

static const char *fake_wc_status_str(enum ibv_wc_status status) {
    return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "a status";
}

bool verbs_lib_open(struct verbs_lib *lib, const char **why) {
    *why = "the fake has no device";
    *lib = (struct verbs_lib){
        fake_fork_init,       fake_get_device_list, fake_free_device_list, fake_get_device_name, fake_open_device,
        fake_close_device,    fake_query_device,    fake_query_port,       fake_query_gid_table, fake_query_pkey,
        fake_alloc_pd,        fake_dealloc_pd,      fake_reg_mr,           fake_reg_mr_iova2,    fake_dereg_mr,
        fake_create_cq,       fake_destroy_cq,      fake_create_qp,        fake_modify_qp,       fake_destroy_qp,
        fake_get_async_event, fake_ack_async_event, fake_event_type_str,   fake_wc_status_str,   fake_reg_dmabuf_mr,
    };
    return !fake.absent;
}

/* ---- for tests ---- */

static void fake_add_gid(struct fake_device *d, const char *address, enum ibv_gid_type type) {
    struct ibv_gid_entry *entry = &d->gids[d->ngids];
    *entry = (struct ibv_gid_entry){.gid_index = (uint32_t)d->ngids++, .port_num = 1, .gid_type = type};
    inet_pton(AF_INET6, address, entry->gid.raw);
}

/* Devices mlx5_0, mlx5_1 …, RoCE, each with the GIDs that a machine with an IPv4 address has. */
static void fake_reset(void) {
    memset(&fake, 0, sizeof(fake));
    setenv("COLLET_IB_PCI_RELAXED_ORDERING", "1", 1); /* it is no PCI function */
    fake.chance = 88172645463325252ull;
    fake.max_qp_wr = 1024;
    fake.max_cqe = 4096;
    fake.max_inline = 256;
    for (int k = 0; k < FAKE_DEVICES; k++) {
        struct fake_device *d = &fake.devices[k];
        d->device.node_type = IBV_NODE_CA;
        d->device.transport_type = IBV_TRANSPORT_IB;
        char local[16], mapped[32];
        snprintf(d->device.name, sizeof(d->device.name), "mlx5_%d", k);
        snprintf(local, sizeof(local), "fe80::%x", k + 1);
        snprintf(mapped, sizeof(mapped), "::ffff:10.0.%d.2", k);
        d->state = IBV_PORT_ACTIVE;
        d->mtu = IBV_MTU_4096;
        d->link_layer = IBV_LINK_LAYER_ETHERNET;
        d->pkeys[d->npkeys++] = 0xffff;
        fake_add_gid(d, local, IBV_GID_TYPE_ROCE_V1);
        fake_add_gid(d, local, IBV_GID_TYPE_ROCE_V2);
        fake_add_gid(d, mapped, IBV_GID_TYPE_ROCE_V1);
        fake_add_gid(d, mapped, IBV_GID_TYPE_ROCE_V2);
    }
}

/* Everything is repaired; devices stay open. */
static void fake_repair(void) {
    for (int k = 0; k < FAKE_DEVICES; k++)
        fake.devices[k].dying = fake.devices[k].lose_acks = fake.devices[k].hanging = fake.devices[k].gone = false,
        fake.devices[k].written = 0;
    fake.max_qp_wr = 1024;
    fake.max_cqe = 4096;
    fake.max_inline = 256;
    fake.reg_mr_errno = fake.create_cq_errno = fake.modify_errno = fake.reg_dmabuf_errno = fake.reg_gpu_errno = 0;
    fake.modify_fails_on = NULL;
    fake.destroy_errno = 0;
    fake.refuse_in = 0;
    fake.gpu_ordered = fake.no_loop = fake.reads_hang = false;
    fake.refuses_relaxed = fake.spreads = fake.spreads_all = false;
    fake.nrelaxed = fake.nspread = fake.nheavy = 0;
    fake.nnetwork = 0;
    fake.nreads = fake.nlanded = fake.nlent = fake.nlandings = 0;
    fake.nposts = fake.nwrites = fake.ninline = fake.nsignalled = fake.nexecuted = fake.nghosts = fake.nregistered = 0;
}

/* Connections are closed: is anything left of them, or was a rule broken? NULL: all is well. */
static const char *fake_leftover(void) {
    for (int k = 0; k < FAKE_QPS; k++)
        if (fake.qps[k] != NULL)
            return "a queue pair is left";
    for (int k = 0; k < FAKE_MRS; k++)
        if (fake.mrs[k].used)
            return "a registration is left";
    return fake.ncqs != 0 ? "a completion queue is left" : fake.fault;
}

#endif
