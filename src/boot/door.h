/* SPDX-License-Identifier: Apache-2.0
 *
 * A door: a listening socket that lets in each connection that proves to know its key. The meeting point has one, and each
 * process's end of the tree. Letting in never waits for one peer: every connection that has not proven itself yet stands by
 * itself, for at most 5 s. When 256 of them stand at the doors of a process (fewer, if it may have few descriptors), the next one waits
 * outside until the oldest has stood there for half a second and makes room.
 */
#ifndef COLLET_BOOT_DOOR_H
#define COLLET_BOOT_DOOR_H

#include "base/config.h"
#include "boot/auth.h"

struct door {
    struct watch_fd listener; /* fd −1: closed */
    int port;
    bool v6, serving;
    char ifname[CONFIG_TEXT_BYTES]; /* interfaces by which connections may come (COLLET_SOCKET_IFNAME); "": all */
    uint8_t key[SECRET_BYTES];
    int npending;     /* number of connections without a proof yet */
    bool full;        /* does not listen until one of them leaves, or the oldest of all doors is old */
    bool has_refused; /* some connection did not know the key */
    struct watch_timer timer;
    /* Gets the wire of a connection that proved the key. It must set its ready and owner, or destroy it. */
    void (*proven)(struct door *door, struct wire *wire);
    /* A connection waits, but this process has no file descriptor for it. May close the door. */
    void (*exhausted)(struct door *door, const char *text);
};

/* Opens a door, on any thread: listens on all addresses of the host (family: 0 both, AF_INET, AF_INET6). port 0: any free port. A
 * port that is in use is an error, because another process would get this job's connections. Connections by an interface that
 * ifname forbids are closed without a word. */
enum collet_result door_open(struct door *door, int family, int port, const char *ifname);

/* Starts to accept connections; only on the watch thread. */
enum collet_result door_serve(struct door *door, const uint8_t key[SECRET_BYTES],
                              void (*proven)(struct door *door, struct wire *wire),
                              void (*exhausted)(struct door *door, const char *text));
void door_close(struct door *door); /* does nothing if closed; before door_serve(), any thread may call it */

#endif
