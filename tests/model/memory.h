/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of an execution: all stores of each atomic place, what each thread knows of them, and who has touched which byte.
 */
#ifndef COLLET_TESTS_MODEL_MEMORY_H
#define COLLET_TESTS_MODEL_MEMORY_H

#include "model.h"

#define PLACES_MAX 128
#define STORES_MAX 96

/* Of a thread, or of the one that has made a release store. */
struct knowledge {
    uint16_t clock[MODEL_THREADS]; /* the part of each thread's execution that is before this: see `touch` */
    uint8_t floor[PLACES_MAX];     /* the oldest store of each place that may still be read */
};

struct store {
    uint64_t value;
    bool released; /* an acquire load of it learns `knew` */
    struct knowledge knew;
    uint64_t hash;
};

struct place {
    char *at;
    uint32_t bytes;
    int count;
    int writers; /* who may store there, a bit each. Stores of several threads are choices: their order matters */
    int base;    /* its oldest store that may still be read by anybody */
    int by[MODEL_THREADS]; /* how many stores each thread has made */
    int in_order;          /* the newest store that is sequentially consistent; 0: there is none */
    bool plain;            /* written without atomics since: the newest value is in memory */
    struct store stores[STORES_MAX];
    char name[48];
};

/* A plain access, in the order of what the thread knows. */
void memory_touch(int thread, const void *at, size_t bytes, bool writes);

/* From now on the kernel copies, or does not any more. */
void memory_cross(bool crossing);

struct place *memory_place(const void *at, uint32_t bytes);
/* For all executions to come. */
void memory_name(const void *at, uint32_t bytes, const char *name);

/* Stores oldest … count − 1 of the place may be read. in_order: by a sequentially consistent load, which reads no store that is older than
 * the newest one of that kind. */
int memory_oldest(int thread, const struct place *place, bool in_order);
uint64_t memory_load(int thread, struct place *place, int store, int order);
void memory_store(int thread, struct place *place, uint64_t value, int order);
/* Does another thread store there, too? */
bool memory_is_shared(const struct place *place);
/* A read-modify-write reads the newest store, and its own store belongs to what that one has released. */
uint64_t memory_exchange(int thread, struct place *place, uint64_t value, int order);

/* A model begins: with zeros, and no places. Then its arena is filled, and kept as what each execution begins with. */
void memory_begin(bool shares_stacks);
void memory_keep(void);
void memory_reset(void); /* an execution begins */
/* Equal for equal memories. */
uint64_t memory_hash(int nthreads);

static inline uint64_t memory_mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 32;
}

#endif
