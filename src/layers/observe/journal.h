/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal of a communicator: its last operations on this rank.
 *
 *     the driver     journal_begin() ─▶ … │ calls 7-900, done │ call 901, done │ call 902, begun │ ◀─ journal_end()     a ring
 *                                                              │
 *     readers        collet_comm_dump(); COLLET_DUMP_FILE, when the communicator fails; COLLET_RECORD, as each call ends
 *
 * The driver alone writes, without a lock. A call must not pay for being written down. So equal calls of a lane that follow each
 * other share an entry, and nobody looks at the clock. But if COLLET_RECORD, COLLET_DUMP_FILE or an observer needs
 * times, each call has an entry of its own.
 */
#ifndef COLLET_LAYERS_OBSERVE_JOURNAL_H
#define COLLET_LAYERS_OBSERVE_JOURNAL_H

#include "exec/exec.h"
#include "layers/observe/farewell.h"
#include "layers/observe/observer.h"
#include "seams/observe.h"

#define JOURNAL_ENTRIES 1024

/* os_now_ns() */
struct journal_times {
    uint64_t began, ended; /* 0: it has not */
};

struct journal {
    struct journal_entry *entries; /* [JOURNAL_ENTRIES] */
    struct journal_times *times;   /* [JOURNAL_ENTRIES]; NULL: nobody wants to know */
    uint64_t added;                /* entries so far */
    const struct chan *chan;
    struct record *record; /* of COLLET_RECORD; NULL: none */
    struct observing observing;
    bool dumped;
    struct farewell farewell;
};

static inline bool journal_wants_times(const struct config *config) {
    return config->record[0] != '\0' || config->dump_file[0] != '\0';
}

/* Zeroed. The record is complete when it is closed. */
enum collet_result journal_open(struct journal *journal, const struct chan *chan);
void journal_close(struct journal *journal);

static inline bool journal_has_times(const struct journal *journal) { return journal->times != NULL; }

/* Prints the newest `most` operations. Another thread may be writing. */
void journal_print(const struct journal *journal, int most, FILE *out);

/* The communicator has failed: writes all operations as JSON to COLLET_DUMP_FILE, once. */
void journal_dump(struct journal *journal, enum collet_result result, const char *text);

/* Prints where a call stands, worker by worker. Another thread may be running it. */
void exec_dump(const struct exec_call *call, FILE *out);

/* A rank that the call waits for now, −1: none; *sending: for credit, not for data. Another thread may be running it. */
int exec_waits_for(const struct exec_call *call, bool *sending);

#endif
