/* SPDX-License-Identifier: Apache-2.0
 *
 * A server: a socket on which this process answers short questions. The watch thread serves the socket, so it works while
 * the program hangs. A client cannot block anybody: nothing here waits for a client, and each visit has a maximum time.
 *
 *      client ── a few bytes ──▶ until reads() says that the question is complete
 *              ◀── the answer ──  begun by answer(); sent when under_way is 0
 *
 * There are two servers: the status socket (status_socket.h) for collet-status, and the exporter of COLLET_METRICS
 * (layers/metrics/exporter.c).
 */
#ifndef COLLET_LAYERS_OBSERVE_SERVER_H
#define COLLET_LAYERS_OBSERVE_SERVER_H

#include "boot/watch.h"

#include <stddef.h>

#define SERVER_CLIENTS_MAX 16       /* if all places are taken, the oldest silent client is dropped */
#define SERVER_VISIT_NS 10000000000 /* maximum time of a visit */
#define SERVER_QUESTION_BYTES 4096

enum server_question { SERVER_INCOMPLETE, SERVER_COMPLETE, SERVER_NONSENSE };

struct client;
struct server {
    struct watch_fd listener;
    struct watch_timer breather; /* ends a pause in accepting, when descriptors or places for clients were missing */
    struct client *oldest;       /* head of the list of clients (client.next), oldest first */
    int clients;
    bool (*admits)(int fd); /* may this client ask? NULL: everybody may */
    enum server_question (*reads)(const char *text, size_t bytes);
    void (*answer)(struct client *client);
};

struct client {
    struct watch_fd watched;
    struct watch_timer deadline;
    struct server *server;
    struct client *next, **link;
    uint64_t since_ns;
    char question[SERVER_QUESTION_BYTES];
    size_t asked_bytes;
    int under_way; /* number of things that must end before the answer is complete */
    char *text;    /* the answer */
    size_t bytes, sent;
    int room;
};

/* Starts to serve. fd: a listening socket. */
enum collet_result server_open(struct server *server, int fd);

/* Appends to the answer. If there is no memory, the answer is shorter than announced, so the client notices. */
void client_put(struct client *client, const void *data, size_t bytes);
/* Counts under_way down. When it becomes 0, the answer is sent, and the client is dropped. */
void client_done(struct client *client);

#endif
