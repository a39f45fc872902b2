/* SPDX-License-Identifier: Apache-2.0
 *
 * Visitors of a process: those that want metrics over HTTP, and those of collet-status. Each comes with any bytes, in any pieces,
 * and may leave at any time.
 */
#define answer show_page
#define read_request read_http
#include "api/exporter.c"
#undef answer
#undef read_request
#include "boot/desk.c"
#include "boot/reception.c"

#include "fuzz.h"
#include "watch_none.h"

#define RANKS 3

static struct hub *make_hub(struct boot **boot) {
    static struct config config;
    static struct watch_task work;
    const struct boot_self self = {.device = COLLET_DEVICE_HOST};
    struct hub *hub;
    if (hub_create(RANKS, NULL, &hub) != COLLET_SUCCESS || hub_add(hub, 1, &self, &config, boot) != COLLET_SUCCESS)
        abort();
    hub->work = &work;
    hub->phase = HUB_READY;
    memcpy(hub->peers[1].process, process_identity(), sizeof hub->peers[1].process);
    return hub;
}

static struct visitor *let_in(struct desk *desk, int fd) {
    struct visitor *visitor = calloc(1, sizeof *visitor);
    if (visitor == NULL)
        abort();
    visitor->desk = desk;
    visitor->watched = (struct watch_fd){.fd = fd, .ready = receive_some};
    visitor->deadline.fire = on_deadline;
    desk->visitors++;
    watch_timer_set(&visitor->deadline, 0);
    return visitor;
}

static size_t make_question(bool http, struct fuzz_input *input, char *bytes, size_t room) {
    static const char get[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct reception_request request = {.version = COLLET_VERSION, .all = fuzz_byte(input) % 2};
    size_t size = http ? sizeof get - 1 : sizeof request, more;
    memcpy(bytes, http ? get : (const char *)&request, size);
    fuzz_patch(input, bytes, size);
    const uint8_t *tail = fuzz_bytes(input, room - size, &more);
    if (more > 0)
        memcpy(bytes + size, tail, more);
    return size + more;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    static struct exporter exporter;
    static char question[8192];
    struct boot *boot;
    struct reception reception = {
        .desk = {.reads = read_request, .answer = begin_censuses, .breather.fire = on_breather_over}};
    struct desk pages = {.reads = read_http, .answer = show_page};
    const bool http = fuzz_byte(&input) % 2;
    struct desk *desk = http ? &pages : &reception.desk;
    int pair[2];
    process_lock()->exporter = &exporter;
    process_unlock();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    struct hub *hub = reception.hubs = make_hub(&boot);
    struct visitor *visitor = let_in(desk, pair[0]);
    const size_t piece = 1 + fuzz_byte(&input), bytes = make_question(http, &input, question, sizeof question);
    for (size_t at = 0; at < bytes && desk->visitors > 0 && visitor->watched.ready == receive_some; at += piece) {
        if (send(pair[1], question + at, at + piece < bytes ? piece : bytes - at, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        visitor->watched.ready(&visitor->watched, EPOLLIN);
    }
    census_end_all(hub);
    if (desk->visitors > 0 && visitor->watched.ready == send_some)
        send_some(&visitor->watched, EPOLLOUT);
    watch_fire_all();
    close(pair[1]);
    hub_remove(boot);
    hub_release(hub);
    if (desk->visitors != 0)
        abort();
    return 0;
}
