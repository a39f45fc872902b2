/* SPDX-License-Identifier: Apache-2.0
 *
 * A net plugin that answers anything: how many devices it has, what they are, whether it takes a message, how many bytes have come
 * and which. It writes only where it may.
 *
 *      devices     properties ──▶ declared NICs ──▶ the graph of a machine, written and read again
 *      consumer    ◀── frames and payloads, right or changed
 *      producer    ──▶ messages, taken or not, done or not
 */
#include "layers/nccl/plug_lib.c"

#include "base/config_read.h"
#include "fuzz.h"
#include "layers/nccl/plug_end.h"
#include "topo/probe/xml_write.c"

#define SLOTS 4
#define SLOT_BYTES 8192 /* twice what goes with its frame */
#define TURNS_MOST 64

static struct fuzz_input *said; /* what the plugin says is taken from here */

/* Most answers are good. */
static int result_of(uint8_t kind) { return kind == 255 ? PLUG_REMOTE_ERROR : PLUG_SUCCESS; }

/* ---- devices ---- */

static int fake_devices(int *count) {
    *count = (int8_t)fuzz_byte(said);
    return result_of(fuzz_byte(said));
}

/* Any bytes, but the texts are the plugin's own. */
static int fake_properties(int device, void *properties) {
    static char *const names[] = {
        NULL, "", "net0", "a name that is longer than any name of a network card may be in a graph", "\"<&>\1\xff"};
    static char *const paths[] = {NULL, "", "/", "/sys/devices", "/proc/self/exe"};
    struct plug_properties_v8 first;
    const uint8_t kind = fuzz_byte(said);
    (void)device;
    if (kind & 1)
        fuzz_patch(said, properties, sizeof first);
    memcpy(&first, properties, sizeof first);
    first.name = names[(kind >> 1) % 5];
    first.path = paths[(kind >> 4) % 5];
    memcpy(properties, &first, sizeof first);
    return result_of(kind);
}

static void with_devices(const struct plug_table *table, struct fuzz_input *input) {
    struct plug_host host = {.table = table,
                             .version = PLUG_OLDEST + fuzz_byte(input) % (PLUG_NEWEST - PLUG_OLDEST + 1)};
    struct topo *topo, *again;
    char *text;
    if (read_devices(&host) != PLUG_SUCCESS)
        return;
    declare(&host);
    if (topo_synthetic("2 cpu : 2 gpu pci : 1 nic", &topo) != COLLET_SUCCESS)
        abort();
    topo_add_declared(topo);
    if (topo_finish(topo) == COLLET_SUCCESS && topo_write_text(topo, &text) == COLLET_SUCCESS) {
        if (topo_read_text(text, strlen(text), "written", TOPO_RECORDED, &again) != COLLET_SUCCESS)
            abort();
        topo_destroy(again);
        free(text);
    }
    topo_destroy(topo);
}

/* ---- connections ---- */

static int place; /* what a plugin gives out points here */

static int fake_listen(void *context, int device, void *handle, void **listener) {
    const uint8_t kind = fuzz_byte(said);
    (void)context, (void)device;
    memset(handle, kind, PLUG_HANDLE_BYTES);
    *listener = kind & 1 ? NULL : &place;
    return result_of(kind);
}
static int give_line(void **line) {
    const uint8_t kind = fuzz_byte(said);
    *line = kind & 1 ? NULL : &place;
    return result_of(kind);
}
static int fake_connect(void *context, int device, void *handle, void **sender, void **on_device) {
    (void)context, (void)device, (void)handle, (void)on_device;
    return give_line(sender);
}
static int fake_accept(void *listener, void **receiver, void **on_device) {
    (void)listener, (void)on_device;
    return give_line(receiver);
}
static int fake_reg(void *line, void *data, size_t bytes, int kind, void **registration) {
    (void)line, (void)data, (void)bytes, (void)kind;
    *registration = NULL; /* it may have none to give */
    return result_of(fuzz_byte(said));
}
static int fake_dereg(void *line, void *registration) {
    (void)line, (void)registration;
    return PLUG_SUCCESS;
}
static int fake_close(void *end) {
    (void)end;
    return PLUG_SUCCESS;
}

/* A message that is under way. */
static struct request {
    int n; /* of a receiver's messages; 0: it is a sender's */
    char *data[PLUG_TOGETHER];
    size_t room[PLUG_TOGETHER];
} requests[2 * FIFO_MAX_SLOTS];
static unsigned nrequests;

static int take_request(struct request request_made, void **request) {
    const uint8_t kind = fuzz_byte(said);
    *request = NULL;
    if (kind & 1)
        return result_of(kind);
    requests[nrequests % (2 * FIFO_MAX_SLOTS)] = request_made;
    *request = &requests[nrequests++ % (2 * FIFO_MAX_SLOTS)];
    return result_of(kind);
}
static int fake_isend(void *sender, void *data, size_t bytes, int tag, void *registration, void *event,
                      void **request) {
    (void)sender, (void)data, (void)bytes, (void)tag, (void)registration, (void)event;
    return take_request((struct request){.n = 0}, request);
}
static int fake_irecv(void *receiver, int n, void **data, size_t *bytes, int *tags, void **registrations, void **events,
                      void **request) {
    struct request made = {.n = n};
    (void)receiver, (void)tags, (void)registrations, (void)events;
    for (int k = 0; k < n; k++) {
        made.data[k] = data[k];
        made.room[k] = bytes[k];
    }
    return take_request(made, request);
}

static const struct conn *receiving;
static bool with_checksum;

/* Where a frame may come, one comes that is right but for some bytes, often with its payload. came: the bytes of both messages. */
static void put_frame(char *data, size_t came[PLUG_TOGETHER]) {
    const struct plug_end *end = receiving->impl;
    const uint32_t bytes = fuzz_byte(said) * 33u % (SLOT_BYTES + 1);
    struct wire_frame frame = {.word = fifo_word(PROTOCOL_SIMPLE, bytes), .step = end->asked};
    memset(data, 5, plug_frame_room(receiving));
    if (with_checksum) {
        static char payload[SLOT_BYTES];
        memset(payload, 5, sizeof payload);
        frame.payload_crc = crc32c(0, payload, bytes);
        frame.frame_crc = wire_frame_crc(&frame);
    }
    fuzz_patch(said, &frame, sizeof frame);
    memcpy(data, &frame, sizeof frame);
    const bool alone = !plug_is_short(receiving, frame.word);
    came[0] = sizeof frame + (alone ? 0 : bytes);
    came[1] = alone ? bytes : 0;
}

static int fake_test(void *request, int *done, int *bytes) {
    const struct request *r = request;
    const uint8_t kind = fuzz_byte(said);
    size_t came[PLUG_TOGETHER] = {r->room[0], r->room[1]};
    *done = !(kind & 1);
    for (int k = 0; *done && k < r->n; k++)
        memset(r->data[k], 5, r->room[k]);
    if (*done && r->n > 0 && r->room[0] == plug_frame_room(receiving))
        put_frame(r->data[0], came);
    for (int k = 0; *done && bytes != NULL && k < r->n; k++)
        bytes[k] = (int)came[k] + (kind & 2 ? (int8_t)fuzz_byte(said) : 0);
    return result_of(kind);
}

static void receive(struct conn *conn) {
    plug_consumer_move(conn);
    while (fifo_has_data(&conn->end)) {
        if (!fifo_header_fits(conn_layout(conn), conn->end.headers[conn->end.position & (SLOTS - 1)].word))
            abort();
        fifo_consumed(&conn->end);
    }
}

static void transmit(struct conn *conn) {
    if (fifo_has_credit(&conn->end)) {
        *fifo_header(&conn->end) = (struct fifo_slot_header){.word = fifo_word(PROTOCOL_SIMPLE, fuzz_byte(said) * 32u)};
        fifo_publish(&conn->end);
    }
    plug_producer_move(conn);
    if (*conn->end.tail - *conn->end.head > SLOTS)
        abort(); /* it believes that more was sent than was published */
}

static void with_connection(struct plug_host *host, struct fuzz_input *input) {
    static struct config config;
    const uint8_t kind = fuzz_byte(input);
    const enum conn_side side = kind & 1 ? CONN_PRODUCER : CONN_CONSUMER;
    struct peer_info peers[2] = {{.rank = 0, .host = "a"}, {.rank = 1, .host = "b"}};
    struct conn_owner owner = {.config = &config, .peers = peers, .nranks = 2};
    struct conn conn = {.side = side, .peer = 1, .owner = &owner, .transport = &transport_plugin};
    struct conn_blob blob = {.bytes = PLUG_HANDLE_BYTES + 2 * sizeof(int32_t)};
    if (config_read(&config) != COLLET_SUCCESS)
        abort();
    config.checksum = with_checksum = kind >> 1 & 1;
    owner.layouts[PROG_TO_FEW] = fifo_layout_of(SLOTS, (struct protocol_sizes){SLOT_BYTES, 64, 64}, 0);
    receiving = &conn;
    nrequests = 0;
    for (int k = 0; k < host->ndevices; k++)
        host->devices[k].receives = kind >> 3 & 1 ? 8 : 1;
    in_use = host;
    fuzz_patch(input, blob.data, blob.bytes);
    blob.bytes -= kind >> 2 & 1;
    enum collet_result result =
        side == CONN_PRODUCER ? transport_plugin.accept(&conn, &blob) : transport_plugin.offer(&conn, &blob);
    for (int k = 0; k < TURNS_MOST && result == COLLET_SUCCESS && input->size > 0; k++)
        if ((result = transport_plugin.ready(&conn)) == COLLET_SUCCESS)
            side == CONN_PRODUCER ? transmit(&conn) : receive(&conn);
        else if (result == COLLET_IN_PROGRESS)
            result = COLLET_SUCCESS;
    transport_plugin.close(&conn);
    in_use = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct plug_table table = {.name = "fake",
                                            .devices = fake_devices,
                                            .get_properties = fake_properties,
                                            .listen.v11 = fake_listen,
                                            .connect.v11 = fake_connect,
                                            .accept = fake_accept,
                                            .reg_mr = fake_reg,
                                            .dereg_mr = fake_dereg,
                                            .isend.v10 = fake_isend,
                                            .irecv.v10 = fake_irecv,
                                            .test = fake_test,
                                            .close_send = fake_close,
                                            .close_recv = fake_close,
                                            .close_listen = fake_close};
    static struct plug_host host = {.table = &table, .version = PLUG_NEWEST, .card = 5, .ndevices = 2};
    struct fuzz_input input = {data, size};
    said = &input;
    if (fuzz_byte(&input) % 4 == 0)
        with_devices(&table, &input);
    else
        with_connection(&host, &input);
    return 0;
}
