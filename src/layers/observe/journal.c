/* SPDX-License-Identifier: Apache-2.0
 *
 * See journal.h.
 */
#include "layers/observe/journal.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/os.h"
#include "layers/outlet/outlet.h"
#include "base/output.h"
#include "layers/observe/clock.h"
#include "layers/observe/json.h"
#include "transport/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READS_RACILY __attribute__((no_sanitize("thread"))) /* see exec_dump() */

static const char *state_of(const struct journal_entry *e) {
    if (e->result != COLLET_SUCCESS)
        return "failed";
    return e->on_gpu ? "on GPU" : e->ended == e->last ? "done" : "begun";
}

/* ---- an operation as JSON ---- */

/* The bytes of its larger buffer, of all ranks' blocks together. */
static uint64_t record_bytes(const struct journal_entry *e, int nranks) {
    const bool per_rank = !prog_is_p2p(e->collective) && !prog_is_sliced(e->collective);
    return e->count * type_size(e->type) * (per_rank ? (uint64_t)nranks : 1);
}

static void put_operation(struct json *json, const struct journal_entry *e, int nranks) {
    json_integer(json, "seq", (long long)e->last);
    if (e->first < e->last)
        json_integer(json, "since_seq", (long long)e->first);
    json_text(json, "collective", prog_collective_name(e->collective));
    json_integer(json, "bytes", (long long)record_bytes(e, nranks));
    json_integer(json, "count", (long long)e->count);
    json_text(json, "type", type_name(e->type));
    json_text(json, "op", op_name(e->op));
    json_integer(json, prog_is_p2p(e->collective) ? "peer" : "root", e->root);
    json_text(json, "algorithm", e->algorithm != NULL ? e->algorithm->name : "?");
    json_text(json, "protocol", protocol_names[e->protocol]);
    json_integer(json, "channels", e->nchannels);
    json_text(json, "state", state_of(e));
    if (e->result != COLLET_SUCCESS)
        json_integer(json, "result", e->result);
}

/* Times are in ns of rank 0's clock, so that those of all ranks can be compared. */
static void put_times(struct json *json, const struct journal_times *t, int64_t clock_ns) {
    json_integer(json, "began_ns", (int64_t)t->began + clock_ns);
    if (t->ended != 0)
        json_integer(json, "ended_ns", (int64_t)t->ended + clock_ns);
}

static void put_owner(struct json *json, const struct chan *chan) {
    char tag[20];
    snprintf(tag, sizeof(tag), "%016llx", (unsigned long long)boot_tag(chan->owner.boot));
    json_text(json, "communicator", tag);
    json_text(json, "name", chan->name);
    json_integer(json, "rank", chan->owner.rank);
    json_integer(json, "nranks", chan->owner.nranks);
}

/* ---- COLLET_RECORD ---- */

/* Lines are kept until some of them can be written together. A pipe that is stuck is waited for once: what it does not take is missing. */
#define RECORD_BYTES (32u << 10)
#define BURST_MS 20
struct record {
    int fd;
    uint64_t missing; /* lines that could not be written */
    bool is_stuck;    /* the last ones could not */
    size_t used;
    char text[RECORD_BYTES];
};

/* Whole lines, of so many bytes at most. */
static size_t first_lines(const char *text, size_t bytes, size_t most) {
    const char *end = bytes <= most ? text + bytes - 1 : memrchr(text, '\n', most);
    return (size_t)(end - text) + 1;
}

static uint64_t count_lines(const char *text, size_t bytes) {
    uint64_t lines = 0;
    for (size_t k = 0; k < bytes; k++)
        lines += text[k] == '\n';
    return lines;
}

/* A pipe takes a piece of PIPE_BUF bytes whole, or not at all. */
static void record_flush(struct record *record) {
    for (size_t at = 0, bytes; at < record->used; at += bytes) {
        bytes = first_lines(record->text + at, record->used - at, PIPE_BUF);
        const bool good = outlet_add(record->fd, record->text + at, bytes, record->is_stuck ? 0 : BURST_MS);
        record->is_stuck = !good;
        if (good)
            continue;
        if (record->missing == 0)
            log_always(ERR, "cannot write COLLET_RECORD: %m; operations are missing there");
        record->missing += count_lines(record->text + at, bytes);
    }
    record->used = 0;
}

static void record_close(struct record *record) {
    record_flush(record);
    if (record->missing > 0)
        log_always(ERR, "%llu operations are missing in COLLET_RECORD", (unsigned long long)record->missing);
    outlet_close(record->fd);
    free(record);
}

static enum collet_result record_open(const char *pattern, int rank, struct record **record_p) {
    struct record *record;
    COLLET_TRY(memory_get(&record, 1, sizeof(*record), "no memory for COLLET_RECORD"));
    record->fd = outlet_open(pattern, rank, O_APPEND);
    if (record->fd < 0) {
        free(record);
        return err_set(COLLET_ERR_INVALID_USAGE, "COLLET_RECORD is %s: %s", pattern, output_why());
    }
    *record_p = record;
    return COLLET_SUCCESS;
}

/* "shm" or "shm,tcp": over which transports the program goes. */
static void name_transports(const struct exec_program *program, char *text, size_t room) {
    unsigned seen = 0;
    text[0] = '\0';
    for (int k = 0; program != NULL && k < program->nconns; k++) {
        const struct transport *transport = program->conns[k]->transport;
        if (seen & transport->bit)
            continue;
        snprintf(text + strlen(text), room - strlen(text), "%s%s", seen ? "," : "", transport->name);
        seen |= transport->bit;
    }
}

static void record_line(const struct journal *journal, const struct journal_entry *e, const struct journal_times *t,
                        const struct exec_program *program, FILE *out) {
    const struct chan *chan = journal->chan;
    const int nranks = chan->owner.nranks;
    const double ns = (double)(t->ended - t->began);
    const double algbw = ns > 0 ? (double)record_bytes(e, nranks) / ns : 0;
    struct json json = {.file = out, .depth = 3}; /* deep enough to stay on one line */
    char via[32];
    name_transports(program, via, sizeof(via));
    fputc('{', out);
    put_owner(&json, chan);
    put_operation(&json, e, nranks);
    json_text(&json, "transport", via);
    put_times(&json, t, boot_clock_ns(chan->owner.boot));
    json_number(&json, "time_us", ns / 1000);
    json_number(&json, "algbw", algbw);
    if (!prog_is_p2p(e->collective))
        json_number(&json, "busbw", algbw * prog_bus_factor(e->collective, nranks));
    fputs("}\n", out);
}

static void record_add(const struct journal *journal, const struct journal_entry *e, const struct journal_times *t,
                       const struct exec_program *program) {
    struct record *record = journal->record;
    char line[768];
    FILE *out = fmemopen(line, sizeof(line), "w");
    if (out == NULL)
        return;
    record_line(journal, e, t, program, out);
    const long bytes = ftell(out);
    fclose(out);
    if (record->used + (size_t)bytes > sizeof(record->text))
        record_flush(record);
    memcpy(record->text + record->used, line, (size_t)bytes);
    record->used += (size_t)bytes;
    if (e->result != COLLET_SUCCESS)
        record_flush(record);
}

/* ---- times ---- */

/* On a GPU the end of a call is not seen. */
static void begin_time(struct journal *journal, struct journal_times *times, struct exec_call *call) {
    *times = (struct journal_times){.began = os_now_ns()};
    if (journal->observing.observer == NULL)
        return;
    struct observed *observed = observing_begin(&journal->observing, call);
    if (call->chan->owner.gpu != NULL)
        observing_end(observed);
    else
        call->observed = observed;
}

struct journal_entry *journal_add(struct journal *journal, struct journal_entry *last, struct exec_call *call) {
    (void)last;
    const struct exec_request *request = &call->request;
    const uint64_t number = journal->added % JOURNAL_ENTRIES;
    journal->entries[number] = (struct journal_entry){.args_id = journal_has_times(journal) ? 0 : call->args_id,
                                                      .first = call->args.sequence,
                                                      .last = call->args.sequence,
                                                      .count = request->count,
                                                      .collective = (uint8_t)request->collective,
                                                      .type = (uint8_t)request->type,
                                                      .op = (uint8_t)request->op,
                                                      .root = request->root,
                                                      .algorithm = call->program->source,
                                                      .protocol = (uint8_t)call->args.protocol,
                                                      .nchannels = (uint8_t)call->args.nchannels,
                                                      .on_gpu = call->chan->owner.gpu != NULL};
    if (journal_has_times(journal))
        begin_time(journal, &journal->times[number], call);
    __atomic_store_n(&journal->added, journal->added + 1, __ATOMIC_RELEASE); /* pairs with journal_print() */
    return &journal->entries[number];
}

void journal_note_end(struct journal *journal, const struct journal_entry *entry, const struct exec_call *call) {
    struct journal_times *times = &journal->times[entry - journal->entries];
    times->ended = os_now_ns();
    observing_end(call->observed);
    if (journal->record != NULL)
        record_add(journal, entry, times, call->program);
}

/* ---- life ---- */

enum collet_result journal_open(struct journal *journal, const struct chan *chan) {
    const struct config *config = chan->owner.config;
    journal->chan = chan;
    COLLET_TRY(memory_get(&journal->entries, JOURNAL_ENTRIES, sizeof(*journal->entries), "no memory for the journal"));
    COLLET_TRY(observing_open(&journal->observing, chan));
    if (journal_wants_times(config) || journal->observing.observer != NULL)
        COLLET_TRY(memory_get(&journal->times, JOURNAL_ENTRIES, sizeof(*journal->times), "no memory for the journal"));
    return config->record[0] != '\0' ? record_open(config->record, chan->owner.rank, &journal->record) : COLLET_SUCCESS;
}

void journal_close(struct journal *journal) {
    if (journal->record != NULL)
        record_close(journal->record);
    observing_close(&journal->observing);
    free(journal->times);
    free(journal->entries);
    *journal = (struct journal){0};
}

/* ---- showing ---- */

/* The oldest of the newest `most` that are still there. */
static uint64_t first_of(uint64_t added, uint64_t most) {
    const uint64_t kept = most < JOURNAL_ENTRIES ? most : JOURNAL_ENTRIES;
    return added > kept ? added - kept : 0;
}

READS_RACILY void journal_print(const struct journal *journal, int most, FILE *out) {
    const uint64_t added = __atomic_load_n(&journal->added, __ATOMIC_ACQUIRE); /* pairs with the end of an entry */
    for (uint64_t k = first_of(added, (uint64_t)most); k < added; k++) {
        const struct journal_entry e = journal->entries[k % JOURNAL_ENTRIES];
        char calls[48];
        snprintf(calls, sizeof(calls), e.first < e.last ? "calls %llu-%llu" : "call %llu", (unsigned long long)e.first,
                 (unsigned long long)e.last);
        fprintf(out, " %s: %s of %llu %s, %s, %s: %s\n", calls, prog_collective_name(e.collective),
                (unsigned long long)e.count, type_name(e.type), e.algorithm->name, protocol_names[e.protocol],
                state_of(&e));
    }
}

static void put_journal(const struct journal *journal, enum collet_result result, const char *text, FILE *out) {
    const struct conn_owner *owner = &journal->chan->owner;
    struct json json = {.file = out};
    json_open(&json, NULL, '{');
    put_owner(&json, journal->chan);
    json_text(&json, "host", os_host_name());
    json_integer(&json, "pid", os_pid());
    json_integer(&json, "result", result);
    json_text(&json, "error", text);
    json_open(&json, "operations", '[');
    for (uint64_t k = first_of(journal->added, JOURNAL_ENTRIES); k < journal->added; k++) {
        json_open(&json, NULL, '{');
        put_operation(&json, &journal->entries[k % JOURNAL_ENTRIES], owner->nranks);
        if (journal->times != NULL)
            put_times(&json, &journal->times[k % JOURNAL_ENTRIES], boot_clock_ns(owner->boot));
        json_close(&json, '}');
    }
    json_close(&json, ']');
    json_close(&json, '}');
    fputc('\n', out);
}

#define DUMP_MS 200 /* what a reader that lives may need; an abort waits as long (api/comm.h) */

void journal_dump(struct journal *journal, enum collet_result result, const char *text) {
    if (journal->entries == NULL || journal->dumped || journal->chan->owner.config->dump_file[0] == '\0')
        return;
    const struct conn_owner *owner = &journal->chan->owner;
    char *dump = NULL;
    size_t bytes;
    journal->dumped = true;
    FILE *out = open_memstream(&dump, &bytes);
    if (out != NULL)
        put_journal(journal, result, text, out);
    const bool good = out != NULL && fclose(out) == 0;
    if (!good || !outlet_save(owner->config->dump_file, owner->rank, dump, bytes, DUMP_MS))
        log_always(ERR, "cannot write COLLET_DUMP_FILE=%s: %s", owner->config->dump_file, output_why());
    free(dump);
}
