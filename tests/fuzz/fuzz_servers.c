/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions to this process: HTTP requests to the exporter of COLLET_METRICS, and collet-status at the status socket. Clients come
 * with anything, in pieces, and may leave at any time; of the ranks that a status query asks, one answers with anything.
 *
 *      client ── bytes ──▶ server ──▶ page           rank 1 lives here; ranks 0 and 2 elsewhere
 *                                 ──▶ status query ── question ──▶ ranks
 */
#define read_request read_http /* the status socket has one, too */
#include "layers/metrics/exporter.c"
#undef read_request
#include "boot/hub.c"
#include "layers/observe/status_socket.c"
#include "boot/table.h"

#include "fuzz.h"
#include "watch_none.h"

#define RANKS 3
#define PIECES_MOST 16

static int listen_here(void) {
    const struct sockaddr_un unnamed = {.sun_family = AF_UNIX}; /* the kernel gives it a name */
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const void *)&unnamed, sizeof unnamed.sun_family) != 0 || listen(fd, 4) != 0)
        abort();
    return fd;
}

static void ignore(struct watch_task *task) { (void)task; }

static struct hub *make_hub(struct watch_task *work, struct boot **boot) {
    static struct config config;
    struct boot_self self = {0};
    struct card card = {.nranks = RANKS, .host = "host"};
    struct hub *hub;
    if (hub_create(RANKS, NULL, &hub) != COLLET_SUCCESS)
        abort();
    watch_task_init(work, NULL, ignore);
    hub->work = work;
    hub->phase = HUB_READY;
    if (hub_add(hub, 1, &self, &config, boot) != COLLET_SUCCESS)
        abort();
    memcpy(card.process, process_identity(), sizeof card.process);
    card.process[0]--;
    for (card.rank = 0; card.rank < RANKS; card.rank++, card.process[0]++) /* rank 1 is this process */
        hub_set_peer(hub, &card);
    return hub;
}

/* Rank 0 or 2 says what it does, whether it was asked or not. */
static void hear_a_rank(struct hub *hub, struct fuzz_input *input) {
    const uint8_t kind = fuzz_byte(input);
    size_t bytes;
    const uint8_t *data = fuzz_bytes(input, fuzz_byte(input), &bytes);
    struct status_answer answer = {.question = hub->status_query_count - (kind >> 1 & 1)};
    const size_t head = offsetof(struct status_answer, status);
    answer.bytes = (uint32_t)bytes;
    memcpy(&answer.status, data, bytes);
    struct letter *letter =
        letter_create(1, kind & 1 ? 2 : 0, boot_key(BOOT_REPORT, STATUS_OUTSIDE), &answer, head + bytes);
    if (letter == NULL)
        return;
    status_query_hear(hub, letter);
    letter_free(letter);
}

/* Reads the answer to its end. What begins like one of HTTP answers a question of HTTP. */
static void hear_out(int fd, bool http, const char *asked, size_t nasked) {
    static char answer[1 << 16];
    static const char head[] = "HTTP/1.1 200";
    size_t got = 0;
    for (;;) {
        const ssize_t n = recv(fd, answer, sizeof answer, 0);
        if (n > 0 && got == 0 && http &&
            (memcmp(answer, head, sizeof head - 1) != 0 || nasked < 4 || memcmp(asked, "GET ", 4) != 0))
            abort();
        got += n > 0 ? (size_t)n : 0;
        if (n <= 0 && watch_latest == NULL)
            break;
        if (n <= 0)
            watch_latest->ready(watch_latest, EPOLLOUT);
    }
}

static void visit(struct server *server, struct hub *hub, struct fuzz_input *input) {
    char asked[SERVER_QUESTION_BYTES];
    size_t nasked = 0, bytes;
    const uint8_t kind = fuzz_byte(input);
    const bool http = server->admits == NULL;
    const int fd = fuzz_connect(server->listener.fd);
    struct status_request request = {.version = COLLET_VERSION, .all = kind >> 1 & 1};
    server->listener.ready(&server->listener, EPOLLIN);
    if (kind & 1 && !http && send(fd, &request, sizeof request, MSG_NOSIGNAL) != sizeof request)
        abort();
    for (int k = 0; k < PIECES_MOST && input->size > 0 && watch_latest != NULL && server->clients > 0; k++) {
        const uint8_t *piece = fuzz_bytes(input, 1 + fuzz_byte(input), &bytes);
        if (send(fd, piece, bytes, MSG_NOSIGNAL) < 0)
            break;
        if (bytes > 0 && nasked + bytes <= sizeof asked)
            memcpy(asked + nasked, piece, bytes);
        nasked += bytes;
        watch_latest->ready(watch_latest, EPOLLIN);
        if (kind & 4)
            hear_a_rank(hub, input);
    }
    status_query_end_all(hub);
    shutdown(fd, kind & 8 ? SHUT_RDWR : SHUT_WR);
    hear_out(fd, http, asked, nasked);
    close(fd);
    watch_fire_all();
    if (server->clients != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct exporter exporter = {.server = {.reads = read_http, .answer = answer}};
    static struct status_socket status_socket = {.server = {.reads = read_request, .answer = begin_queries}};
    static int listeners[2] = {-1, -1};
    struct fuzz_input input = {data, size};
    struct watch_task work;
    struct boot *boot;
    if (listeners[0] < 0) {
        server_open(&exporter.server, listeners[0] = listen_here());
        server_open(&status_socket.server, listeners[1] = listen_here());
        status_socket.server.admits = is_of_same_user;
        watch_latest = NULL; /* those that come are clients */
    }
    struct hub *hub = make_hub(&work, &boot);
    status_socket.hubs = hub;
    while (input.size > 0)
        visit(fuzz_byte(&input) % 2 ? &status_socket.server : &exporter.server, hub, &input);
    hub_remove(boot);
    hub_release(hub);
    return 0;
}
