/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/status_socket.h"

#include "base/log.h"
#include "base/os.h"
#include "boot/process.h"
#include "layers/observe/server.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct status_socket {
    struct server server;
    struct hub *hubs;
};

/* ---- the answer ---- */

static void on_query(struct status_query *query) {
    struct status_head head = {.version = COLLET_VERSION,
                               .rank_bytes = sizeof(struct query_rank),
                               .tag = hub_tag(query->hub),
                               .nranks = query->hub->nranks};
    while (head.asked < head.nranks - 1 && !query->ranks[head.asked].local)
        head.asked++;
    client_put(query->owner, &head, sizeof head);
    client_put(query->owner, query->ranks, (size_t)head.nranks * sizeof *query->ranks);
    client_done(query->owner);
}

_Static_assert(sizeof(struct status_request) <= SERVER_QUESTION_BYTES, "a client has room for a request");

static void begin_queries(struct client *client) {
    const struct status_socket *status_socket = WATCH_OWNER(client->server, struct status_socket, server);
    struct status_request request;
    memcpy(&request, client->question, sizeof request);
    for (struct hub *hub = status_socket->hubs, *next; hub != NULL; hub = next) {
        next = hub->next_received;
        if (request.tag != 0 && request.tag != hub_tag(hub))
            continue;
        client->under_way++;
        if (status_query_begin(hub, request.all != 0, on_query, client) != COLLET_SUCCESS)
            client->under_way--;
    }
}

/* ---- the request ---- */

static enum server_question read_request(const char *text, size_t bytes) {
    struct status_request request;
    if (bytes < sizeof request)
        return SERVER_INCOMPLETE;
    memcpy(&request, text, sizeof request);
    return request.version == COLLET_VERSION ? SERVER_COMPLETE : SERVER_NONSENSE;
}

static bool is_of_same_user(int fd) {
    struct ucred credentials;
    socklen_t bytes = sizeof credentials;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 &&
           (credentials.uid == geteuid() || credentials.uid == 0);
}

/* ---- coming and going ---- */

static int listen_at(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(name);
    memcpy(address.sun_path + 1, name, length);
    const int fd = os_high(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, SERVER_CLIENTS_MAX) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Opens the socket. NULL: that failed, and collet-status will not find this process. */
static struct status_socket *status_socket_open(void) {
    char name[64];
    uint64_t random;
    os_random(&random, sizeof random);
    snprintf(name, sizeof name, STATUS_SOCKET_NAME "%d.%016llx", os_pid(), (unsigned long long)random);
    struct status_socket *status_socket = calloc(1, sizeof *status_socket);
    if (status_socket == NULL)
        return NULL;
    status_socket->server = (struct server){.admits = is_of_same_user, .reads = read_request, .answer = begin_queries};
    const int fd = listen_at(name);
    if (fd >= 0 && server_open(&status_socket->server, fd) == COLLET_SUCCESS)
        return status_socket;
    log_warn(BOOT, "collet-status cannot ask this process: no socket @%s: %m", name);
    if (fd >= 0)
        close(fd);
    free(status_socket);
    return NULL;
}

void status_socket_add(struct hub *hub) {
    struct process *process = process_lock();
    struct status_socket *status_socket = process->status_socket;
    process_unlock();
    if (status_socket == NULL)
        status_socket = status_socket_open();
    if (status_socket == NULL)
        return;
    process_lock()->status_socket = status_socket;
    process_unlock();
    hub->next_received = status_socket->hubs;
    status_socket->hubs = hub;
}

void status_socket_remove(struct hub *hub) {
    struct status_socket *status_socket = process_lock()->status_socket;
    process_unlock();
    status_query_end_all(hub);
    if (status_socket == NULL)
        return;
    struct hub **link = &status_socket->hubs;
    while (*link != NULL && *link != hub)
        link = &(*link)->next_received;
    if (*link != NULL)
        *link = hub->next_received;
}
