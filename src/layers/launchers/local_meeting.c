/* SPDX-License-Identifier: Apache-2.0
 *
 * A Unix socket in the abstract namespace (no file, gone with its process), named after the user and the job:
 *
 *    rank 0:  id = new; listen; to each of ranks 1 … n−1:  read its rank ─▶ write the id
 *    rank r:  connect, again and again until rank 0 listens; write r; read the id
 *
 * Both sides ask the kernel whose process is at the other end, and talk only to their own user. Without COLLET_SECRET, any
 * process that knows the job can compute the name. But only one process can bind a name: if another user's process has it,
 * both sides fail at once, and name that process.
 */
#include "layers/launchers/local_meeting.h"

#include "base/memory.h"
#include "base/os.h"
#include "base/remedy.h"
#include "boot/boot.h"
#include "boot/table.h"
#include "layers/launchers/meeting_wait.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RETRY_NS 5000000
#define PEER_WAIT_S 2 /* Maximum seconds for one message of a connected peer */

static socklen_t name_socket(const char *job, struct sockaddr_un *address) {
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    int length =
        snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "collet/%u/%s", (unsigned)getuid(), job);
    size_t most = sizeof(address->sun_path) - 2;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + ((size_t)length < most ? (size_t)length : most));
}

static enum collet_result open_socket(int flags, int *fd_p) {
    OS_DESCRIPTOR(*fd_p, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
    return *fd_p >= 0 ? COLLET_SUCCESS : err_set(COLLET_ERR_SYSTEM, "no Unix socket: %m%s", os_remedy());
}

static bool same_user(int fd, struct ucred *peer) {
    socklen_t length = sizeof(*peer);
    *peer = (struct ucred){0};
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &length) == 0 && peer->uid == getuid();
}

static enum collet_result err_taken(const char *job, const char *by) {
    return err_set(
        COLLET_ERR_SYSTEM,
        "the meeting point of job \"%s\" is taken on this host%s; set COLLET_SECRET on all ranks, and nobody "
        "else knows where they meet",
        job, by);
}

static enum collet_result err_taken_by(const char *job, const struct ucred *peer) {
    char by[64];
    snprintf(by, sizeof by, " by process %d of user %u", (int)peer->pid, (unsigned)peer->uid);
    return err_taken(job, by);
}

static void limit_waits(int fd) {
    struct timeval limit = {.tv_sec = PEER_WAIT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Serves one connection. Returns the rank that got the id. −1: no rank got it. */
static int serve_one(int fd, int nranks, const struct collet_unique_id *id) {
    struct ucred peer;
    int32_t rank;
    limit_waits(fd);
    if (!same_user(fd, &peer) || recv(fd, &rank, sizeof(rank), MSG_WAITALL) != sizeof(rank) || rank < 1 ||
        rank >= nranks || send(fd, id, sizeof(*id), MSG_NOSIGNAL) != sizeof(*id))
        return -1;
    return rank;
}

/* Accepts and serves the next connection, if one comes soon. Returns the rank that got the id. −1: no rank got it. */
static int serve_next(int listener, int nranks, const struct collet_unique_id *id) {
    struct pollfd poller = {.fd = listener, .events = POLLIN};
    poll(&poller, 1, 100);
    int fd = os_high(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    if (fd < 0)
        return -1;
    int rank = serve_one(fd, nranks, id);
    close(fd);
    return rank;
}

static enum collet_result serve_all(int listener, int nranks, const struct config *config,
                                    const struct collet_unique_id *id) {
    struct meeting_wait wait;
    SCOPED_FREE uint8_t *served = NULL;
    char missing[160], text[240];
    meeting_wait_begin(&wait, config);
    COLLET_TRY(memory_get(&served, (size_t)nranks, sizeof *served, "no memory for %d ranks", nranks));
    served[0] = 1;
    for (int left = nranks - 1; left > 0;) {
        int rank = serve_next(listener, nranks, id);
        left -= rank > 0 && !served[rank];
        if (rank > 0)
            served[rank] = 1;
        ranks_text(served, nranks, missing, sizeof missing);
        snprintf(text, sizeof text, "these ranks of the job have not come: %s", missing);
        if (left > 0) /* The time is checked even if other processes keep connecting */
            COLLET_TRY(meeting_wait_look(&wait, text));
    }
    return COLLET_SUCCESS;
}

/* Returns the error for a name that another process has taken. The error text names this process. */
static enum collet_result name_squatter(const char *job, const struct sockaddr_un *address, socklen_t length) {
    struct ucred peer;
    int fd;
    COLLET_TRY(open_socket(SOCK_NONBLOCK, &fd));
    const bool listens = connect(fd, (const struct sockaddr *)address, length) == 0;
    (void)same_user(fd, &peer);
    close(fd);
    return listens ? err_taken_by(job, &peer) : err_taken(job, "");
}

/* Rank 0: listens, and gives the id to all other ranks. */
static enum collet_result hand_out(const char *job, int nranks, const struct config *config,
                                   const struct collet_unique_id *id) {
    struct sockaddr_un address;
    socklen_t length = name_socket(job, &address);
    enum collet_result result;
    int listener;
    COLLET_TRY(open_socket(SOCK_NONBLOCK, &listener));
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, nranks) != 0)
        result = name_squatter(job, &address, length);
    else
        result = serve_all(listener, nranks, config, id);
    close(listener);
    return result;
}

static enum collet_result host_meeting(const char *job, int nranks, const struct config *config,
                                       struct collet_unique_id *id) {
    COLLET_TRY(boot_unique_id(id));
    enum collet_result result = hand_out(job, nranks, config, id);
    if (result != COLLET_SUCCESS)
        boot_cancel_id(id, result, err_last());
    return result;
}

/* Asks the process at the other end of the connection for the id. IN_PROGRESS: it gave no answer. */
static enum collet_result ask_for_id(const char *job, int fd, int rank, struct collet_unique_id *id) {
    const int32_t number = rank;
    struct ucred peer;
    if (!same_user(fd, &peer))
        return err_taken_by(job, &peer);
    return send(fd, &number, sizeof(number), MSG_NOSIGNAL) == sizeof(number) &&
                   recv(fd, id, sizeof(*id), MSG_WAITALL) == sizeof(*id)
               ? COLLET_SUCCESS
               : COLLET_IN_PROGRESS;
}

/* Makes one attempt to get the id. IN_PROGRESS: rank 0 has not given it yet. */
static enum collet_result fetch_once(const char *job, int rank, struct collet_unique_id *id) {
    struct sockaddr_un address;
    socklen_t length = name_socket(job, &address);
    enum collet_result result = COLLET_IN_PROGRESS;
    int fd;
    COLLET_TRY(open_socket(0, &fd));
    limit_waits(fd);
    if (connect(fd, (const struct sockaddr *)&address, length) == 0)
        result = ask_for_id(job, fd, rank, id);
    close(fd);
    return result;
}

static enum collet_result fetch(const char *job, int rank, const struct config *config, struct collet_unique_id *id) {
    struct meeting_wait wait;
    char missing[160];
    enum collet_result result;
    meeting_wait_begin(&wait, config);
    snprintf(missing, sizeof missing, "rank 0 of job \"%s\" has not come on this host", job);
    while ((result = fetch_once(job, rank, id)) == COLLET_IN_PROGRESS) {
        COLLET_TRY(meeting_wait_look(&wait, missing));
        struct timespec pause = {.tv_nsec = RETRY_NS};
        nanosleep(&pause, NULL);
    }
    return result;
}

enum collet_result local_meeting(const char *job, int nranks, int rank, const struct config *config,
                                 struct collet_unique_id *id) {
    return rank == 0 ? host_meeting(job, nranks, config, id) : fetch(job, rank, config, id);
}
