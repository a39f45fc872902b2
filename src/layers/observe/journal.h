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
#include "layers/observe/observer.h"

#define JOURNAL_ENTRIES 1024

struct journal_entry {
    uint64_t args_id;     /* of the calls (struct exec_call); 0: the journal has times */
    uint64_t first, last; /* their sequence numbers */
    uint64_t ended;       /* `last` has ended if this is equal; on a GPU, it is in a stream, and its end is not seen */
    uint64_t count;
    const struct algorithm *algorithm;
    int32_t root;
    int16_t result;               /* of the last one, if it has failed */
    uint8_t collective, type, op; /* enums */
    uint8_t protocol, nchannels;
    bool on_gpu;
};
_Static_assert(sizeof(struct journal_entry) == 64, "is one cache line");

/* os_now_ns() */
struct journal_times {
    uint64_t began, ended; /* 0: it has not */
};

struct journal {
    struct journal_entry *entries; /* [JOURNAL_ENTRIES] */
    struct journal_entry none;     /* no call's */
    struct journal_times *times;   /* [JOURNAL_ENTRIES]; NULL: nobody wants to know */
    uint64_t added;                /* entries so far */
    const struct chan *chan;
    struct record *record; /* of COLLET_RECORD; NULL: none */
    struct observing observing;
    bool dumped;
};

static inline bool journal_wants_times(const struct config *config) {
    return config->record[0] != '\0' || config->dump_file[0] != '\0';
}

enum collet_result journal_open(struct journal *journal, const struct chan *chan);
void journal_close(struct journal *journal); /* the record is complete then; zeroed is fine */

static inline bool journal_has_times(const struct journal *journal) { return journal->times != NULL; }

/* An entry of its own for a call that begins. */
struct journal_entry *journal_add(struct journal *journal, struct exec_call *call);
/* In a journal with times: the call of this entry has ended. */
void journal_note_end(struct journal *journal, const struct journal_entry *entry, const struct exec_call *call);

/* A call of a lane begins, whose last one has this entry (before the first: &journal->none). Returns the call's entry. */
static inline struct journal_entry *journal_begin(struct journal *journal, struct journal_entry *last,
                                                  struct exec_call *call) {
    if (last->args_id != call->args_id)
        return journal_add(journal, call);
    last->last = call->args.sequence;
    return last;
}

static inline void journal_end(struct journal *journal, struct journal_entry *entry, const struct exec_call *call) {
    entry->ended = call->args.sequence;
    if (entry->args_id == 0)
        journal_note_end(journal, entry, call);
}

/* Prints the newest `most` operations. Another thread may be writing. */
void journal_print(const struct journal *journal, int most, FILE *out);

/* The communicator has failed: writes all operations as JSON to COLLET_DUMP_FILE, once. */
void journal_dump(struct journal *journal, enum collet_result result, const char *text);

#endif
