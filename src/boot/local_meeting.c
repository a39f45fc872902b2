/* SPDX-License-Identifier: Apache-2.0
 *
 * A Unix socket in the abstract namespace (no file, gone with its process), named after the user and the job:
 *
 *    rank 0:  id = new; listen; to each of ranks 1 … n−1:  read its rank ─▶ write the id
 *    rank r:  connect, again and again until rank 0 listens; write r; read the id
 *
 * Both sides ask the kernel whose process the other end is and speak only to their own user.
 */
#include "boot/local_meeting.h"

#include "base/memory.h"
#include "base/os.h"
#include "boot/table.h"

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
#define PEER_WAIT_S 2 /* for one message of one peer that has connected */

static socklen_t name_socket(const char *job, struct sockaddr_un *address) {
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    int length =
        snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "collet/%u/%s", (unsigned)getuid(), job);
    size_t most = sizeof(address->sun_path) - 2;
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + ((size_t)length < most ? (size_t)length : most));
}

static bool same_user(int fd) {
    struct ucred peer;
    socklen_t length = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == getuid();
}

static void limit_waits(int fd) {
    struct timeval limit = {.tv_sec = PEER_WAIT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Serves one connection; returns the rank that got the id, or −1. */
static int serve_one(int fd, int nranks, const struct collet_unique_id *id) {
    int32_t rank;
    limit_waits(fd);
    if (!same_user(fd) || recv(fd, &rank, sizeof(rank), MSG_WAITALL) != sizeof(rank) || rank < 1 || rank >= nranks ||
        send(fd, id, sizeof(*id), MSG_NOSIGNAL) != sizeof(*id))
        return -1;
    return rank;
}

/* Whoever comes soon; −1 too if nobody does. */
static int serve_next(int listener, int nranks, const struct collet_unique_id *id) {
    struct pollfd poller = {.fd = listener, .events = POLLIN};
    poll(&poller, 1, 100);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -1;
    int rank = serve_one(fd, nranks, id);
    close(fd);
    return rank;
}

static enum collet_result serve_all(int listener, int nranks, uint64_t deadline_ns, int timeout_s,
                                    const struct collet_unique_id *id) {
    SCOPED_FREE uint8_t *served = NULL;
    char missing[160];
    COLLET_TRY(memory_get(&served, (size_t)nranks, sizeof *served, "no memory for %d ranks", nranks));
    served[0] = 1;
    for (int left = nranks - 1; left > 0;) {
        int rank = serve_next(listener, nranks, id);
        left -= rank > 0 && !served[rank];
        if (rank > 0)
            served[rank] = 1;
        if (left > 0 && os_now_ns() > deadline_ns) { /* also where strangers keep coming */
            ranks_text(served, nranks, missing, sizeof missing);
            return err_set(COLLET_ERR_TIMEOUT, "after %d s these ranks of the job have not come: %s", timeout_s,
                           missing);
        }
    }
    return COLLET_SUCCESS;
}

/* Hands out an id that is made. */
static enum collet_result hand_out(const char *job, int nranks, int timeout_s, const struct collet_unique_id *id) {
    struct sockaddr_un address;
    socklen_t length = name_socket(job, &address);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0)
        return err_set(COLLET_ERR_SYSTEM, "no Unix socket: %m");
    enum collet_result result;
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, nranks) != 0)
        result = err_set(
            COLLET_ERR_SYSTEM,
            "the meeting point of job \"%s\" is taken on this host: %m; set COLLET_COMM_ID and COLLET_SECRET to "
            "meet elsewhere",
            job);
    else
        result = serve_all(listener, nranks, os_now_ns() + (uint64_t)timeout_s * 1000000000u, timeout_s, id);
    close(listener);
    return result;
}

static enum collet_result host_meeting(const char *job, int nranks, int timeout_s, struct collet_unique_id *id) {
    COLLET_TRY(boot_unique_id(id));
    enum collet_result result = hand_out(job, nranks, timeout_s, id);
    if (result != COLLET_SUCCESS)
        boot_cancel_id(id, result, err_last());
    return result;
}

/* Asks whoever has accepted. */
static bool ask_for_id(int fd, int rank, struct collet_unique_id *id) {
    const int32_t number = rank;
    return same_user(fd) && send(fd, &number, sizeof(number), MSG_NOSIGNAL) == sizeof(number) &&
           recv(fd, id, sizeof(*id), MSG_WAITALL) == sizeof(*id);
}

/* One attempt; false: not yet. */
static bool fetch_once(const struct sockaddr_un *address, socklen_t length, int rank, struct collet_unique_id *id) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    limit_waits(fd);
    bool fetched = connect(fd, (const struct sockaddr *)address, length) == 0 && ask_for_id(fd, rank, id);
    close(fd);
    return fetched;
}

static enum collet_result fetch(const char *job, int rank, int timeout_s, struct collet_unique_id *id) {
    struct sockaddr_un address;
    socklen_t length = name_socket(job, &address);
    uint64_t deadline_ns = os_now_ns() + (uint64_t)timeout_s * 1000000000u;
    while (!fetch_once(&address, length, rank, id)) {
        if (os_now_ns() > deadline_ns)
            return err_set(COLLET_ERR_TIMEOUT, "after %d s rank 0 of job \"%s\" has not come on this host", timeout_s,
                           job);
        struct timespec pause = {.tv_nsec = RETRY_NS};
        nanosleep(&pause, NULL);
    }
    return COLLET_SUCCESS;
}

enum collet_result local_meeting(const char *job, int nranks, int rank, int timeout_s, struct collet_unique_id *id) {
    return rank == 0 ? host_meeting(job, nranks, timeout_s, id) : fetch(job, rank, timeout_s, id);
}
