/* SPDX-License-Identifier: Apache-2.0
 *
 * hung_files FOLDER OPERATION SECONDS COMMAND…: runs a command that sees a file system in FOLDER whose server stops to answer.
 *
 *      OPERATION   open: from the first file that is opened there; write: from the third write(); never
 *      SECONDS     so long after that the server ends, or when there is a file FOLDER.end. Then it says "# the server has ended", and
 *                  the kernel answers in its place: ENOTCONN
 *
 * The server is this program: it speaks FUSE's protocol with the kernel (linux/fuse.h). Its files take all that is written, and keep
 * nothing. One is there from the beginning, and is called "made". Exits with the command's status; 77: this machine does not let us mount.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAMES_MAX 64
#define FIRST_NODE 2 /* 1 is the folder */
#define ANSWERED_WRITES 2

static int device;
static char names[NAMES_MAX][64];
static unsigned long long sizes[NAMES_MAX];
static bool hangs_at_open, hangs_at_write;
static int writes;
static time_t hung_at; /* 0: it still answers */

static void answer(const struct fuse_in_header *asked, int error, const void *data, size_t bytes) {
    struct fuse_out_header head = {.len = (unsigned)(sizeof head + bytes), .error = -error, .unique = asked->unique};
    struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, bytes}};
    if (writev(device, parts, bytes > 0 ? 2 : 1) < 0 && errno != ENOENT) /* ENOENT: who asked has gone */
        perror("hung_files: answer");
}

static struct fuse_attr attributes(unsigned long long node) {
    struct fuse_attr attr = {.ino = node,
                             .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0600,
                             .nlink = 1,
                             .blksize = 4096,
                             .uid = geteuid(),
                             .gid = getegid()};
    if (node >= FIRST_NODE)
        attr.size = sizes[node - FIRST_NODE];
    return attr;
}

/* 0: there is no such file. */
static unsigned long long find(const char *name) {
    for (int k = 0; k < NAMES_MAX; k++)
        if (names[k][0] != '\0' && strcmp(names[k], name) == 0)
            return (unsigned long long)k + FIRST_NODE;
    return 0;
}

static unsigned long long make(const char *name) {
    for (int k = 0; k < NAMES_MAX; k++)
        if (names[k][0] == '\0') {
            snprintf(names[k], sizeof names[k], "%.63s", name);
            sizes[k] = 0;
            return (unsigned long long)k + FIRST_NODE;
        }
    return 0;
}

static void answer_entry(const struct fuse_in_header *asked, unsigned long long node, bool opened) {
    struct {
        struct fuse_entry_out entry;
        struct fuse_open_out open;
    } both = {.entry = {.nodeid = node, .attr = attributes(node)}};
    if (node == 0)
        answer(asked, ENOENT, NULL, 0);
    else
        answer(asked, 0, &both, opened ? sizeof both : sizeof both.entry);
}

static void answer_attributes(const struct fuse_in_header *asked) {
    const struct fuse_attr_out attr = {.attr = attributes(asked->nodeid)};
    answer(asked, 0, &attr, sizeof attr);
}

static void answer_write(const struct fuse_in_header *asked, const struct fuse_write_in *write) {
    const struct fuse_write_out out = {.size = write->size};
    unsigned long long *size = &sizes[asked->nodeid - FIRST_NODE];
    if (write->offset + write->size > *size)
        *size = write->offset + write->size;
    answer(asked, 0, &out, sizeof out);
}

/* Does the server stop here? */
static bool stops(unsigned opcode) {
    writes += opcode == FUSE_WRITE;
    return hung_at != 0 || (hangs_at_open && (opcode == FUSE_CREATE || opcode == FUSE_OPEN)) ||
           (hangs_at_write && writes > ANSWERED_WRITES);
}

static void serve(const struct fuse_in_header *asked) {
    const void *data = asked + 1;
    const struct fuse_init_out init = {
        .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 65536, .max_background = 8};
    const struct fuse_statfs_out stat = {.st = {.bsize = 4096, .namelen = 63}};
    const struct fuse_open_out open = {0};
    if (asked->opcode == FUSE_FORGET || asked->opcode == FUSE_BATCH_FORGET || asked->opcode == FUSE_INTERRUPT)
        return;
    if (stops(asked->opcode)) {
        hung_at = hung_at != 0 ? hung_at : time(NULL);
        return;
    }
    switch (asked->opcode) {
    case FUSE_INIT: answer(asked, 0, &init, sizeof init); return;
    case FUSE_LOOKUP: answer_entry(asked, find(data), false); return;
    case FUSE_CREATE: answer_entry(asked, make((const char *)data + sizeof(struct fuse_create_in)), true); return;
    case FUSE_OPEN: answer(asked, 0, &open, sizeof open); return;
    case FUSE_SETATTR:
        sizes[asked->nodeid - FIRST_NODE] = ((const struct fuse_setattr_in *)data)->size; /* fall through */
    case FUSE_GETATTR: answer_attributes(asked); return;
    case FUSE_WRITE: answer_write(asked, data); return;
    case FUSE_STATFS: answer(asked, 0, &stat, sizeof stat); return;
    case FUSE_FLUSH:
    case FUSE_RELEASE: answer(asked, 0, NULL, 0); return;
    default: answer(asked, ENOSYS, NULL, 0);
    }
}

static bool is_over(const char *end, int seconds) {
    return hung_at != 0 && (time(NULL) > hung_at + seconds || access(end, F_OK) == 0);
}

/* Until the command has ended, or the server's time is up. */
static void serve_until(int command_ends, const char *end, int seconds) {
    static char buffer[1 << 18] __attribute__((aligned(16)));
    for (;;) {
        struct pollfd ways[2] = {{.fd = device, .events = POLLIN}, {.fd = command_ends, .events = POLLIN}};
        poll(ways, 2, 100);
        if (ways[1].revents != 0 || is_over(end, seconds))
            break;
        if (ways[0].revents & POLLIN && read(device, buffer, sizeof buffer) > 0)
            serve((const struct fuse_in_header *)buffer);
    }
    if (hung_at != 0)
        printf("# the server has ended\n");
    fflush(stdout);
    close(device);
}

static void write_file(const char *path, const char *text) {
    const int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        perror(path);
    close(fd);
}

/* In a mount namespace of our own, and for a user that is not root, in a user namespace, too. */
static bool mount_here(const char *folder) {
    char options[100], map[40];
    const uid_t user = geteuid();
    if (unshare(CLONE_NEWNS | (user != 0 ? CLONE_NEWUSER : 0)) != 0)
        return false;
    if (user != 0) {
        snprintf(map, sizeof map, "%d %d 1", (int)user, (int)user);
        write_file("/proc/self/uid_map", map);
    }
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", device, (int)user, (int)getegid());
    return device >= 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("hung", folder, "fuse", MS_NOSUID | MS_NODEV, options) == 0;
}

int main(int count, char **arguments) {
    char end[4096];
    int status;
    if (count < 5) {
        fprintf(stderr, "hung_files FOLDER open|write|never SECONDS COMMAND…\n");
        return 2;
    }
    hangs_at_open = strcmp(arguments[2], "open") == 0;
    hangs_at_write = strcmp(arguments[2], "write") == 0;
    if (!mount_here(arguments[1])) {
        perror("hung_files: mount");
        return 77;
    }
    const pid_t command = fork();
    if (command == 0) {
        close(device);
        execvp(arguments[4], &arguments[4]);
        _exit(127);
    }
    make("made");
    snprintf(end, sizeof end, "%s.end", arguments[1]);
    serve_until((int)syscall(SYS_pidfd_open, command, 0), end, atoi(arguments[3]));
    waitpid(command, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
