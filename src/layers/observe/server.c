/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/server.h"

#include "base/grow.h"
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BREATHER_NS 100000000u
#define YOUNG_NS 500000000u /* a silent client is not dropped before this time: its question may be on its way */

static void client_leave(struct client *client) {
    *client->link = client->next;
    if (client->next != NULL)
        client->next->link = client->link;
    watch_remove(&client->watched);
    watch_timer_stop(&client->deadline);
    close(client->watched.fd);
    client->server->clients--;
    free(client->text);
    free(client);
}

/* ---- the answer ---- */

static void send_some(struct watch_fd *watched, uint32_t events) {
    struct client *client = WATCH_OWNER(watched, struct client, watched);
    (void)events;
    while (client->sent < client->bytes) {
        const ssize_t sent =
            send(watched->fd, client->text + client->sent, client->bytes - client->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (sent < 0)
            break;
        client->sent += (size_t)sent;
    }
    client_leave(client);
}

void client_put(struct client *client, const void *data, size_t bytes) {
    if (!grow(&client->text, client->bytes, bytes, &client->room, 1))
        return;
    memcpy(client->text + client->bytes, data, bytes);
    client->bytes += bytes;
}

void client_done(struct client *client) {
    if (--client->under_way > 0)
        return;
    client->watched.ready = send_some;
    if (watch_add(&client->watched, EPOLLOUT) != COLLET_SUCCESS)
        client_leave(client);
}

/* ---- the question ---- */

static void receive_some(struct watch_fd *watched, uint32_t events) {
    struct client *client = WATCH_OWNER(watched, struct client, watched);
    const size_t room = sizeof client->question - client->asked_bytes;
    (void)events;
    const ssize_t bytes = recv(watched->fd, client->question + client->asked_bytes, room, MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    client->asked_bytes += bytes > 0 ? (size_t)bytes : 0;
    const enum server_question question =
        bytes > 0 ? client->server->reads(client->question, client->asked_bytes) : SERVER_NONSENSE;
    if (question == SERVER_INCOMPLETE && (size_t)bytes < room)
        return;
    if (question != SERVER_COMPLETE) {
        client_leave(client);
        return;
    }
    /* If the client hangs up now, its struct stays until all its work that is under way has ended. */
    watch_remove(&client->watched);
    client->under_way = 1;
    client->server->answer(client);
    client_done(client);
}

/* The visit took too long: the client sends or takes nothing. If work is under way for the client, that work ends by itself. */
static void on_deadline(struct watch_timer *timer) {
    struct client *client = WATCH_OWNER(timer, struct client, deadline);
    if (client->under_way > 0)
        watch_timer_set(timer, os_now_ns() + SERVER_VISIT_NS);
    else
        client_leave(client);
}

/* Finds the oldest silent client: it sends or takes nothing, and no work is under way for it. NULL: there is none. */
static struct client *oldest_silent(const struct server *server) {
    struct client *client = server->oldest;
    while (client != NULL && client->under_way > 0)
        client = client->next;
    return client;
}

static void rest(struct server *server, uint64_t until_ns) {
    watch_change(&server->listener, 0);
    watch_timer_set(&server->breather, until_ns);
}

/* Are all places taken, and may no client be dropped yet? Then new clients wait in the kernel's queue until a place is free. */
static bool is_full(struct server *server) {
    if (server->clients < SERVER_CLIENTS_MAX)
        return false;
    const struct client *silent = oldest_silent(server);
    const uint64_t now_ns = os_now_ns(), old_ns = silent != NULL ? silent->since_ns + YOUNG_NS : now_ns + BREATHER_NS;
    if (old_ns <= now_ns)
        return false;
    rest(server, old_ns);
    return true;
}

static void client_enter(struct server *server, int fd) {
    if (server->clients >= SERVER_CLIENTS_MAX)
        client_leave(oldest_silent(server));
    struct client *client = calloc(1, sizeof *client);
    if (client != NULL) {
        client->server = server;
        client->watched = (struct watch_fd){.fd = fd, .ready = receive_some};
        client->deadline.fire = on_deadline;
        client->since_ns = os_now_ns();
    }
    if (client == NULL || watch_add(&client->watched, EPOLLIN) != COLLET_SUCCESS) {
        close(fd);
        free(client);
        return;
    }
    for (client->link = &server->oldest; *client->link != NULL;)
        client->link = &(*client->link)->next;
    *client->link = client;
    server->clients++;
    watch_timer_set(&client->deadline, client->since_ns + SERVER_VISIT_NS);
}

static void on_breather_over(struct watch_timer *timer) {
    watch_change(&WATCH_OWNER(timer, struct server, breather)->listener, EPOLLIN);
}

static void on_client(struct watch_fd *listener, uint32_t events) {
    struct server *server = WATCH_OWNER(listener, struct server, listener);
    (void)events;
    if (is_full(server))
        return;
    const int fd = os_high(accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && !os_more_descriptors())
        rest(server, os_now_ns() + BREATHER_NS);
    if (fd >= 0 && server->admits != NULL && !server->admits(fd))
        close(fd);
    else if (fd >= 0)
        client_enter(server, fd);
}

enum collet_result server_open(struct server *server, int fd) {
    server->listener = (struct watch_fd){.fd = fd, .ready = on_client};
    server->breather.fire = on_breather_over;
    return watch_add(&server->listener, EPOLLIN);
}
