/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a rank, with everything in it that a communicator can do, for tests that break it:
 *
 *    init ─▶ first call ─▶ many calls ─▶ groups ─▶ a stream ─▶ a split ─▶ destroy
 *
 * Every result is compared. The first call that fails ends the life; what it said is kept.
 */
#ifndef COLLET_TESTS_LIFE_H
#define COLLET_TESTS_LIFE_H

#include "collet.h"

#include <stdbool.h>
#include <stdint.h>

#define LIFE_ELEMS_MAX 70000

#define LIFE_MOMENTS(X)                                                                                                \
    X(INIT, "init")                                                                                                    \
    X(FIRST, "first") X(MANY, "many") X(GROUP, "group") X(STREAM, "stream") X(SPLIT, "split") X(DESTROY, "destroy")
#define LIFE_NAME(name, text) name,
enum moment { LIFE_MOMENTS(LIFE_NAME) MOMENT_COUNT };
extern const char *const moment_names[];

/* How it ended for a rank. */
struct outcome {
    bool ended, wrong;
    enum collet_result result; /* of the first call that failed */
    const char *where;         /* the moment to which the rank had come */
    char text[512];
    enum collet_result shrunk; /* of the first shrink that failed, if a call has */
    unsigned company;          /* bits: the ranks that it goes on with */
};

struct life {
    int rank, nranks;
    uint64_t seed; /* chooses the sizes of calls: the same on all ranks */
    struct collet_unique_id id;
    struct outcome *outcome;
    /* The job has come to this moment. False: this rank makes no more calls. */
    bool (*go_on)(struct life *life, enum moment moment);
    struct collet_comm *comm; /* the caller destroys it */
    int *in, *out;            /* LIFE_ELEMS_MAX each */
    int aborted;              /* by another thread: comm is no more */
    uint64_t calls;           /* so far */
};

void life_begin(struct life *life);
void life_end(struct life *life);

/* False: it ended early. */
bool life_live(struct life *life);

/* False: the rank's life is over; keeps the first error. */
bool life_went_well(struct life *life, enum collet_result result);

/* A sum over all ranks of the life. */
bool life_sum(struct life *life, struct collet_comm *comm, struct collet_stream *stream);

/* The k-th number of a seed. */
uint64_t life_number(uint64_t seed, uint64_t k);

/* Does the text name this rank, and not another one that begins with the same digits? */
bool life_names_rank(const char *text, int rank);
/* Does it name a process by what is the process's, not a rank's: its door, or its meeting point? */
bool life_names_process(const char *text, int pid);
/* Does an init say that it misses this rank? */
bool life_misses_rank(const char *text, int rank);

#endif
