/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/status/family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- who has started whom ---- */

/* Number of a process's parent. −1: there is no such process. */
static int parent_of(int pid) {
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    const size_t length = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    int parent = -1;
    if (file != NULL)
        fclose(file);
    text[length] = '\0';
    const char *name_end = strrchr(text, ')'); /* The name of a program may contain blanks and brackets. */
    return name_end != NULL && sscanf(name_end + 1, " %*c %d", &parent) == 1 ? parent : -1;
}

int family_of(int pid, int *pids, int room) {
    int n = 0;
    if (room < 1 || parent_of(pid) < 0)
        return 0;
    pids[n++] = pid;
    for (int k = 0; k < n; k++) {
        DIR *processes = opendir("/proc");
        const struct dirent *entry;
        while (processes != NULL && n < room && (entry = readdir(processes)) != NULL) {
            const int other = atoi(entry->d_name);
            if (other > 0 && parent_of(other) == pids[k])
                pids[n++] = other;
        }
        if (processes != NULL)
            closedir(processes);
    }
    return n;
}

void family_enter_network(int pid) {
    char path[32];
    struct stat theirs, ours;
    snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &theirs) == 0 && stat("/proc/self/ns/net", &ours) == 0 && theirs.st_ino != ours.st_ino)
        (void)setns(fd, CLONE_NEWNET);
    close(fd);
}

/* ---- who uses collet ---- */

/* Words of an error of the library. A program that is linked with libcollet.a contains them, too. */
static const char mark[] = "(COLLET_INIT_TIMEOUT)";

static bool has_mark(const char *path) {
    struct stat facts;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *text = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &facts) == 0 && facts.st_size > 0)
        text = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0)
        close(fd);
    if (text == MAP_FAILED)
        return false;
    const bool has = memmem(text, (size_t)facts.st_size, mark, sizeof mark - 1) != NULL;
    munmap(text, (size_t)facts.st_size);
    return has;
}

static bool uses_collet(int pid) {
    char path[4200], line[4200];
    bool uses;
    snprintf(path, sizeof path, "/proc/%d/exe", pid);
    uses = has_mark(path);
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = uses ? NULL : fopen(path, "re");
    while (maps != NULL && !uses && fgets(line, sizeof line, maps) != NULL) {
        const char *file = strchr(line, '/');
        if (file == NULL || strstr(line, " r-xp ") == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        if (strstr(file, "libcollet") == NULL && strstr(file, "libnccl") == NULL)
            continue;
        snprintf(path, sizeof path, "/proc/%d/root%.4000s", pid, file);
        uses = has_mark(path);
    }
    if (maps != NULL)
        fclose(maps);
    return uses;
}

static bool is_readable(int pid) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0 || errno != EACCES;
}

const char *family_why_silent(const int *pids, int count) {
    static char text[320];
    if (count == 0)
        return "there is no such process";
    for (int k = 0; k < count; k++) {
        if (!is_readable(pids[k]))
            return "it is another user's: only that user and root can ask it";
        if (!uses_collet(pids[k]))
            continue;
        snprintf(
            text, sizeof text,
            "process %d uses collet, but has no communicator of several processes: it has made none yet or none any "
            "more, or it waits in init for its launcher or for rank 0 of its host, and says so on stderr after "
            "COLLET_WARN_AFTER",
            pids[k]);
        return text;
    }
    return "neither it nor a process that it has started uses collet";
}
