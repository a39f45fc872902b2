/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/status/ask.h"

#include "base/grow.h"
#include "base/os.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DIRECT_NS 300000000u /* Time for asking a process about its own ranks. */

void status_jobs_free(struct status_jobs *jobs) {
    for (int k = 0; k < jobs->count; k++)
        free(jobs->job[k].ranks);
    free(jobs->job);
    *jobs = (struct status_jobs){0};
}

/* ---- sockets ---- */

/* Finds the next name of a status socket in /proc/net/unix, and the process in this name. False: there are no more. */
static bool next_name(FILE *list, char name[64], int *pid) {
    char line[256];
    while (fgets(line, sizeof(line), list) != NULL) {
        const char *at = strstr(line, "@" STATUS_SOCKET_NAME);
        if (at != NULL && sscanf(at, "@%63[a-z0-9.-]", name) == 1 && sscanf(name, STATUS_SOCKET_NAME "%d.", pid) == 1)
            return true;
    }
    return false;
}

/* The process that listens at a socket, by its number in this process's namespace; in a container, the socket's name may
 * have another number. 0: the process is not to be trusted, because another user's process has taken the name. */
static int listener_of(int fd) {
    struct ucred credentials;
    socklen_t bytes = sizeof(credentials);
    const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0;
    return known && (credentials.uid == geteuid() || geteuid() == 0) ? credentials.pid : 0;
}

static int connect_to(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    memcpy(address.sun_path + 1, name, strlen(name));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, bytes) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int ask_list(int *pids, int room) {
    FILE *list = fopen("/proc/net/unix", "r");
    char name[64];
    int named, n = 0;
    while (list != NULL && next_name(list, name, &named)) {
        const int fd = connect_to(name), pid = fd >= 0 ? listener_of(fd) : 0;
        bool known = pid == 0;
        if (fd >= 0)
            close(fd);
        for (int k = 0; k < n && k < room; k++)
            known |= pids[k] == pid;
        if (known) /* This line is one of its connections. */
            continue;
        if (n < room)
            pids[n] = pid;
        n++;
    }
    if (list != NULL)
        fclose(list);
    return n;
}

/* Connects to the status socket of a process. named: `pid` is the number in the socket's name. Otherwise it is the number in
 * this process's namespace. */
static int connect_to_process(int pid, bool named) {
    FILE *list = fopen("/proc/net/unix", "r");
    char name[64];
    int fd = -1, number;
    while (list != NULL && fd < 0 && next_name(list, name, &number)) {
        if (named && number != pid)
            continue;
        fd = connect_to(name);
        const int listener = fd >= 0 ? listener_of(fd) : 0;
        if (fd >= 0 && (listener == 0 || (!named && listener != pid))) {
            close(fd);
            fd = -1;
        }
    }
    if (list != NULL)
        fclose(list);
    return fd;
}

static bool receive(int fd, void *data, size_t bytes, uint64_t deadline_ns) {
    for (size_t got = 0; got < bytes;) {
        const uint64_t now_ns = os_now_ns();
        const int left_ms = now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / 1000000) + 1 : 0;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (left_ms == 0 || poll(&ready, 1, left_ms) <= 0)
            return false;
        const ssize_t n = recv(fd, (char *)data + got, bytes - got, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* ---- answers ---- */

/* Checks what was read. It comes from a process of the same user, but may be anything. */
static bool is_sound(const struct query_rank *rank, int number) {
    return rank->rank == number && memchr(rank->host, '\0', sizeof(rank->host)) != NULL &&
           rank->bytes <= sizeof(rank->status);
}

static bool receive_job(int fd, const struct status_head *head, struct status_job *job, uint64_t deadline_ns) {
    *job = (struct status_job){.tag = head->tag, .nranks = head->nranks};
    job->ranks = calloc((size_t)head->nranks, sizeof(*job->ranks));
    for (int k = 0; job->ranks != NULL && k < head->nranks; k++) {
        struct status_rank *r = &job->ranks[k];
        if (!receive(fd, &r->rank, sizeof(r->rank), deadline_ns) || !is_sound(&r->rank, k)) {
            free(job->ranks);
            return false;
        }
        r->has_status = r->rank.answered && status_read(&r->rank.status, r->rank.bytes, &r->status);
        if (r->has_status && job->name[0] == '\0')
            snprintf(job->name, sizeof(job->name), "%s", r->status.name);
    }
    return job->ranks != NULL;
}

/* Reads the next communicator that the process tells of. False: there are no more. */
static bool next_job(int fd, struct status_job *job, uint64_t deadline_ns, const char **why) {
    struct status_head head;
    if (!receive(fd, &head, sizeof(head), deadline_ns))
        return false;
    if (head.version != COLLET_VERSION || head.rank_bytes != sizeof(struct query_rank) || head.nranks < 1 ||
        head.nranks > BOOT_RANKS_MAX) {
        *why = "it has another version of collet";
        return false;
    }
    return receive_job(fd, &head, job, deadline_ns);
}

static int ask(int pid, bool named, bool all, uint64_t tag) {
    const struct status_request request = {.version = COLLET_VERSION, .all = all, .tag = tag};
    const int fd = connect_to_process(pid, named);
    if (fd >= 0 && send(fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Asks the process of a rank that has not answered about its own ranks. */
static void ask_directly(struct status_job *job, const struct query_rank *silent, uint64_t deadline_ns) {
    struct status_job own;
    const char *why;
    const int fd = ask(silent->pid, true, false, job->tag);
    if (fd >= 0 && next_job(fd, &own, deadline_ns, &why)) {
        for (int k = 0; k < job->nranks && own.nranks == job->nranks; k++)
            if (own.ranks[k].rank.answered && !job->ranks[k].rank.answered)
                job->ranks[k] = own.ranks[k];
        free(own.ranks);
    }
    if (fd >= 0)
        close(fd);
}

static void ask_silent_ranks(struct status_job *job, uint64_t deadline_ns) {
    for (int k = 0; k < job->nranks; k++) {
        const struct query_rank *r = &job->ranks[k].rank;
        const uint64_t limit_ns = os_now_ns() + DIRECT_NS;
        if (r->asked && !r->answered && !r->stopped && limit_ns < deadline_ns)
            ask_directly(job, r, limit_ns);
    }
}

static bool is_known(const struct status_jobs *jobs, uint64_t tag) {
    for (int k = 0; k < jobs->count; k++)
        if (jobs->job[k].tag == tag)
            return true;
    return false;
}

bool ask_process(int pid, uint64_t deadline_ns, struct status_jobs *jobs, const char **why) {
    struct status_job job;
    const int fd = ask(pid, false, true, 0), before = jobs->count;
    *why = fd < 0 ? "it has no communicator, or is another user's" : "it does not answer: is it stopped?";
    while (fd >= 0 && next_job(fd, &job, deadline_ns, why)) {
        if (!is_known(jobs, job.tag) && grow(&jobs->job, (size_t)jobs->count, 1, &jobs->room, sizeof job))
            jobs->job[jobs->count++] = job;
        else
            free(job.ranks);
    }
    if (fd >= 0)
        close(fd);
    for (int k = before; k < jobs->count; k++)
        ask_silent_ranks(&jobs->job[k], deadline_ns);
    return jobs->count > before;
}
