/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/operation.h"

#include "layers/observe/clock.h"

#include <stdio.h>

const char *operation_state(const struct event_calls *calls, bool under_way) {
    if (calls->result != COLLET_SUCCESS)
        return "failed";
    return calls->on_gpu ? "on GPU" : under_way ? "begun" : "done";
}

uint64_t operation_bytes(const struct event_calls *calls, int nranks) {
    const bool per_rank = !prog_is_p2p(calls->collective) && !prog_is_sliced(calls->collective);
    return calls->count * type_size(calls->type) * (per_rank ? (uint64_t)nranks : 1);
}

void operation_put_owner(struct json *json, const struct chan *chan) {
    char tag[20];
    snprintf(tag, sizeof(tag), "%016llx", (unsigned long long)boot_tag(chan->owner.boot));
    json_text(json, "communicator", tag);
    json_text(json, "name", chan->name);
    json_integer(json, "rank", chan->owner.rank);
    json_integer(json, "nranks", chan->owner.nranks);
}

void operation_put(struct json *json, const struct event_calls *calls, bool under_way, int nranks) {
    const struct algorithm *algorithm = calls->program->source;
    json_integer(json, "seq", (long long)calls->last);
    if (calls->first < calls->last)
        json_integer(json, "since_seq", (long long)calls->first);
    json_text(json, "collective", prog_collective_name(calls->collective));
    json_integer(json, "bytes", (long long)operation_bytes(calls, nranks));
    json_integer(json, "count", (long long)calls->count);
    json_text(json, "type", type_name(calls->type));
    json_text(json, "op", op_name(calls->op));
    json_integer(json, prog_is_p2p(calls->collective) ? "peer" : "root", calls->root);
    json_text(json, "algorithm", algorithm != NULL ? algorithm->name : "?");
    json_text(json, "protocol", protocol_names[calls->protocol]);
    json_integer(json, "channels", calls->nchannels);
    json_text(json, "state", operation_state(calls, under_way));
    if (calls->result != COLLET_SUCCESS)
        json_integer(json, "result", calls->result);
}

void operation_put_times(struct json *json, const struct event_calls *calls, const struct chan *chan) {
    const int64_t clock_ns = boot_clock_ns(chan->owner.boot);
    json_integer(json, "began_ns", (int64_t)calls->began_ns + clock_ns);
    if (calls->ended_ns != 0)
        json_integer(json, "ended_ns", (int64_t)calls->ended_ns + clock_ns);
}
