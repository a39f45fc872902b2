/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp_socket.h"

#include "base/err.h"
#include "base/log.h"
#include "base/names.h"
#include "base/os.h"
#include "base/remedy.h"
#include "boot/interfaces.h"
#include "transport/tcp_way.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_MAGIC 0x636f6c31u
#define STRANGER_NS 10000000000ull
#define CONNECT_NS 2000000000ull /* maximum time to connect in the first round; doubled in each round */
#define WAY_NS 300000000ull      /* maximum wait for one of several ways; doubled in each round */
#define ACK_NS 30000000000ull    /* the listener may be slow to answer */
#define ROUNDS 4u

/* ------------------------------------------------------------------------------------------------------------- sockets */

static void close_all(int *fds, int n) {
    for (int k = 0; k < n; k++) {
        if (fds[k] >= 0)
            close(fds[k]);
        fds[k] = -1;
    }
}

/* Sends small packets at once. Buffer sizes are left to the kernel, which adapts them: fixed large ones gave nothing when measured. */
static void send_at_once(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static struct address address_of(const struct sockaddr_storage *name, int *port_p) {
    struct address address = {.family = 4};
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)name;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)name;
    if (name->ss_family != AF_INET6) {
        memcpy(address.ip, &v4->sin_addr, 4);
        *port_p = ntohs(v4->sin_port);
        return address;
    }
    *port_p = ntohs(v6->sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        memcpy(address.ip, (const uint8_t *)&v6->sin6_addr + 12, 4);
        return address;
    }
    address.family = 6;
    memcpy(address.ip, &v6->sin6_addr, 16);
    return address;
}

typedef int get_name(int fd, struct sockaddr *name, socklen_t *length);

static void end_text(int fd, get_name *get, char text[ADDRESS_TEXT_BYTES]) {
    struct sockaddr_storage name = {0};
    socklen_t length = sizeof(name);
    int port = 0;
    get(fd, (struct sockaddr *)&name, &length);
    struct address address = address_of(&name, &port);
    address_text(&address, port, text);
}

void tcp_peer_text(int fd, char text[ADDRESS_TEXT_BYTES]) { end_text(fd, getpeername, text); }
void tcp_own_text(int fd, char text[ADDRESS_TEXT_BYTES]) { end_text(fd, getsockname, text); }

void tcp_interfaces_text(const int *fds, int n, char text[TCP_INTERFACES_TEXT_BYTES]) {
    size_t used = 0;
    text[0] = '\0';
    for (int k = 0; k < n && used < TCP_INTERFACES_TEXT_BYTES; k++) {
        char interface[ADDRESS_INTERFACE_BYTES];
        struct sockaddr_storage name = {0};
        socklen_t length = sizeof(name);
        int port;
        getsockname(fds[k], (struct sockaddr *)&name, &length);
        struct address address = address_of(&name, &port);
        address_interface(&address, interface);
        if (!name_is_listed(interface, text))
            used += (size_t)snprintf(text + used, TCP_INTERFACES_TEXT_BYTES - used, "%s%s", used > 0 ? ", " : "",
                                     interface);
    }
}

/* -------------------------------------------------------------------------------------------------------------- proofs */

static void tcp_proof(const uint8_t token[TCP_TOKEN_BYTES], const char *word, uint32_t attempt, uint32_t index,
                      uint8_t proof[TCP_PROOF_BYTES]) {
    const uint32_t numbers[] = {attempt, index};
    crypto_generichash_state state;
    crypto_generichash_init(&state, token, TCP_TOKEN_BYTES, TCP_PROOF_BYTES);
    crypto_generichash_update(&state, (const uint8_t *)word, strlen(word) + 1);
    crypto_generichash_update(&state, (const uint8_t *)numbers, sizeof(numbers));
    crypto_generichash_final(&state, proof, TCP_PROOF_BYTES);
}

static bool proves(const uint8_t token[TCP_TOKEN_BYTES], const char *word, uint32_t attempt, uint32_t index,
                   const uint8_t proof[TCP_PROOF_BYTES]) {
    uint8_t expected[TCP_PROOF_BYTES];
    tcp_proof(token, word, attempt, index, expected);
    return sodium_memcmp(proof, expected, TCP_PROOF_BYTES) == 0; /* in constant time */
}

/* ------------------------------------------------------------------------------------------------------------ listener */

enum collet_result tcp_listen_start(struct tcp_listener *listener, const struct config *config, const char *interface,
                                    int nsockets, struct tcp_offer *offer) {
    int family;
    *listener = (struct tcp_listener){.fd = -1, .nsockets = nsockets, .ifname = config->socket_ifname};
    memset(listener->fds, 0xff, sizeof(listener->fds));
    for (int k = 0; k < TCP_STRANGERS_MAX; k++)
        listener->strangers[k].fd = -1;
    *offer = (struct tcp_offer){0};
    COLLET_TRY(address_family(config->socket_family, &family));
    COLLET_TRY(address_local(config->socket_ifname, family, interface, &offer->set));
    if (family != AF_INET) /* an IPv6 socket takes both kinds */
        listener->fd = address_listen(AF_INET6, 0);
    if (listener->fd < 0 && family != AF_INET6)
        listener->fd = address_listen(AF_INET, 0);
    if (listener->fd < 0)
        return err_set(COLLET_ERR_SYSTEM, "cannot listen for a connection on a TCP port: %m%s", os_remedy());
    send_at_once(listener->fd); /* accepted sockets inherit it */
    os_random(listener->token, sizeof(listener->token));
    memcpy(offer->token, listener->token, sizeof(offer->token));
    offer->set.port = (uint16_t)address_port(listener->fd);
    return COLLET_SUCCESS;
}

static void stranger_drop(struct tcp_stranger *stranger, const char *why) {
    char text[ADDRESS_TEXT_BYTES];
    tcp_peer_text(stranger->fd, text);
    log_info(CONN, "%s was dropped: it %s", text, why);
    close(stranger->fd);
    stranger->fd = -1;
}

static struct tcp_stranger *stranger_place(struct tcp_listener *listener) {
    struct tcp_stranger *oldest = &listener->strangers[0];
    for (int k = 0; k < listener->nsockets + TCP_STRANGERS_MORE; k++) {
        struct tcp_stranger *stranger = &listener->strangers[k];
        if (stranger->fd < 0)
            return stranger;
        if (stranger->since_ns < oldest->since_ns)
            oldest = stranger;
    }
    stranger_drop(oldest, "was silent while others came");
    return oldest;
}

static enum collet_result accept_strangers(struct tcp_listener *listener) {
    /* Accepts at most this many, then reads their hellos. */
    for (int n = 0; n < listener->nsockets + TCP_STRANGERS_MORE; n++) {
        int fd;
        OS_DESCRIPTOR(fd, accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            return err_set(COLLET_ERR_SYSTEM, "cannot accept a connection: %m%s", os_remedy());
        if (fd < 0)
            return COLLET_SUCCESS; /* no connection is waiting, or it has gone again */
        if (!address_came_to(fd, listener->ifname)) {
            close(fd);
            continue;
        }
        *stranger_place(listener) = (struct tcp_stranger){.fd = fd, .since_ns = os_now_ns()};
    }
    return COLLET_SUCCESS;
}

/* The proof was right: accepts the socket. Sockets of a newer attempt replace those of older attempts. */
static void take_in(struct tcp_listener *listener, struct tcp_stranger *stranger) {
    const struct tcp_hello *hello = &stranger->hello;
    if (hello->attempt > listener->attempt) {
        close_all(listener->fds, listener->nsockets);
        listener->attempt = hello->attempt;
    }
    if (hello->attempt < listener->attempt || hello->index >= (uint32_t)listener->nsockets ||
        listener->fds[hello->index] >= 0) {
        stranger_drop(stranger, "belongs to an attempt that was given up");
        return;
    }
    listener->fds[hello->index] = stranger->fd;
    stranger->fd = -1;
}

static void stranger_read(struct tcp_listener *listener, struct tcp_stranger *stranger) {
    struct tcp_hello *hello = &stranger->hello;
    ssize_t n = recv(stranger->fd, (char *)hello + stranger->got, sizeof(*hello) - stranger->got, 0);
    if (n <= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
        stranger_drop(stranger, "left without a word");
        return;
    }
    stranger->got += n > 0 ? (uint32_t)n : 0;
    if (stranger->got == sizeof(*hello)) {
        if (hello->magic == HELLO_MAGIC && proves(listener->token, "hello", hello->attempt, hello->index, hello->proof))
            take_in(listener, stranger);
        else
            stranger_drop(stranger, "does not know the token");
    } else if (os_now_ns() - stranger->since_ns > STRANGER_NS)
        stranger_drop(stranger, "was silent for too long");
}

enum collet_result tcp_listen_try(struct tcp_listener *listener, int *fds_p) {
    uint8_t ack[TCP_PROOF_BYTES];
    COLLET_TRY(accept_strangers(listener));
    for (int k = 0; k < TCP_STRANGERS_MAX; k++)
        if (listener->strangers[k].fd >= 0)
            stranger_read(listener, &listener->strangers[k]);
    for (int k = 0; k < listener->nsockets; k++)
        if (listener->fds[k] < 0)
            return COLLET_IN_PROGRESS;
    for (int k = 0; k < listener->nsockets; k++) {
        fds_p[k] = listener->fds[k];
        listener->fds[k] = -1;
        tcp_proof(listener->token, "ack", listener->attempt, (uint32_t)k, ack);
        send(fds_p[k], ack, sizeof(ack), MSG_NOSIGNAL); /* if it fails, the next read will tell */
    }
    tcp_listen_stop(listener);
    return COLLET_SUCCESS;
}

void tcp_listen_stop(struct tcp_listener *listener) {
    if (listener->fd < 0)
        return;
    close_all(&listener->fd, 1);
    sodium_memzero(listener->token, sizeof(listener->token));
    close_all(listener->fds, listener->nsockets);
    for (int k = 0; k < TCP_STRANGERS_MAX; k++)
        close_all(&listener->strangers[k].fd, 1);
}

/* -------------------------------------------------------------------------------------------------------------- dialer */

void tcp_dial_start(struct tcp_dialer *dialer, const struct tcp_offer *offer, const char *interface, int nsockets,
                    int peer, const char *host) {
    *dialer = (struct tcp_dialer){.offer = *offer, .nsockets = nsockets, .peer = peer, .host = host};
    dialer->tied = tcp_ways_wanted(&offer->set) != 0;
    snprintf(dialer->interface, sizeof(dialer->interface), "%s", interface);
    memset(dialer->fds, 0xff, sizeof(dialer->fds));
}

void tcp_dial_stop(struct tcp_dialer *dialer) {
    close_all(dialer->fds, dialer->nsockets);
    sodium_memzero(dialer->offer.token, sizeof(dialer->offer.token));
}

static bool is_bound(const struct tcp_dialer *dialer) { return dialer->tied && dialer->interface[0] != '\0'; }

/* Bits: addresses that must not be tried now. */
static unsigned left_out(const struct tcp_dialer *dialer) {
    return dialer->tied ? dialer->failed | ~tcp_ways_wanted(&dialer->offer.set) : dialer->failed;
}

static int way_of(const struct tcp_dialer *dialer, int k) { return dialer->ways[k % dialer->nways]; }

/* Marks the address of socket k as failed, with the reason in errno. */
static void way_failed(struct tcp_dialer *dialer, int k) {
    const struct address_set *set = &dialer->offer.set;
    char text[ADDRESS_TEXT_BYTES];
    dialer->error = errno;
    if (dialer->failed & 1u << way_of(dialer, k))
        return;
    dialer->failed |= 1u << way_of(dialer, k);
    address_text(&set->addresses[way_of(dialer, k)], set->port, text);
    log_info(CONN, "no connection to rank %d (host %s) at %s%s%s: %s", dialer->peer, dialer->host, text,
             is_bound(dialer) ? " by " : "", is_bound(dialer) ? dialer->interface : "", strerror(dialer->error));
}

/* Starts to connect socket k. False: errno says why that failed. */
static bool socket_begin(struct tcp_dialer *dialer, int k) {
    const struct address_set *set = &dialer->offer.set;
    struct sockaddr_storage name;
    socklen_t length = address_to_sockaddr(&set->addresses[way_of(dialer, k)], set->port, &name);
    int fd;
    OS_DESCRIPTOR(fd, socket(name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0)
        return false;
    dialer->fds[k] = fd;
    dialer->states[k] = TCP_CONNECTING;
    dialer->got[k] = 0;
    send_at_once(fd);
    if (is_bound(dialer) && !tcp_way_bind(fd, name.ss_family, dialer->interface))
        return false;
    return connect(fd, (struct sockaddr *)&name, length) == 0 || errno == EINPROGRESS;
}

/* The connect() of a socket has ended. Sends hello, if it succeeded. */
static bool greet(struct tcp_dialer *dialer, int k) {
    struct tcp_hello hello = {.magic = HELLO_MAGIC, .attempt = dialer->attempt, .index = (uint32_t)k};
    tcp_proof(dialer->offer.token, "hello", hello.attempt, hello.index, hello.proof);
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(dialer->fds[k], SOL_SOCKET, SO_ERROR, &error, &length);
    errno = error;
    if (error != 0 || send(dialer->fds[k], &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello))
        return false;
    dialer->states[k] = TCP_GREETED;
    return true;
}

static bool take_ack(struct tcp_dialer *dialer, int k) {
    uint32_t *got = &dialer->got[k];
    ssize_t n = recv(dialer->fds[k], dialer->acks[k] + *got, TCP_PROOF_BYTES - *got, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    *got += (uint32_t)n;
    if (n == 0)
        errno = ECONNRESET;
    if (n == 0 || *got < TCP_PROOF_BYTES)
        return n > 0;
    dialer->states[k] = TCP_ACKED;
    errno = EPROTO;
    return proves(dialer->offer.token, "ack", dialer->attempt, (uint32_t)k, dialer->acks[k]);
}

/* Is any socket of this way connected? */
static bool way_answers(const struct tcp_dialer *dialer, int way) {
    for (int k = way; k < dialer->nsockets; k += dialer->nways)
        if (dialer->states[k] != TCP_CONNECTING)
            return true;
    return false;
}

/* A socket is connected. How long does the dialer wait for the others? */
static void hurry(struct tcp_dialer *dialer) {
    uint64_t now_ns = os_now_ns(), soon_ns = now_ns + (WAY_NS << dialer->round);
    bool all_answer = true;
    for (int way = 0; way < dialer->nways && way < dialer->nsockets; way++)
        all_answer = all_answer && way_answers(dialer, way);
    if (all_answer)
        dialer->deadline_ns = now_ns + ACK_NS;
    else if (soon_ns < dialer->deadline_ns)
        dialer->deadline_ns = soon_ns;
}

/* The deadline has passed. Marks the ways that do not answer as failed; if all answer, those without an ack. */
static void blame(struct tcp_dialer *dialer) {
    bool blamed = false;
    errno = ETIMEDOUT;
    for (int k = 0; k < dialer->nsockets; k++)
        if (!way_answers(dialer, k % dialer->nways)) {
            way_failed(dialer, k);
            blamed = true;
        }
    for (int k = 0; k < dialer->nsockets && !blamed; k++)
        if (dialer->states[k] != TCP_ACKED)
            way_failed(dialer, k);
}

/* Starts an attempt. False: it failed, and so did some addresses. */
static bool attempt_begin(struct tcp_dialer *dialer) {
    unsigned failed = dialer->failed;
    dialer->nways = tcp_ways_choose(&dialer->offer.set, left_out(dialer), dialer->ways);
    if (dialer->round > 0) /* one way at a time: if no ack comes, it is clear which way failed */
        dialer->nways = 1;
    dialer->deadline_ns = os_now_ns() + ((dialer->tied ? WAY_NS : CONNECT_NS) << dialer->round);
    for (int k = 0; k < dialer->nsockets; k++)
        if (!socket_begin(dialer, k))
            way_failed(dialer, k);
    return dialer->failed == failed;
}

/* Makes progress on every socket. False: the attempt failed, and so did some addresses. */
static bool attempt_advance(struct tcp_dialer *dialer) {
    struct pollfd polls[TCP_SOCKETS_MAX];
    unsigned failed = dialer->failed;
    for (int k = 0; k < dialer->nsockets; k++)
        polls[k] = (struct pollfd){.fd = dialer->states[k] == TCP_ACKED ? -1 : dialer->fds[k],
                                   .events = dialer->states[k] == TCP_CONNECTING ? POLLOUT : POLLIN};
    if (poll(polls, (nfds_t)dialer->nsockets, 0) < 0)
        return true; /* interrupted, or short of memory for a moment */
    for (int k = 0; k < dialer->nsockets; k++) {
        if (polls[k].revents == 0)
            continue;
        bool connecting = dialer->states[k] == TCP_CONNECTING;
        if (!(connecting ? greet(dialer, k) : take_ack(dialer, k)))
            way_failed(dialer, k);
        else if (connecting)
            hurry(dialer);
    }
    if (dialer->failed == failed && os_now_ns() > dialer->deadline_ns)
        blame(dialer);
    return dialer->failed == failed;
}

static enum collet_result attempt_failed(struct tcp_dialer *dialer) {
    const struct address_set *set = &dialer->offer.set;
    const unsigned all = (1u << set->count) - 1;
    close_all(dialer->fds, dialer->nsockets);
    dialer->attempt++;
    if ((left_out(dialer) & all) != all)
        return COLLET_IN_PROGRESS;
    dialer->failed = 0;
    if (dialer->tied) { /* the same addresses may work by another interface */
        dialer->tied = false;
        return COLLET_IN_PROGRESS;
    }
    if (++dialer->round < ROUNDS)
        return COLLET_IN_PROGRESS;
    char tried[256];
    address_set_text(set, tried, sizeof(tried));
    return err_set(COLLET_ERR_SYSTEM,
                   "cannot connect to rank %d (host %s) at %s: %s; COLLET_SOCKET_IFNAME there chooses other interfaces",
                   dialer->peer, dialer->host, tried, strerror(dialer->error));
}

enum collet_result tcp_dial_try(struct tcp_dialer *dialer, int *fds_p) {
    if (dialer->fds[0] < 0 && !attempt_begin(dialer))
        return attempt_failed(dialer);
    if (!attempt_advance(dialer))
        return attempt_failed(dialer);
    for (int k = 0; k < dialer->nsockets; k++)
        if (dialer->states[k] != TCP_ACKED)
            return COLLET_IN_PROGRESS;
    memcpy(fds_p, dialer->fds, (size_t)dialer->nsockets * sizeof(*fds_p));
    memset(dialer->fds, 0xff, sizeof(dialer->fds));
    return COLLET_SUCCESS;
}
