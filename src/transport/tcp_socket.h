/* SPDX-License-Identifier: Apache-2.0
 *
 * How the sockets between two ranks come to be.
 *
 *    lower rank: listener                                   higher rank: dialer
 *    port, addresses, token ────────── offer ─────────────▶
 *                           ◀───────── connect ───────────   socket k to way (k mod ways); if an address fails,
 *                           ◀── hello {attempt, index, proof}   all again without it: another attempt
 *    every socket of one
 *    attempt has come       ────────── ack: a proof each ──▶  ready
 *    stops listening
 *
 * A way is one interface of the listener, by the first of its addresses that has not failed. Where the listener's end is tied
 * to an interface (tcp_way.h), that is the only way, and the dialer's sockets are bound to the one that its own end is tied
 * to; if that fails, they are not tied any more. Else ways are the fastest interfaces, those within a factor of about two
 * of each other, since slots come in turns and the slowest would hold up all. Loopback is for when nothing else works. When
 * everything has failed, another round begins, more patient.
 *
 * The token never travels on a socket. A proof is a MAC, keyed by the token, of the word "hello" or "ack", the attempt and
 * the index. So an overheard hello is valid only for its own socket, which is already taken; and a process that takes over
 * the port cannot send an ack. A connection without a proof, or one that stays silent, is dropped. There is room for a few
 * such connections at a time; the oldest is dropped first. The ack is only sent when all sockets are there, so both ends
 * always mean the same attempt.
 * How long a listener waits is up to the caller; a dialer gives up after a few rounds over the addresses.
 * Nothing here blocks. fds[] of both ends are closed by whoever holds them last: tcp_listen_try() and tcp_dial_try()
 * hand them over with SUCCESS, tcp_listen_stop() and tcp_dial_stop() close the rest.
 */
#ifndef COLLET_TRANSPORT_TCP_SOCKET_H
#define COLLET_TRANSPORT_TCP_SOCKET_H

#include "base/config.h"
#include "boot/address.h"

#include <stdbool.h>

#define TCP_SOCKETS_MAX 16
#define TCP_TOKEN_BYTES 16
#define TCP_PROOF_BYTES 16
#define TCP_STRANGERS_MORE                                                                                             \
    2 /* a listener keeps this many more strangers than sockets; a process may have many listeners */
#define TCP_STRANGERS_MAX (TCP_SOCKETS_MAX + TCP_STRANGERS_MORE)

/* A listener's offer to the dialer. It travels over the control plane. */
struct tcp_offer {
    struct address_set set;
    uint8_t token[TCP_TOKEN_BYTES];
};

/* The first bytes on every socket. The magic shows the machine's byte order, which all later data uses too. */
struct tcp_hello {
    uint32_t magic;
    uint32_t attempt;
    uint32_t index;
    uint8_t proof[TCP_PROOF_BYTES];
};

/* An accepted connection whose hello has not come yet. */
struct tcp_stranger {
    int fd; /* −1: this entry is free */
    uint32_t got;
    uint64_t since_ns;
    struct tcp_hello hello; /* the first `got` bytes of its hello */
};

struct tcp_listener {
    int fd; /* −1: not listening, nothing to close */
    int nsockets;
    const char *ifname; /* COLLET_SOCKET_IFNAME: connections may come by these interfaces */
    uint8_t token[TCP_TOKEN_BYTES];
    uint32_t attempt;         /* the newest attempt seen */
    int fds[TCP_SOCKETS_MAX]; /* accepted sockets; −1: not yet */
    struct tcp_stranger strangers[TCP_STRANGERS_MAX];
};

/* Starts to listen. interface: the only one for this end, "" for any. */
enum collet_result tcp_listen_start(struct tcp_listener *listener, const struct config *config, const char *interface,
                                    int nsockets, struct tcp_offer *offer);
/* SUCCESS: all sockets have come. fds_p[0 … nsockets−1] then belong to the caller. */
enum collet_result tcp_listen_try(struct tcp_listener *listener, int *fds_p);
void tcp_listen_stop(struct tcp_listener *listener);

enum tcp_dial_state { TCP_CONNECTING, TCP_GREETED, TCP_ACKED };

struct tcp_dialer {
    struct tcp_offer offer;
    int nsockets;
    int peer; /* rank and host, for error texts */
    const char *host;
    uint32_t attempt; /* number of this attempt, from 0 */
    uint32_t round;
    unsigned failed;                         /* bits: addresses that failed in this round */
    bool tied;                               /* use only the listener's tied interface … */
    char interface[ADDRESS_INTERFACE_BYTES]; /* … through this interface of ours; "": any */
    uint64_t deadline_ns;
    int nways, ways[ADDRESS_MAX]; /* addresses of this attempt */
    int fds[TCP_SOCKETS_MAX];
    enum tcp_dial_state states[TCP_SOCKETS_MAX];
    uint8_t acks[TCP_SOCKETS_MAX][TCP_PROOF_BYTES]; /* the first got[k] bytes of each ack */
    uint32_t got[TCP_SOCKETS_MAX];
    int error; /* errno of the last failure */
};

/* Starts to dial. interface: as for tcp_listen_start(). */
void tcp_dial_start(struct tcp_dialer *dialer, const struct tcp_offer *offer, const char *interface, int nsockets,
                    int peer, const char *host);
/* SUCCESS: every socket has its ack. fds_p[0 … nsockets−1] then belong to the caller. SYSTEM: every address failed several times; the
 * text names them. */
enum collet_result tcp_dial_try(struct tcp_dialer *dialer, int *fds_p);
void tcp_dial_stop(struct tcp_dialer *dialer);

/* Writes "address:port" of the other end, or of this end. */
void tcp_peer_text(int fd, char text[ADDRESS_TEXT_BYTES]);
void tcp_own_text(int fd, char text[ADDRESS_TEXT_BYTES]);

/* Writes the names of this host's interfaces that the sockets use: "eth0, eth1". */
#define TCP_INTERFACES_TEXT_BYTES 128
void tcp_interfaces_text(const int *fds, int n, char text[TCP_INTERFACES_TEXT_BYTES]);

#endif
