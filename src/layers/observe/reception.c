/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/reception.h"

#include "base/log.h"
#include "base/os.h"
#include "boot/process.h"
#include "layers/observe/desk.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct reception {
    struct desk desk;
    struct hub *hubs;
};

/* ---- the answer ---- */

static void on_census(struct census *census) {
    struct reception_head head = {.version = COLLET_VERSION,
                                  .rank_bytes = sizeof(struct census_rank),
                                  .tag = hub_tag(census->hub),
                                  .nranks = census->hub->nranks};
    while (head.asked < head.nranks - 1 && !census->ranks[head.asked].local)
        head.asked++;
    visitor_put(census->owner, &head, sizeof head);
    visitor_put(census->owner, census->ranks, (size_t)head.nranks * sizeof *census->ranks);
    visitor_done(census->owner);
}

_Static_assert(sizeof(struct reception_request) <= DESK_QUESTION_BYTES, "a visitor has room for a request");

static void begin_censuses(struct visitor *visitor) {
    const struct reception *reception = WATCH_OWNER(visitor->desk, struct reception, desk);
    struct reception_request request;
    memcpy(&request, visitor->question, sizeof request);
    for (struct hub *hub = reception->hubs, *next; hub != NULL; hub = next) {
        next = hub->next_received;
        if (request.tag != 0 && request.tag != hub_tag(hub))
            continue;
        visitor->under_way++;
        if (census_begin(hub, request.all != 0, on_census, visitor) != COLLET_SUCCESS)
            visitor->under_way--;
    }
}

/* ---- the request ---- */

static enum desk_question read_request(const char *text, size_t bytes) {
    struct reception_request request;
    if (bytes < sizeof request)
        return DESK_INCOMPLETE;
    memcpy(&request, text, sizeof request);
    return request.version == COLLET_VERSION ? DESK_COMPLETE : DESK_NONSENSE;
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
    if (fd >= 0 && (bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, DESK_VISITORS_MAX) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* NULL: the process does without one; collet-status will not find it. */
static struct reception *reception_open(void) {
    char name[64];
    uint64_t random;
    os_random(&random, sizeof random);
    snprintf(name, sizeof name, RECEPTION_NAME "%d.%016llx", os_pid(), (unsigned long long)random);
    struct reception *reception = calloc(1, sizeof *reception);
    if (reception == NULL)
        return NULL;
    reception->desk = (struct desk){.admits = is_of_same_user, .reads = read_request, .answer = begin_censuses};
    const int fd = listen_at(name);
    if (fd >= 0 && desk_open(&reception->desk, fd) == COLLET_SUCCESS)
        return reception;
    log_warn(BOOT, "collet-status cannot ask this process: no socket @%s: %m", name);
    if (fd >= 0)
        close(fd);
    free(reception);
    return NULL;
}

void reception_add(struct hub *hub) {
    struct process *process = process_lock();
    struct reception *reception = process->reception;
    process_unlock();
    if (reception == NULL)
        reception = reception_open();
    if (reception == NULL)
        return;
    process_lock()->reception = reception;
    process_unlock();
    hub->next_received = reception->hubs;
    reception->hubs = hub;
}

void reception_remove(struct hub *hub) {
    struct reception *reception = process_lock()->reception;
    process_unlock();
    census_end_all(hub);
    if (reception == NULL)
        return;
    struct hub **link = &reception->hubs;
    while (*link != NULL && *link != hub)
        link = &(*link)->next_received;
    if (*link != NULL)
        *link = hub->next_received;
}
