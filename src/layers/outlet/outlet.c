/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/outlet/outlet.h"

#include "base/os.h"
#include "base/output.h"
#include "layers/outlet/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NS_PER_MS 1000000ull
#define OPEN_MS 5000 /* maximum time to open a file: an automounter may have to mount it */
#define LOOK_MS 20   /* maximum time to find out the kind of a file */
#define BUSY_MS 1000 /* extra clock time on a busy machine. An abort returns within 2 s */
/* Maximum clock time to add a text: a thread with other duties waits for it, and may have many lines. */
#define ADD_MS 20

/* MAY_HANG: the file system of the file may be on a server. */
enum kind { UNKNOWN, AT_HOME, MAY_HANG };

#define DESCRIPTORS_MAX 1024
static unsigned char kinds[DESCRIPTORS_MAX]; /* [descriptor]; larger descriptors are UNKNOWN */

struct job {
    struct apart apart;
    int fd;
    enum kind kind;      /* Kind of the descriptor. */
    const char *pattern; /* Pattern of the file's name. */
    int rank, flags;     /* Rank for the file's name; flags of open(). */
    int wait_ms;         /* Maximum time to wait for a pipe. */
    size_t bytes;        /* Length of the text. */
    bool good;           /* The call has succeeded. */
    int error;           /* errno after the call. */
    char room[];         /* The text, followed by the pattern. */
};

/* Number of calls that were left alone and have not returned. A child of fork() has none. */
static int hanging;
static void forget_hanging(void) { hanging = 0; }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_hanging); }

/* ------------------------------------------------------------------------------------------------------------ apart */

/* The kind of a descriptor. The question may block in the file system. */
static enum kind kind_of(int fd) {
    static const unsigned at_home[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                       F2FS_SUPER_MAGIC, TMPFS_MAGIC,     OVERLAYFS_SUPER_MAGIC,
                                       RAMFS_MAGIC,      0x2fc12fc1 /* ZFS */};
    struct statfs about;
    if (fstatfs(fd, &about) != 0)
        return AT_HOME;
    for (size_t k = 0; k < sizeof at_home / sizeof *at_home; k++)
        if ((unsigned)about.f_type == at_home[k])
            return AT_HOME;
    return MAY_HANG;
}

static bool is_file(int fd) { return lseek(fd, 0, SEEK_CUR) >= 0; }

static void look(struct apart *apart) {
    struct job *job = (struct job *)apart;
    job->kind = is_file(job->fd) ? kind_of(job->fd) : AT_HOME;
    job->good = true;
}

static void open_file(struct apart *apart) {
    struct job *job = (struct job *)apart;
    job->fd = output_open(job->pattern, job->rank, job->flags);
    job->error = errno;
    job->good = job->fd >= 0;
    if (job->good)
        look(apart);
}

static void add(struct apart *apart) {
    struct job *job = (struct job *)apart;
    job->good = output_write(job->fd, job->room, job->bytes, job->wait_ms);
    job->error = errno;
}

static void close_file(struct apart *apart) { close(((struct job *)apart)->fd); }

static void save(struct apart *apart) {
    struct job *job = (struct job *)apart;
    struct stat about;
    open_file(apart);
    if (!job->good)
        return;
    if (fstat(job->fd, &about) == 0 && S_ISREG(about.st_mode))
        (void)!ftruncate(job->fd, 0); /* if this fails, writing fails too */
    add(apart);
    close_file(apart);
}

/* Writes the new file under another name first, then renames it. Other programs may look for files with a certain
 * ending: the first name does not have it. */
static void replace(struct apart *apart) {
    struct job *job = (struct job *)apart;
    char path[PATH_MAX], fresh[PATH_MAX + 16];
    job->error = ENAMETOOLONG;
    if (!output_path(job->pattern, job->rank, path))
        return;
    /* Unique name, because several threads may write the same file. */
    snprintf(fresh, sizeof fresh, "%s.%d", path, os_tid());
    unlink(fresh); /* a file of an earlier thread with this number may be left */
    job->fd = os_high(open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    job->error = errno;
    if (job->fd < 0)
        return;
    add(apart);
    close_file(apart);
    if (job->good && rename(fresh, path) == 0)
        return;
    job->error = job->good ? errno : job->error;
    job->good = false;
    unlink(fresh);
}

static void free_job(struct apart *apart) {
    struct job *job = (struct job *)apart;
    if (apart->left)
        __atomic_sub_fetch(&hanging, 1, __ATOMIC_RELAXED);
    if (apart->left && apart->act == open_file && job->good)
        close_file(apart);
    free(job);
}

/* Calls act with a copy of *job, and copies the results back. The limits are those of apart_call(). False: act has
 * failed, or has not returned; errno tells which of the two. */
static bool call(void (*act)(struct apart *), struct job *job, const char *text, int limit_ms, int clock_ms) {
    const size_t pattern_bytes = strlen(job->pattern) + 1;
    struct job *copy = malloc(sizeof *copy + job->bytes + pattern_bytes);
    if (copy == NULL)
        return false;
    *copy = *job;
    copy->apart = (struct apart){.name = "collet-output", .act = act, .free_job = free_job};
    copy->pattern = copy->room + job->bytes;
    memcpy(copy->room, text, job->bytes);
    memcpy(copy->room + job->bytes, job->pattern, pattern_bytes);
    if (!apart_call(&copy->apart, (uint64_t)limit_ms * NS_PER_MS, (uint64_t)clock_ms * NS_PER_MS)) {
        /* The thread may have counted down first. Then the number is −1 for a moment. */
        __atomic_add_fetch(&hanging, 1, __ATOMIC_RELAXED);
        errno = ETIMEDOUT;
        return false;
    }
    job->fd = copy->fd;
    job->kind = copy->kind;
    job->good = copy->good;
    errno = copy->error;
    apart_free(&copy->apart);
    return job->good;
}

/* ------------------------------------------------------------------------------------------------------------ outlets */

static void remember(int fd, enum kind kind) {
    if (fd >= 0 && fd < DESCRIPTORS_MAX)
        __atomic_store_n(&kinds[fd], (unsigned char)kind, __ATOMIC_RELAXED);
}

/* The kind of a descriptor that another part of the program may have opened. If its file system does not answer in time,
 * it is MAY_HANG. */
static enum kind recall(int fd) {
    struct job job = {.fd = fd, .kind = MAY_HANG, .pattern = ""};
    const enum kind known = fd < DESCRIPTORS_MAX ? (enum kind)__atomic_load_n(&kinds[fd], __ATOMIC_RELAXED) : UNKNOWN;
    if (known != UNKNOWN)
        return known;
    if (is_file(fd))
        call(look, &job, "", LOOK_MS, BUSY_MS);
    else
        job.kind = AT_HOME;
    remember(fd, job.kind);
    return job.kind;
}

int outlet_open(const char *pattern, int rank, int flags) {
    struct job job = {.fd = -1, .pattern = pattern, .rank = rank, .flags = flags};
    if (!call(open_file, &job, "", OPEN_MS, APART_BUSY * OPEN_MS))
        return -1;
    remember(job.fd, job.kind);
    return job.fd;
}

bool outlet_add(int fd, const char *text, unsigned long bytes, int wait_ms) {
    struct job job = {.fd = fd, .pattern = "", .bytes = bytes};
    if (recall(fd) == AT_HOME)
        return output_write(fd, text, bytes, wait_ms);
    errno = ETIMEDOUT;
    if (__atomic_load_n(&hanging, __ATOMIC_RELAXED) > 0)
        return false;
    return call(add, &job, text, ADD_MS, ADD_MS) || errno == ETIMEDOUT; /* ETIMEDOUT: the text is on its way */
}

void outlet_close(int fd) {
    struct job job = {.fd = fd, .pattern = ""};
    const enum kind kind = recall(fd);
    remember(fd, UNKNOWN);
    if (kind == MAY_HANG)
        call(close_file, &job, "", ADD_MS, ADD_MS);
    else
        close(fd);
}

bool outlet_save(const char *pattern, int rank, const char *text, unsigned long bytes, int limit_ms) {
    struct job job = {.fd = -1, .pattern = pattern, .rank = rank, .bytes = bytes, .wait_ms = limit_ms};
    return call(save, &job, text, limit_ms + ADD_MS, limit_ms + BUSY_MS);
}

bool outlet_replace(const char *pattern, const char *text, unsigned long bytes, int limit_ms) {
    struct job job = {.fd = -1, .pattern = pattern, .rank = -1, .bytes = bytes};
    return call(replace, &job, text, limit_ms, limit_ms < INT_MAX / APART_BUSY ? APART_BUSY * limit_ms : INT_MAX);
}
