/* SPDX-License-Identifier: Apache-2.0
 *
 * A desk: a socket where this process answers short questions. The watch thread serves it, so a program that hangs need do
 * nothing, and a visitor cannot hold anybody up: nothing here waits, and each visit has an end.
 *
 *      visitor ── a few bytes ──▶ until reads() says that the question is complete
 *              ◀── the answer ──  begun by answer(); goes out when nothing is under way for it any more
 *
 * Two desks: the reception (reception.h) for collet-status, the exporter of COLLET_METRICS (layers/observe/exporter.h).
 */
#ifndef COLLET_LAYERS_OBSERVE_DESK_H
#define COLLET_LAYERS_OBSERVE_DESK_H

#include "boot/watch.h"

#include <stddef.h>

#define DESK_VISITORS_MAX 16      /* then the oldest silent one makes room */
#define DESK_VISIT_NS 10000000000 /* longest visit */
#define DESK_QUESTION_BYTES 4096

enum desk_question { DESK_INCOMPLETE, DESK_COMPLETE, DESK_NONSENSE };

struct visitor;
struct desk {
    struct watch_fd listener;
    struct watch_timer breather; /* while there are no descriptors, or no places, for visitors */
    struct visitor *oldest;      /* each with its successor */
    int visitors;
    bool (*admits)(int fd); /* NULL: everybody */
    enum desk_question (*reads)(const char *text, size_t bytes);
    void (*answer)(struct visitor *visitor);
};

struct visitor {
    struct watch_fd watched;
    struct watch_timer deadline;
    struct desk *desk;
    struct visitor *next, **link;
    uint64_t since_ns;
    char question[DESK_QUESTION_BYTES];
    size_t asked_bytes;
    int under_way; /* so much has to end before the answer is complete */
    char *text;    /* of the answer */
    size_t bytes, sent;
    int room;
};

/* From now on, at a socket that listens. */
enum collet_result desk_open(struct desk *desk, int fd);

/* Adds to the answer. Without memory it is short, which shows. */
void visitor_put(struct visitor *visitor, const void *data, size_t bytes);
/* Something ends for which under_way was counted up. After the last one the answer goes out, and the visitor leaves. */
void visitor_done(struct visitor *visitor);

#endif
