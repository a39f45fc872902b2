/* SPDX-License-Identifier: Apache-2.0
 *
 * A model checker: it runs code that shares memory in every order, and with every value that the memory may return.
 *
 *    the library's own source ── gcc -fsanitize=thread ──▶ a hook is called at each access to memory (hooks.c)
 *                                                            │
 *                    ┌────────────── plain ──────────────────┴─────────────── atomic ───────────────┐
 *                    ▼                                                                              ▼
 *       is it ordered with all accesses of other threads?                   a load: which stores may it read?
 *       No: a data race, which is a finding (memory.c)                      Each is tried, one after the other (explore.c)
 *
 * The memory is that of C11. Each place that is accessed atomically keeps all of its stores:
 *
 *    tail      │ 0 │ 1 │ 2 │ 3 │        the newest store is 3
 *                    ▲       ▲          this thread knows of store 1, so a load may read 1, 2 or 3, however old they are
 *                    └───────┘
 *
 * What a thread knows (struct knowledge) grows when it reads: of that place no older store will be read again. An acquire
 * load that reads a release store also learns all that the storing thread knew then. So an order that is too weak lets some
 * thread read an old value, or leaves two plain accesses without order. Both are found, though no CPU may ever show them.
 *
 * An execution is a list of choices: which thread goes on, and which store its load reads. Stores need no choice: a load of
 * another thread may read the older ones all the same. The search goes depth first:
 *
 *    choices     0 ─ 0 ─ 2 ─ 1 ─ 0 ─ end        first all executions that begin with 0 0 2 1,
 *                        └ 3 ─ …                then those that begin with 0 0 3
 *
 * Each execution starts anew and repeats the choices up to the one that is changed. A state that has been seen before leads
 * to what has been seen before, so the execution ends there.
 *
 * Not modelled: a load that reads a store which its own thread's later store has caused (po ∪ rf has no circle, as in RC11);
 * fences, of which the slot layer has none; accesses of two sizes to one place.
 * Read next: memory.c, explore.c, slots.c, loans.c, heap.c, wake.c, windows.c.
 */
#ifndef COLLET_TESTS_MODEL_H
#define COLLET_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_THREADS 3
#define MODEL_STACK_BYTES (32u << 10)
#define MODEL_ARENA_BYTES 65536

/* What threads share or own lies here; their stacks are behind it. */
extern char model_arena[MODEL_ARENA_BYTES + MODEL_THREADS * MODEL_STACK_BYTES];

/* What is checked. */
struct model {
    const char *name;
    int nthreads;
    void (*prepare)(const struct model *model); /* fills the arena, once: each execution begins with it */
    void (*thread)(const struct model *model, int thread);
    void (*check)(const struct model *model); /* when all threads have ended */
    const void *facts;                        /* for these three */
    bool shares_stacks; /* threads look at variables of others' functions. Then no state is known by the arena alone */
};

struct model_result {
    uint64_t executions, states; /* how many were explored */
    bool complete;               /* false: stopped at the limit of states */
    bool failed;                 /* the finding and its execution have been printed, unless quiet */
    char text[256];
};
/* A line of a table; quiet: the name alone, if it failed. */
void model_print(const struct model *model, const struct model_result *result, bool quiet);
struct model_result model_explore(const struct model *model, uint64_t most_states, bool quiet);
/* Limits of states. A mutant meets few of each scenario first, as most mistakes show there, and then all. */
#define MODEL_FEW 1000u
#define MODEL_MOST 1000000u
static inline uint64_t model_more(uint64_t most_states) { return most_states == MODEL_FEW ? MODEL_MOST : 0; }

/* ---- a thread of a model calls ---- */

/* All that the thread knows is in the arena. Two executions that come here with equal arenas are the same from here on. A thread
 * that never says so is known by all that it has read. */
void model_turn(void);
/* Nothing could be done. The thread goes on once one of the places that it has read since its last wait has a newer store. */
void model_wait(void);
__attribute__((format(printf, 1, 2), noreturn)) void model_fail(const char *format, ...);

/* prepare() says: of all threads, only this one stores atomically in these bytes. Then others need not wait for what it does
 * next. That another one never does it is checked. */
void model_writer(const void *from, size_t bytes, int thread);

/* prepare() says: from here to the arena's end no byte belongs to two threads, so that is not looked for. */
void model_owned(const void *from);

/* prepare() says: threads are processes, and these bytes belong to one of them. Another one gets at them by model_copy_between()
 * alone, as if the kernel copied. That puts nothing in order. */
void model_private(const void *from, size_t bytes, int thread);
void model_copy_between(void *to, const void *from, size_t bytes);

/* Names a place, for the execution that is printed with a finding. */
__attribute__((format(printf, 3, 4))) void model_name(const void *at, uint32_t bytes, const char *format, ...);

#endif
