/* SPDX-License-Identifier: Apache-2.0
 *
 * What processes of one host tell each other over Unix sockets: at the place where a job meets, and where descriptors are handed
 * over.
 *
 *      any bytes ── a rank ──▶ rank 0, which gives out the id
 *      any bytes ── an id ───▶ rank r, which asked for it
 *      any bytes and descriptors ──▶ whoever waits for one descriptor, and ends with it or with nothing
 */
#include "layers/launchers/local_meeting.c"

#include "boot/id.h"
#include "fuzz.h"
#include "transport/ipc/hand_over.h"

#include <fcntl.h>
#include <stdlib.h>

#define RANKS 3
#define DESCRIPTORS_MOST 3

/* A socket that has these bytes, then its end. */
static int socket_with(const void *bytes, size_t size) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0 ||
        send(pair[1], bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
    close(pair[1]);
    return pair[0];
}

static void with_guests(const struct fuzz_input *input) {
    const struct collet_unique_id id = {{0}};
    const int fd = socket_with(input->data, input->size);
    const int rank = serve_one(fd, RANKS, &id);
    if (rank != -1 && (rank < 1 || rank >= RANKS))
        abort();
    close(fd);
}

static void with_hosts(struct fuzz_input *input) {
    struct collet_unique_id made = {{0}};
    const struct id of = {.set = {.count = 1, .port = 4711, .addresses[0] = {.family = 4, .ip = {127, 0, 0, 1}}}};
    struct id id;
    id_pack(&of, &made);
    fuzz_patch(input, &made, sizeof made);
    const int fd = socket_with(&made, fuzz_byte(input) % (sizeof made + 1));
    if (ask_for_id("job", fd, 1, &made) == COLLET_SUCCESS && id_unpack(&made, &id) == COLLET_SUCCESS &&
        id.set.count > ADDRESS_MAX)
        abort();
    close(fd);
}

/* ---- descriptors ---- */

static int lowest_free(void) {
    const int fd = dup(0);
    close(fd);
    return fd;
}

static void send_descriptors(int to, int fd, int n, const void *bytes, size_t size) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(DESCRIPTORS_MOST * sizeof(int))] = {0};
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (n > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE((size_t)n * sizeof fd);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN((size_t)n * sizeof fd);
        for (int k = 0; k < n; k++)
            memcpy(CMSG_DATA(header) + (size_t)k * sizeof fd, &fd, sizeof fd);
    }
    if (sendmsg(to, &message, MSG_NOSIGNAL) < 0)
        abort();
}

static void with_givers(struct fuzz_input *input) {
    int pair[2], fd;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
        abort();
    const int before = lowest_free();
    while (input->size > 0) {
        const uint8_t kind = fuzz_byte(input);
        size_t size;
        const uint8_t *bytes = fuzz_bytes(input, 1 + (kind >> 4), &size);
        if (size > 0)
            send_descriptors(pair[1], pair[1], kind % (DESCRIPTORS_MOST + 1), bytes, size);
        enum collet_result result = hand_over_take(pair[0], &fd);
        if (result == COLLET_SUCCESS)
            close(fd);
        if (result < 0)
            break;
    }
    if (lowest_free() != before)
        abort(); /* a descriptor came that nobody has */
    close(pair[0]);
    close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    switch (fuzz_byte(&input) % 3) {
    case 0: with_guests(&input); break;
    case 1: with_hosts(&input); break;
    default: with_givers(&input);
    }
    return 0;
}
