/* SPDX-License-Identifier: Apache-2.0
 *
 * Two hosts with a slow link between them, on one machine: runs a program as rank 0 on the one and as rank 1 on the other.
 * Each host is a network namespace, whose only way out is a device that this program reads and writes. A packet that comes
 * out of the one host goes into the other one so many milliseconds later. Nothing else is slow: as long as a rank waits for
 * the link, its CPU is free.
 *
 *    namespace of rank 0                this program                 namespace of rank 1
 *    10.77.9.1  tun ──────▶ packet, due in 10 ms ▶ packet ▶ … ──────▶ tun  10.77.9.2
 *               tun ◀────── … ◀ packet ◀ packet, due in 10 ms ◀────── tun
 *
 *   slow_link [--delay-ms 10] [--lose 0] [--flip 0] [--sniff TEXT] [--cut 0] [--deaf 0] [--fast-too] program [argument …]
 *
 * --lose 100 loses each 100th packet. --flip 100 flips a bit of TCP's data in each 100th long packet, and makes its checksum
 * right again: so does a router with bad memory. Short packets, those of the control plane among them, stay whole.
 * --sniff TEXT says at the end how often a listener on the way would have seen this text.
 * --cut 50: once 50 long packets have been under way, nothing gets through any more; --deaf 50: rank 0's host gets nothing, and the
 * other one all. When all programs have ended, it says how long that took after the link had ended.
 * --fast-too gives each host a second device, "fast" beside "slow", 10.78.9.1 and .2, whose packets are neither late nor lost.
 *
 * It needs no rights but those to make namespaces. Exits with 77 where that is not permitted, else as the program does.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOSTS 2
#define NOT_PERMITTED 77
#define MTU_BYTES 65000 /* few, long packets: this program takes little of the ranks' CPUs */
#define LOOK_EVERY_NS 50000000u

struct packet {
    struct packet *next;
    uint64_t due_ns;
    ssize_t bytes;
    char data[];
};

/* What is under way to a host, oldest first. */
struct way {
    struct packet *first, *last;
};

enum { NICS = 2 };

struct host {
    pid_t pid;
    int control;      /* to the process that becomes the rank */
    int device[NICS]; /* −1: there is none */
    struct way way[NICS];
};

/* What lies between the devices of a name. */
struct wire {
    const char *name, *address[HOSTS];
    uint64_t delay_ns;
    uint64_t lose, packets;      /* each packet of such a number is lost; 0: none is */
    uint64_t flip, long_packets; /* of the long ones, a bit of each of such a number flips; 0: of none */
    uint64_t ends[HOSTS],
        taken;         /* a host gets nothing after so many long ones that were taken from both; 0: it goes on */
    uint64_t ended_ns; /* when a host first got nothing; 0: not yet */
};
static struct wire wires[NICS] = {{.name = "slow", .address = {"10.77.9.1", "10.77.9.2"}, .delay_ns = 10000000},
                                  {.name = "fast", .address = {"10.78.9.1", "10.78.9.2"}}};
static int nnics = 1;

/* What a listener on the way looks for, and in how many long packets it was; NULL: nothing. */
static const char *sniffed;
static uint64_t nsniffed, nlong;

static void give_up(const char *what) {
    fprintf(stderr, "slow_link: %s: %s\n", what, strerror(errno));
    exit(errno == EPERM || errno == EACCES || errno == ENOENT ? NOT_PERMITTED : 1);
}

static uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- a host ---- */

static void device_ask(int socket, struct ifreq *request, unsigned long what, const char *name) {
    if (ioctl(socket, what, request) != 0)
        give_up(name);
}

static struct sockaddr address_of(const char *text) {
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr address;
    inet_pton(AF_INET, text, &in.sin_addr);
    memcpy(&address, &in, sizeof address);
    return address;
}

static void device_raise(const char *name) {
    int inet = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    device_ask(inet, &request, SIOCSIFFLAGS, "cannot raise a network device");
    close(inet);
}

static void device_address(const char *name, const char *address) {
    int inet = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_addr = address_of(address)};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    device_ask(inet, &request, SIOCSIFADDR, "cannot set an address");
    request.ifr_netmask = address_of("255.255.255.0");
    device_ask(inet, &request, SIOCSIFNETMASK, "cannot set a netmask");
    request.ifr_mtu = MTU_BYTES;
    device_ask(inet, &request, SIOCSIFMTU, "cannot set an MTU");
    close(inet);
}

/* Moves this process into a host of its own, which has no device yet. */
static void host_enter(void) {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        give_up("cannot make a network namespace");
    device_raise("lo");
}

/* Returns the device, as what goes in and out there. */
static int device_create(const char *name, const char *address) {
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0)
        give_up("cannot open /dev/net/tun");
    device_ask(device, &request, TUNSETIFF, "cannot make a network device");
    device_address(name, address);
    device_raise(name);
    return device;
}

/* An open file, from the process of a host to this one. */
union descriptor_room {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void descriptor_send(int socket, int descriptor) {
    char byte = 0;
    union descriptor_room room = {0};
    struct iovec text = {&byte, 1};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof descriptor);
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    if (sendmsg(socket, &message, 0) != 1)
        give_up("cannot hand a device over");
}

/* −1: the process has ended. */
static int descriptor_receive(int socket) {
    char byte;
    int descriptor = -1;
    union descriptor_room room = {0};
    struct iovec text = {&byte, 1};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &room, .msg_controllen = sizeof room};
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message) != NULL)
        memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    return descriptor;
}

/* Becomes a rank, when both hosts are there. */
static void host_run(int rank, int control, char **command) {
    char text[16], go;
    host_enter();
    for (int nic = 0; nic < nnics; nic++)
        descriptor_send(control, device_create(wires[nic].name, wires[nic].address[rank]));
    if (read(control, &go, 1) != 1)
        exit(1);
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    setenv("COLLET_HOSTID", text, 1); /* or ranks would find that they can share memory */
    setenv("WORLD_SIZE", "2", 1);
    setenv("MASTER_ADDR", wires[0].address[0], 1);
    setenv("MASTER_PORT", "29500", 1);
    execvp(command[0], command);
    give_up(command[0]);
}

static void host_start(struct host *host, int rank, char **command) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0 || (host->pid = fork()) < 0)
        give_up("cannot start a process");
    if (host->pid == 0)
        host_run(rank, ends[1], command);
    close(ends[1]);
    host->control = ends[0];
    for (int nic = 0; nic < NICS; nic++)
        host->device[nic] = nic < nnics ? descriptor_receive(ends[0]) : -1;
}

/* ---- the link ---- */

#define LONG_BYTES 16000

/* RFC 1624: a sum of 16-bit words in one's complement follows from the old one and from the word that changed. */
static void checksum_update(unsigned char *at, unsigned before, unsigned after) {
    unsigned sum = (~(at[0] * 256u + at[1]) & 0xffff) + (~before & 0xffff) + after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~(sum + (sum >> 16)) & 0xffff;
    at[0] = (unsigned char)(sum >> 8);
    at[1] = (unsigned char)sum;
}

/* In the middle of an IPv4 packet, if that is TCP. */
static void packet_flip(unsigned char *packet, size_t bytes) {
    const size_t header_bytes = 4 * (packet[0] & 15u), checksum_at = header_bytes + 16;
    unsigned char *word = packet + header_bytes + (bytes - header_bytes) / 4 * 2;
    unsigned before = word[0] * 256u + word[1];
    if (packet[0] >> 4 != 4 || packet[9] != IPPROTO_TCP)
        return;
    word[1] ^= 4;
    checksum_update(packet + checksum_at, before, word[0] * 256u + word[1]);
}

static void packet_sniff(const char *packet, size_t bytes) {
    nlong++;
    nsniffed += memmem(packet, bytes, sniffed, strlen(sniffed)) != NULL;
}

static int is_nth(uint64_t n, uint64_t *count) { return n > 0 && ++*count % n == 0; }

static int has_ended(const struct wire *wire, int host) {
    return wire->ends[host] > 0 && wire->taken >= wire->ends[host];
}

/* Takes what has come out of the other host, for this one. */
static void way_take(struct way *way, int host, int from, struct wire *wire) {
    static char data[MTU_BYTES];
    ssize_t bytes;
    while ((bytes = read(from, data, sizeof data)) > 0) {
        wire->taken += bytes >= LONG_BYTES;
        if (has_ended(wire, host) && wire->ended_ns == 0)
            wire->ended_ns = now_ns();
        if (has_ended(wire, host) || is_nth(wire->lose, &wire->packets))
            continue;
        if (bytes >= LONG_BYTES && sniffed != NULL)
            packet_sniff(data, (size_t)bytes);
        if (bytes >= LONG_BYTES && is_nth(wire->flip, &wire->long_packets))
            packet_flip((unsigned char *)data, (size_t)bytes);
        struct packet *packet = malloc(sizeof *packet + (size_t)bytes);
        if (packet == NULL)
            give_up("no memory for a packet");
        *packet = (struct packet){.due_ns = now_ns() + wire->delay_ns, .bytes = bytes};
        memcpy(packet->data, data, (size_t)bytes);
        *(way->first == NULL ? &way->first : &way->last->next) = packet;
        way->last = packet;
    }
}

/* Hands over what is due. A host whose queue is full loses a packet, as on any link. */
static void way_give(struct way *way, int to) {
    while (way->first != NULL && way->first->due_ns <= now_ns()) {
        struct packet *packet = way->first;
        way->first = packet->next;
        if (write(to, packet->data, (size_t)packet->bytes) < 0 && errno != EAGAIN && errno != EIO)
            give_up("cannot write to a device");
        free(packet);
    }
}

static uint64_t pause_ns(const struct host *hosts) {
    uint64_t now = now_ns(), pause = LOOK_EVERY_NS;
    for (int k = 0; k < HOSTS * NICS; k++) {
        const struct packet *first = hosts[k / NICS].way[k % NICS].first;
        uint64_t left = first == NULL ? pause : first->due_ns > now ? first->due_ns - now : 0;
        pause = left < pause ? left : pause;
    }
    return pause;
}

static void wires_carry(struct host *hosts) {
    struct pollfd polls[HOSTS * NICS];
    struct timespec pause = {.tv_nsec = (long)pause_ns(hosts)};
    for (int k = 0; k < HOSTS * NICS; k++)
        polls[k] = (struct pollfd){hosts[k / NICS].device[k % NICS], POLLIN, 0}; /* poll() passes −1 over */
    ppoll(polls, HOSTS * NICS, &pause, NULL);
    for (int nic = 0; nic < nnics; nic++)
        for (int h = 0; h < HOSTS; h++) {
            way_take(&hosts[1 - h].way[nic], 1 - h, hosts[h].device[nic], &wires[nic]);
            way_give(&hosts[h].way[nic], hosts[h].device[nic]);
        }
}

/* Until both ranks have ended; returns the first status that is not 0. */
static int wires_run(struct host *hosts) {
    int status, result = 0;
    for (int running = HOSTS; running > 0;) {
        wires_carry(hosts);
        while (running > 0 && waitpid(-1, &status, WNOHANG) > 0) {
            running--;
            if (result == 0)
                result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
    }
    if (wires[0].ended_ns != 0)
        fprintf(stderr, "slow_link: the last program ended %llu ms after the link\n",
                (unsigned long long)(now_ns() - wires[0].ended_ns) / 1000000);
    return result;
}

/* Returns the program and its arguments; NULL: there is none. */
static char **read_options(char **at) {
    for (; at[0] != NULL && at[0][0] == '-'; at++)
        if (strcmp(at[0], "--fast-too") == 0)
            nnics = NICS;
        else if (strcmp(at[0], "--delay-ms") == 0 && at[1] != NULL)
            wires[0].delay_ns = (uint64_t)(1e6 * atof(*++at));
        else if (strcmp(at[0], "--lose") == 0 && at[1] != NULL)
            wires[0].lose = (uint64_t)atoi(*++at);
        else if (strcmp(at[0], "--flip") == 0 && at[1] != NULL)
            wires[0].flip = (uint64_t)atoi(*++at);
        else if (strcmp(at[0], "--cut") == 0 && at[1] != NULL)
            wires[0].ends[0] = wires[0].ends[1] = (uint64_t)atoi(*++at);
        else if (strcmp(at[0], "--deaf") == 0 && at[1] != NULL)
            wires[0].ends[0] = (uint64_t)atoi(*++at);
        else if (strcmp(at[0], "--sniff") == 0 && at[1] != NULL)
            sniffed = *++at;
        else
            return NULL;
    return at[0] != NULL ? at : NULL;
}

int main(int argc, char **argv) {
    static struct host hosts[HOSTS];
    char **command = read_options(argv + 1);
    if (argc < 2 || command == NULL) {
        fprintf(
            stderr,
            "usage: %s [--delay-ms 10] [--lose 0] [--flip 0] [--sniff TEXT] [--cut 0] [--deaf 0] [--fast-too] program "
            "[argument …]\n",
            argv[0]);
        return 2;
    }
    for (int rank = 0; rank < HOSTS; rank++)
        host_start(&hosts[rank], rank, command);
    for (int k = 0; k < HOSTS * nnics; k++)
        if (hosts[k / nnics].device[k % nnics] < 0)
            return NOT_PERMITTED; /* the process of the host has said why */
    for (int rank = 0; rank < HOSTS; rank++)
        if (write(hosts[rank].control, "", 1) != 1)
            give_up("cannot start the ranks");
    int result = wires_run(hosts);
    if (sniffed != NULL)
        fprintf(stderr, "slow_link: \"%s\" was seen in %llu of %llu long packets\n", sniffed,
                (unsigned long long)nsniffed, (unsigned long long)nlong);
    return result;
}
