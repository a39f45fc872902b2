/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/record.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/output.h"
#include "layers/observe/operation.h"
#include "layers/outlet/outlet.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines are collected and written together. If a pipe is full, we wait for it once. Lines that the pipe does not take are lost. */
#define RECORD_BYTES (32u << 10)
#define BURST_MS 20
struct record {
    const struct chan *chan;
    int fd;
    uint64_t missing; /* number of lines that could not be written */
    bool is_stuck;    /* the last write failed */
    size_t used;
    char text[RECORD_BYTES];
};

/* Returns the length of the first whole lines, `most` bytes or less. */
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

/* Pieces have at most PIPE_BUF bytes, because a pipe takes such a piece as a whole or not at all. */
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

void record_close(struct record *record) {
    record_flush(record);
    if (record->missing > 0)
        log_always(ERR, "%llu operations are missing in COLLET_RECORD", (unsigned long long)record->missing);
    outlet_close(record->fd);
    free(record);
}

enum collet_result record_open(const struct chan *chan, struct record **record_p) {
    const char *pattern = chan->owner.config->record;
    struct record *record;
    COLLET_TRY(memory_get(&record, 1, sizeof(*record), "no memory for COLLET_RECORD"));
    record->chan = chan;
    record->fd = outlet_open(pattern, chan->owner.rank, O_APPEND);
    if (record->fd < 0) {
        free(record);
        return err_set(COLLET_ERR_INVALID_USAGE, "COLLET_RECORD is %s: %s", pattern, output_why());
    }
    *record_p = record;
    return COLLET_SUCCESS;
}

/* ---- a line ---- */

/* Writes the transports that the program's connections use: "shm" or "shm,tcp". */
static void name_transports(const struct exec_program *program, char *text, size_t room) {
    unsigned seen = 0;
    text[0] = '\0';
    for (int k = 0; k < program->nconns; k++) {
        const struct transport *transport = program->conns[k]->transport;
        if (seen & transport->bit)
            continue;
        snprintf(text + strlen(text), room - strlen(text), "%s%s", seen ? "," : "", transport->name);
        seen |= transport->bit;
    }
}

static void put_line(const struct chan *chan, const struct event_calls *calls, FILE *out) {
    const int nranks = chan->owner.nranks;
    const double ns = (double)(calls->ended_ns - calls->began_ns);
    const double algbw = ns > 0 ? (double)operation_bytes(calls, nranks) / ns : 0;
    struct json json = {.file = out, .depth = 3}; /* deep enough that json.c writes no new lines */
    char via[32];
    name_transports(calls->program, via, sizeof(via));
    fputc('{', out);
    operation_put_owner(&json, chan);
    operation_put(&json, calls, false, nranks);
    json_text(&json, "transport", via);
    operation_put_times(&json, calls, chan);
    json_number(&json, "time_us", ns / 1000);
    json_number(&json, "algbw", algbw);
    if (!prog_is_p2p(calls->collective))
        json_number(&json, "busbw", algbw * prog_bus_factor(calls->collective, nranks));
    fputs("}\n", out);
}

void record_add(struct record *record, const struct event_calls *calls) {
    char line[768];
    FILE *out = fmemopen(line, sizeof(line), "w");
    if (out == NULL)
        return;
    put_line(record->chan, calls, out);
    const long bytes = ftell(out);
    fclose(out);
    if (record->used + (size_t)bytes > sizeof(record->text))
        record_flush(record);
    memcpy(record->text + record->used, line, (size_t)bytes);
    record->used += (size_t)bytes;
    if (calls->result != COLLET_SUCCESS)
        record_flush(record);
}
