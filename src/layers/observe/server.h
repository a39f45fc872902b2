/* SPDX-License-Identifier: Apache-2.0
 *
 * A server: a socket where this process answers short questions. The watch thread serves it, so a program that hangs need do
 * nothing, and a client cannot hold anybody up: nothing here waits, and each visit has an end.
 *
 *      client ── a few bytes ──▶ until reads() says that the question is complete
 *              ◀── the answer ──  begun by answer(); goes out when nothing is under way for it any more
 *
 * Two servers: the status socket (status_socket.h) for collet-status, the exporter of COLLET_METRICS (layers/observe/exporter.h).
 */
#ifndef COLLET_LAYERS_OBSERVE_SERVER_H
#define COLLET_LAYERS_OBSERVE_SERVER_H

#include "boot/watch.h"

#include <stddef.h>

#define SERVER_CLIENTS_MAX 16       /* then the oldest silent one makes room */
#define SERVER_VISIT_NS 10000000000 /* longest visit */
#define SERVER_QUESTION_BYTES 4096

enum server_question { SERVER_INCOMPLETE, SERVER_COMPLETE, SERVER_NONSENSE };

struct client;
struct server {
    struct watch_fd listener;
    struct watch_timer breather; /* while there are no descriptors, or no places, for clients */
    struct client *oldest;       /* each with its successor */
    int clients;
    bool (*admits)(int fd); /* NULL: everybody */
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
    int under_way; /* so much has to end before the answer is complete */
    char *text;    /* of the answer */
    size_t bytes, sent;
    int room;
};

/* From now on, at a socket that listens. */
enum collet_result server_open(struct server *server, int fd);

/* Adds to the answer. Without memory it is short, which shows. */
void client_put(struct client *client, const void *data, size_t bytes);
/* Something ends for which under_way was counted up. After the last one the answer goes out, and the client leaves. */
void client_done(struct client *client);

#endif
