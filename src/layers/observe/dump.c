/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/dump.h"

#include "base/log.h"
#include "base/output.h"
#include "layers/observe/operation.h"
#include "layers/outlet/outlet.h"

#include <stdio.h>
#include <stdlib.h>

/* Another thread may be running the call. Plain fields are read without synchronisation, because a look must not make a call slower. Each
 * field is a small integer, and its value may be a moment old. The attribute tells thread sanitizers that this is intended. */
#define READS_RACILY __attribute__((no_sanitize("thread")))

/* ---- as text ---- */

#define SHOWN 8 /* maximum number of calls that are printed */

struct newest {
    uint32_t begun;
    struct event_calls calls[SHOWN]; /* [number % SHOWN] */
    bool under_way[SHOWN];
};

static void keep_if_new(const struct event_calls *calls, bool under_way, void *newest_) {
    struct newest *newest = newest_;
    if (newest->begun - calls->number >= SHOWN)
        return;
    newest->calls[calls->number % SHOWN] = *calls;
    newest->under_way[calls->number % SHOWN] = under_way;
}

READS_RACILY static void print_calls(const struct event_calls *calls, bool under_way, FILE *out) {
    char numbers[48];
    snprintf(numbers, sizeof(numbers), calls->first < calls->last ? "calls %llu-%llu" : "call %llu",
             (unsigned long long)calls->first, (unsigned long long)calls->last);
    fprintf(out, " %s: %s of %llu %s, %s, %s: %s\n", numbers, prog_collective_name(calls->collective),
            (unsigned long long)calls->count, type_name(calls->type), calls->program->source->name,
            protocol_names[calls->protocol], operation_state(calls, under_way));
}

READS_RACILY void dump_print(const struct collet_comm *comm, FILE *out) {
    struct newest newest = {.begun = comm->chan->recorder->readers->begun};
    recorder_each(comm, keep_if_new, &newest);
    for (uint32_t k = 1; k <= SHOWN; k++) {
        const uint32_t at = (newest.begun + k) % SHOWN;
        if (newest.calls[at].kind == EVENT_CALLS)
            print_calls(&newest.calls[at], newest.under_way[at], out);
    }
}

/* ---- as JSON ---- */

struct dump_page {
    struct json json;
    const struct chan *chan;
};

static void put_calls(const struct event_calls *calls, bool under_way, void *page_) {
    struct dump_page *page = page_;
    json_open(&page->json, NULL, '{');
    operation_put(&page->json, calls, under_way, page->chan->owner.nranks);
    operation_put_times(&page->json, calls, page->chan);
    json_close(&page->json, '}');
}

static void put_dump(const struct collet_comm *comm, enum collet_result result, const char *text, FILE *out) {
    struct dump_page page = {.json = {.file = out}, .chan = comm->chan};
    struct json *json = &page.json;
    json_open(json, NULL, '{');
    operation_put_owner(json, comm->chan);
    json_text(json, "host", os_host_name());
    json_integer(json, "pid", os_pid());
    json_integer(json, "result", result);
    json_text(json, "error", text);
    json_open(json, "operations", '[');
    recorder_each(comm, put_calls, &page);
    json_close(json, ']');
    json_close(json, '}');
    fputc('\n', out);
}

/* Maximum time to write the file. It is enough if the file's reader is alive. An abort waits as long (api/comm.h). */
#define DUMP_MS 200

void dump_save(const struct collet_comm *comm, enum collet_result result, const char *text) {
    struct readers *readers = comm->chan->recorder->readers;
    const char *pattern = comm->config.dump_file;
    char *dump = NULL;
    size_t bytes;
    if (readers->dumped || pattern[0] == '\0')
        return;
    readers->dumped = true;
    FILE *out = open_memstream(&dump, &bytes);
    if (out != NULL)
        put_dump(comm, result, text, out);
    const bool good = out != NULL && fclose(out) == 0;
    if (!good || !outlet_save(pattern, comm->rank, dump, bytes, DUMP_MS))
        log_always(ERR, "cannot write COLLET_DUMP_FILE=%s: %s", pattern, output_why());
    free(dump);
}

/* ---- how far a call is ---- */

/* Like fifo_load_head(), but without synchronisation. */
READS_RACILY static uint64_t least_head(const struct fifo_end *end) {
    uint64_t least = *end->head;
    for (uint32_t k = 1; k < end->nheads; k++) {
        const uint64_t head = end->head[k * (FIFO_LINE_BYTES / sizeof *end->head)];
        least = (int64_t)(head - least) < 0 ? head : least;
    }
    return least;
}

READS_RACILY static void dump_worker(const struct exec_program *program, int channel, int worker, FILE *out) {
    const struct interp_worker *w = &program->workers[program->first_worker[channel] + worker];
    const struct prog *prog = program->progs[channel];
    if (w->done) {
        fprintf(out, "  channel %d worker %d: done\n", channel, worker);
        return;
    }
    if (prog->npeers == 0) {
        fprintf(out, "  channel %d worker %d: copying\n", channel, worker);
        return;
    }
    const struct fifo_end *end = w->blocked_sending ? w->op->send_ends[w->blocked_on] : w->op->recv_ends[w->blocked_on];
    fprintf(out, "  channel %d worker %d: round %llu of %llu, step %u of %u, waiting for rank %d's %s", channel, worker,
            (unsigned long long)w->round, (unsigned long long)w->op->geometry.nrounds, w->pc, w->nsteps,
            prog->peers[w->blocked_on].rank, w->blocked_sending ? "credit" : "data");
    if (end != NULL)
        fprintf(out, " (slot %u: position %llu, tail %llu, head %llu)", (uint32_t)end->position & (end->nslots - 1),
                (unsigned long long)end->position, (unsigned long long)*end->tail, (unsigned long long)least_head(end));
    fprintf(out, "\n");
}

/* The number of channels that both the call and its program have. One of the two may be newer than the other. */
READS_RACILY static int channels_of(const struct exec_call *call) {
    const int most = call->program->nchannels;
    return (int)call->args.nchannels < most ? (int)call->args.nchannels : most;
}

READS_RACILY void exec_dump(const struct exec_call *call, FILE *out) {
    static const char *const states[] = {"done", "connecting", "running"};
    const struct exec_program *program = call->program;
    const int nchannels = channels_of(call);
    fprintf(out, " %s, call %llu, %s, %s: %s\n", prog_collective_name(call->request.collective),
            (unsigned long long)call->args.sequence, protocol_names[call->args.protocol], program->source->name,
            states[call->state]);
    if (call->chan->owner.gpu != NULL && call->state != EXEC_CONNECTING) /* only the GPU knows the call's state */
        return;
    if (call->state == EXEC_CONNECTING && !call->request.by_copies)
        for (int k = program->nready; k < program->nconns; k++)
            if (program->conns[k]->state != CONN_READY)
                fprintf(out, "  channel %d: connection with rank %d is not ready\n", program->conns[k]->channel,
                        program->conns[k]->peer);
    for (int channel = 0; call->state == EXEC_RUNNING && channel < nchannels; channel++)
        for (int worker = 0; worker < program->progs[channel]->nworkers; worker++)
            dump_worker(program, channel, worker, out);
}
