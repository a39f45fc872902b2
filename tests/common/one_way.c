/* SPDX-License-Identifier: Apache-2.0 */
#include "common/one_way.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/filter.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DESCRIPTORS_MAX 1024

static unsigned port_of(const struct sockaddr_storage *address) {
    return ntohs(address->ss_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                               : ((const struct sockaddr_in6 *)address)->sin6_port);
}

/* ports: of our end, and of the other. */
static bool is_connection(int fd, unsigned ports[2]) {
    struct sockaddr_storage ends[2];
    socklen_t bytes[2] = {sizeof ends[0], sizeof ends[1]};
    if (getsockname(fd, (struct sockaddr *)&ends[0], &bytes[0]) != 0 ||
        getpeername(fd, (struct sockaddr *)&ends[1], &bytes[1]) != 0)
        return false;
    for (int end = 0; end < 2; end++)
        ports[end] = port_of(&ends[end]);
    return ends[0].ss_family == AF_INET || ends[0].ss_family == AF_INET6;
}

/* The kernel's number of the socket that has these ports, among those of this host; 0: there is none. */
static unsigned long find_socket(const char *list, const unsigned ports[2]) {
    FILE *file = fopen(list, "r");
    char line[512];
    unsigned long found = 0;
    while (file != NULL && found == 0 && fgets(line, sizeof line, file) != NULL) {
        unsigned long number;
        unsigned here, there;
        if (sscanf(line, "%*d: %*[^:]:%x %*[^:]:%x %*x %*s %*s %*s %*d %*d %lu", &here, &there, &number) == 3 &&
            here == ports[1] && there == ports[0])
            found = number;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

static bool process_has(pid_t pid, unsigned long number) {
    char path[300], wanted[64], link[64];
    snprintf(wanted, sizeof wanted, "socket:[%lu]", number);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *folder = opendir(path);
    bool has = false;
    for (struct dirent *entry; folder != NULL && !has && (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, entry->d_name);
        const ssize_t length = readlink(path, link, sizeof link - 1);
        link[length > 0 ? length : 0] = '\0';
        has = strcmp(link, wanted) == 0;
    }
    if (folder != NULL)
        closedir(folder);
    return has;
}

static unsigned long find_in_both(const unsigned ports[2]) {
    const unsigned long number = find_socket("/proc/net/tcp", ports);
    return number != 0 ? number : find_socket("/proc/net/tcp6", ports);
}

/* Until the other end is accepted, it has no number, and is that of the socket that listens there. */
static int whose_is(const unsigned ports[2], const pid_t *pids, int npids) {
    const unsigned listener[2] = {0, ports[1]};
    unsigned long number = 0;
    for (int look = 0; look < 3 && number == 0; look++) /* the list changes while it is read */
        number = find_in_both(ports);
    if (number == 0)
        number = find_in_both(listener);
    for (int k = 0; number != 0 && k < npids; k++)
        if (process_has(pids[k], number))
            return k;
    return -1;
}

static void drop_what_arrives(int fd) {
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {1, &nothing};
    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

int one_way(enum one_way how, unsigned choice, const pid_t *pids, int npids) {
    int fds[DESCRIPTORS_MAX], count = 0;
    unsigned ports[2];
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        if (is_connection(fd, ports))
            fds[count++] = fd;
    /* Held, or its number may soon be that of another connection. Not dup(): to the thread sanitizer, that is a race with who closes it. */
    const int fd = count > 0 ? (int)syscall(SYS_dup, fds[choice / 2 % (unsigned)count]) : -1;
    const bool connected = is_connection(fd, ports);
    const int other = connected ? whose_is(ports, pids, npids) : -1; /* before it has ended */
    if (connected && how == DEAF)
        drop_what_arrives(fd);
    else if (connected)
        shutdown(fd, choice % 2 ? SHUT_RD : SHUT_WR);
    if (fd >= 0)
        close(fd);
    return other;
}
