/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank on a GPU offers to another process of its host: memory of its GPU by a handle or a descriptor, or pinned memory by a
 * descriptor. The driver is none: it attaches memory of as many bytes as a name says.
 *
 *      consumer ── offer, changed ──▶ producer        consumer ── descriptor, of a file that fits or not ──▶ producer
 *      producer ── answer, changed ──▶ consumer       (where the head of the connection is)
 */
#include "base/config_read.h"
#include "boot/boot.h"
#include "layers/gpu/buffers.h"
#include "layers/memory/loan.h"

/* What the transport asks of rooms that are not here. */
#define gpu_shared_create no_memory
#define boot_send send_nothing
#define boot_try_recv receive_answer
static enum collet_result no_memory(int64_t cumem_enable, size_t bytes, void **memory_p, struct gpu_name *name);
static enum collet_result send_nothing(struct boot *boot, int to, uint64_t key, const void *data, size_t bytes);
static enum collet_result receive_answer(struct boot *boot, int from, uint64_t key, void *data, size_t room,
                                         size_t *bytes);
#include "transport/ipc/gpu_heads.c"
#include "transport/ipc/ipc.c"

#include "fuzz.h"

#define SLOTS 2
#define ATTACHED_MOST (1u << 20)

/* ---- a driver ---- */

static struct gpu_scope enter(int ordinal) { return (struct gpu_scope){.ordinal = ordinal}; }
static void leave(struct gpu_scope scope) { (void)scope; }
static int count(const char **why) {
    *why = "";
    return 0;
}
static uint64_t identity(int ordinal) { return 1 + (uint64_t)ordinal; }

static enum collet_result attach(const struct gpu_name *name, void **memory_p) {
    if (name->bytes > ATTACHED_MOST)
        return err_set(COLLET_ERR_SYSTEM, "there is no such memory");
    *memory_p = calloc(1, name->bytes);
    return *memory_p != NULL ? COLLET_SUCCESS : COLLET_ERR_NO_MEMORY;
}
static void detach(void *memory, const struct gpu_name *name) {
    (void)name;
    free(memory);
}
static enum collet_result pin(void *memory, size_t bytes, void **device_p) {
    (void)bytes;
    *device_p = memory;
    return COLLET_SUCCESS;
}

static const struct gpu_memory memory_of_none = {.pin = pin, .unpin = os_memory_destroy};
static const struct gpu_sharing sharing_of_none = {.attach = attach, .detach = detach};
static const struct gpu_driver no_driver = {.memory = &memory_of_none,
                                            .sharing = &sharing_of_none,
                                            .count = count,
                                            .identity = identity,
                                            .enter = enter,
                                            .leave = leave};

/* ---- an offer ---- */

static struct conn_blob make_blob(struct fuzz_input *input, uint8_t kind, size_t bytes, int *listener) {
    struct ipc_offer offer = {.kind = kind & 1 ? IPC_GPU : IPC_PINNED,
                              .takes_loans = kind >> 1 & 1,
                              .name = {.bytes = bytes, .fd = kind & 4 ? 5 : -1}};
    struct conn_blob blob = {.bytes = sizeof offer};
    if (kind & 4 && hand_over_listen(offer.hand_over, listener) != COLLET_SUCCESS)
        abort();
    fuzz_patch(input, &offer, sizeof offer);
    memcpy(blob.data, &offer, sizeof offer);
    blob.bytes -= kind >> 3 & 1;
    return blob;
}

/* All of it is there. */
static void use(const struct conn *conn) {
    const struct ipc_end *end = conn->impl;
    memset(end->memory, 1, conn_layout(conn)->total_bytes);
}

/* ---- an answer ---- */

static struct ipc_answer answer;
static size_t answer_bytes;

static enum collet_result no_memory(int64_t cumem_enable, size_t bytes, void **memory_p, struct gpu_name *name) {
    (void)cumem_enable, (void)memory_p, (void)name;
    return err_set(COLLET_ERR_NO_MEMORY, "no memory for %zu bytes", bytes);
}

static enum collet_result send_nothing(struct boot *boot, int to, uint64_t key, const void *data, size_t bytes) {
    (void)boot, (void)to, (void)key, (void)data, (void)bytes;
    return COLLET_SUCCESS;
}

static enum collet_result receive_answer(struct boot *boot, int from, uint64_t key, void *data, size_t room,
                                         size_t *bytes) {
    (void)boot, (void)from, (void)key;
    *bytes = answer_bytes;
    memcpy(data, &answer, answer_bytes < room ? answer_bytes : room);
    return COLLET_SUCCESS;
}

/* A consumer waits for an answer, twice: the second one is of a block that it has attached, perhaps. The head is written to. */
static void hear_answers(struct fuzz_input *input, struct conn_owner *owner, uint8_t kind, int fd) {
    if (gpu_heads_create(owner->nranks, &owner->heads) != COLLET_SUCCESS)
        abort();
    for (int k = 0; k < 2; k++) {
        struct conn conn = {.side = CONN_CONSUMER, .peer = 1, .owner = owner, .transport = &transport_ipc};
        struct ipc_end *end;
        int listener = -1;
        answer =
            (struct ipc_answer){.head = {.name = {.bytes = 4096, .fd = -1}, .offset = (size_t)k * FIFO_LINE_BYTES}};
        answer_bytes = sizeof answer - (kind >> 3 & 1);
        if (kind & 4 && hand_over_listen(answer.hand_over, &listener) != COLLET_SUCCESS)
            abort();
        fuzz_patch(input, &answer, sizeof answer);
        if (ipc_end_create(&conn, IPC_GPU, &end) != COLLET_SUCCESS)
            abort();
        end->answers = true;
        enum collet_result result = transport_ipc.ready(&conn);
        if (result == COLLET_IN_PROGRESS && listener >= 0 && hand_over_give(listener, fd) == COLLET_SUCCESS)
            result = transport_ipc.ready(&conn);
        if (result == COLLET_SUCCESS && conn.end.head != NULL)
            memset(conn.end.head, 1, FIFO_LINE_BYTES);
        transport_ipc.close(&conn);
        if (listener >= 0)
            close(listener);
    }
    gpu_heads_destroy(owner);
    owner->heads = NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    static struct config config;
    static uint64_t windows[2 * LOAN_WINDOWS];
    const uint8_t kind = fuzz_byte(&input);
    const struct fifo_layout layout = fifo_layout_of(SLOTS, (struct protocol_sizes){256, 64, 64}, 0);
    struct gpu_rank gpu = {.driver = &no_driver};
    const struct peer_info peers[2] = {{.rank = 0, .host = "a"}, {.rank = 1, .host = "a"}};
    struct conn_owner owner = {.config = &config,
                               .peers = peers,
                               .nranks = 2,
                               .gpu = &gpu,
                               .windows = windows,
                               .layouts[PROG_TO_FEW] = layout};
    struct conn conn = {.side = CONN_PRODUCER, .peer = 1, .owner = &owner, .transport = &transport_ipc};
    const size_t file_bytes = layout.total_bytes - (kind >> 4 & 1);
    void *file;
    int fd, listener = -1;
    if (config_read(&config) != COLLET_SUCCESS || os_shared_create("fuzz", file_bytes, &file, &fd) != COLLET_SUCCESS)
        abort();
    if (kind & 0x40) {
        hear_answers(&input, &owner, kind, fd);
        os_memory_destroy(file, file_bytes);
        close(fd);
        return 0;
    }
    if (gpu_heads_create(owner.nranks, &owner.heads) != COLLET_SUCCESS)
        abort();
    const struct conn_blob blob = make_blob(&input, kind, layout.total_bytes, &listener);
    enum collet_result result = transport_ipc.accept(&conn, &blob);
    for (int k = 0; k < 3 && result >= 0; k++) {
        result = transport_ipc.ready(&conn);
        if (result == COLLET_IN_PROGRESS && listener >= 0)
            (void)hand_over_give(listener, fd);
    }
    if (result == COLLET_SUCCESS)
        use(&conn);
    transport_ipc.close(&conn);
    gpu_heads_destroy(&owner);
    if (listener >= 0)
        close(listener);
    os_memory_destroy(file, file_bytes);
    close(fd);
    return 0;
}
