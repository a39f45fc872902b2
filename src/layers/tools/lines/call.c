/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the call whose lines are counted, from options. Slots and fans are as the environment sets them.
 */
#include "layers/tools/lines/call.h"

#include "base/config_read.h"
#include "base/spelling.h"
#include "chan/slots.h"
#include "layers/tools/common/machine.h"
#include "layers/tools/forecast/explain.h"

#include <inttypes.h>
#include <strings.h>

static bool read_protocol(const char *text, enum prog_collective collective, enum protocol *protocol_p) {
    struct spelling spelling = {text, SPELLING_FAR, ""};
    for (uint32_t p = 0; p < PROTOCOL_COUNT && text != NULL; p++) {
        *protocol_p = (enum protocol)p;
        if (strcasecmp(protocol_names[p], text) == 0)
            return *protocol_p != PROTOCOL_LL128 || !prog_is_bare(collective) ||
                   argument_refuse("--proto", text, "Simple or LL: LL128 has no empty messages");
        spelling_offer(&spelling, protocol_names[p]);
    }
    return text == NULL || argument_refuse_name("--proto", &spelling, "Simple, LL or LL128");
}

/* Sets the count of the call so that its larger buffer has the bytes of --bytes. */
static bool read_count(const char *text, enum prog_collective collective, int nranks, struct lines_call *call) {
    const int blocks = prog_is_sliced(collective) || prog_is_p2p(collective) ? 1 : nranks;
    const uint64_t block_bytes = (uint64_t)blocks * call->elem_bytes;
    uint64_t bytes = 64 << 10;
    char wanted[80];
    if (prog_is_bare(collective))
        return text == NULL || argument_refuse("--bytes", text, "left out: this collective has no buffers");
    if (text != NULL && !explain_read_size(text, &bytes))
        return argument_refuse("--bytes", text, "a size, like 8, 4K or 1M");
    snprintf(wanted, sizeof wanted, "a multiple of %" PRIu64 ", at most 1G: blocks are whole elements", block_bytes);
    if (bytes % block_bytes != 0 || bytes > 1 << 30)
        return argument_refuse("--bytes", text != NULL ? text : "64K", wanted);
    call->count = bytes / block_bytes;
    return true;
}

/* Sets the number of slots. Returns how many bytes of each piece of a message a slot holds. */
static uint32_t read_layout(const struct config *config, const struct cast *cast, struct lines_call *call) {
    const struct chan_scale scale = {.nranks = cast->nranks, .node_ranks = cast->nranks};
    struct fifo_layout layouts[PROG_CONNECTS_COUNT];
    chan_layouts(config, &scale, layouts);
    const struct fifo_layout *layout = &layouts[cast->algorithm->connects];
    call->nslots = layout->nslots;
    return geometry_room(fifo_payload_bytes(layout, call->protocol), (uint32_t)cast->members[0].prog->longest_run,
                         protocol_unit_bytes(call->protocol));
}

static uint32_t lent_from(const struct config *config) {
    return config->direct_bytes > 0 ? (uint32_t)config->direct_bytes : LOAN_HEAP_BYTES;
}

bool lines_call_read(const struct lines_call_request *request, const struct cast *cast, struct lines_call *call) {
    enum prog_collective collective = cast->algorithm->collective;
    enum collet_type type = COLLET_FLOAT32;
    struct config config;
    *call = (struct lines_call){.protocol = PROTOCOL_SIMPLE};
    if (prog_is_counted(collective))
        return argument_refuse("<algorithm>", prog_collective_name(collective), "one whose blocks are equally long");
    if (argument_failed("", config_read(&config)) || !argument_type("--type", request->type, &type) ||
        !read_protocol(request->protocol, collective, &call->protocol))
        return false;
    const int room = (int)read_layout(&config, cast, call);
    int channels = 1, chunk = room;
    call->elem_bytes = (uint32_t)collet_type_size(type);
    if (!argument_number("--channels", request->channels, 1, 64, &channels) ||
        !argument_number("--chunk", request->chunk, (int)call->elem_bytes, room, &chunk))
        return false;
    call->nchannels = (uint32_t)channels;
    call->chunk_bytes = (uint32_t)chunk;
    call->fans = config.fans && cast->nranks > 2;
    call->lent_from = request->registered ? lent_from(&config) : 0;
    return read_count(request->bytes, collective, cast->nranks, call);
}
