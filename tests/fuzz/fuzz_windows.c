/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank of another process says of its window: which memory it lies in, and where. The driver is none: it attaches memory of as
 * many bytes as a name says. What this rank then takes for the window, it may touch.
 */
#include "layers/gpu/windows.c"
#include "layers/memory/loan.h"

#include "fuzz.h"

#define MEMORY_BYTES 4096
#define WINDOW_AT 256
#define ATTACHED_MOST (1u << 20)

/* ---- a driver ---- */

static struct gpu_scope enter(int ordinal) { return (struct gpu_scope){.ordinal = ordinal}; }
static void leave(struct gpu_scope scope) { (void)scope; }
static int see_no_gpu(const char **why) {
    *why = "";
    return 0;
}

static enum collet_result attach_as_named(const struct gpu_name *name, void **memory_p) {
    if (name->bytes > ATTACHED_MOST)
        return err_set(COLLET_ERR_SYSTEM, "there is no such memory");
    *memory_p = calloc(1, name->bytes);
    return *memory_p != NULL ? COLLET_SUCCESS : COLLET_ERR_NO_MEMORY;
}
static void free_attached(void *memory, const struct gpu_name *name) {
    (void)name;
    free(memory);
}

static const struct gpu_sharing sharing_of_none = {.attach = attach_as_named, .detach = free_attached};
static const struct gpu_driver no_driver = {
    .sharing = &sharing_of_none, .count = see_no_gpu, .enter = enter, .leave = leave};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    struct gpu_rank gpu = {.driver = &no_driver};
    const struct peer_info peers[2] = {{.rank = 0, .host = "a"}, {.rank = 1, .host = "a"}};
    struct chan chan = {.owner = {.peers = peers, .nranks = 2, .gpu = &gpu, .joined = true}};
    struct window_reach reach[2] = {{.base = NULL}};
    struct gpu_window window = {.chan = &chan, .reach = reach};
    struct window_meeting meeting = window_meeting_begin(&chan);
    struct window_card cards[2];
    memset(cards, 0, sizeof cards);
    for (int rank = 0; rank < 2; rank++)
        cards[rank] = (struct window_card){.address = 4096 + WINDOW_AT,
                                           .bytes = MEMORY_BYTES - WINDOW_AT,
                                           .offset = WINDOW_AT,
                                           .taken = 1,
                                           .is_buffer = 1,
                                           .is_named = 1,
                                           .name = {.bytes = MEMORY_BYTES, .fd = -1}};
    fuzz_patch(&input, &cards[1], sizeof cards[1]);
    if (check_cards(cards, 2) == COLLET_SUCCESS && choose_number(cards, 2, &window.number) == COLLET_SUCCESS &&
        (window.number == 0 || window.number >= LOAN_WINDOWS))
        abort();
    if (reach_buffer(&meeting, &window, 1, &cards[1]) && reach[1].base != NULL)
        memset(reach[1].base, 1, reach[1].bytes);
    detach(&chan, &reach[1]);
    window_meeting_end(&meeting);
    return 0;
}
