/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as C11 has it. See model.h for the picture.
 *
 *    thread 0            clock           what another thread must know of thread 0 to be behind it
 *    writes payload      4
 *    tail := 1, release  4 ── knows 4 ─▶ who reads this store and acquires is behind clock 4: may read the payload
 *    writes payload      5               who knows 4 only would race
 */
#include "explore.h"

#include <stdio.h>
#include <string.h>

#define LINE_BYTES 64u
#define PRIVATES_MAX 2
#define WRITERS_MAX 32
#define LINES (sizeof(model_arena) / LINE_BYTES)

/* Who has touched a byte: the clocks of each thread's last access of a kind; 0: none. */
struct touch {
    uint16_t read[MODEL_THREADS], written[MODEL_THREADS];
    uint16_t loaded[MODEL_THREADS], stored[MODEL_THREADS]; /* atomically */
};

struct line {
    struct touch bytes[LINE_BYTES];
    uint64_t hash;      /* of its content and who has touched it, as far as it is in all_hash */
    bool used, changed; /* in this execution; since it was hashed */
};

char model_arena[MODEL_ARENA_BYTES + MODEL_THREADS * MODEL_STACK_BYTES] __attribute__((aligned(128)));
static char image[MODEL_ARENA_BYTES]; /* the arena when an execution begins */
static struct line lines[LINES];
static int used[LINES], nused, changed[LINES], nchanged;
static uint64_t all_hash; /* of all lines */
static const char *arena_end;
static const char *owned; /* from here on no byte is shared */
static struct {
    const char *from, *to;
    int thread;
} privates[PRIVATES_MAX]; /* what belongs to one process */
static int nprivates;
static struct {
    const char *from, *to;
    int thread;
} writers[WRITERS_MAX]; /* who alone stores atomically there */
static int nwriters;
static bool crossing;    /* the kernel copies between processes */
static bool knows_arena; /* a state is known by the arena's content */
static struct knowledge knowledge[MODEL_THREADS];
static struct place places[PLACES_MAX];
static int nplaces;

/* ---- bytes ---- */

/* The line is about to change. */
static inline struct line *line_at(const char *at) {
    size_t number = (size_t)(at - model_arena) / LINE_BYTES;
    struct line *line = &lines[number];
    if (line->changed)
        return line;
    if (!line->used)
        used[nused++] = (int)number;
    changed[nchanged++] = (int)number;
    line->used = line->changed = true;
    return line;
}

static inline struct touch *touch_at(const char *at) {
    return &line_at(at)->bytes[(size_t)(at - model_arena) % LINE_BYTES];
}

static inline bool in_arena(const char *at) { return at >= model_arena && at < arena_end; }

static inline void must_know(int thread, const uint16_t *clocks, const char *at, const char *what) {
    for (int other = 0; other < MODEL_THREADS; other++)
        if (other != thread && clocks[other] > knowledge[thread].clock[other])
            model_fail("data race: thread %d %s byte %zu of the arena, which thread %d touches at the same time",
                       thread, what, (size_t)(at - model_arena), other);
}

static struct place *place_around(const char *at) {
    for (int k = 0; k < nplaces; k++)
        if (at >= places[k].at && at < places[k].at + places[k].bytes)
            return &places[k];
    return NULL;
}

static bool has_stores(const char *at) {
    struct place *place = place_around(at);
    return place != NULL && place->count > 0;
}

static inline void must_be_own(int thread, const char *at, size_t bytes) {
    for (int k = 0; k < nprivates && !crossing; k++)
        if (privates[k].thread != thread && at < privates[k].to && at + bytes > privates[k].from)
            model_fail("thread %d touches byte %zu of the arena, which is memory of another process", thread,
                       (size_t)(at - model_arena));
}

/* An access that the thread has made before, and told nobody since, is known already. */
void memory_touch(int thread, const void *at_, size_t bytes, bool writes) {
    const char *at = at_;
    if (!in_arena(at) || thread < 0)
        return;
    must_be_own(thread, at, bytes);
    if (at >= owned) { /* by one thread: only its content matters */
        for (size_t i = 0; writes && i < bytes; i += LINE_BYTES)
            line_at(at + i);
        if (writes)
            line_at(at + bytes - 1);
        return;
    }
    uint16_t clock = knowledge[thread].clock[thread];
    for (size_t i = 0; i < bytes; i++) {
        struct touch *touch = touch_at(at + i);
        uint16_t *mine = writes ? &touch->written[thread] : &touch->read[thread];
        if (*mine == clock && touch->stored[thread] != clock)
            continue;
        must_know(thread, touch->written, at + i, writes ? "writes" : "reads");
        must_know(thread, touch->stored, at + i, writes ? "writes" : "reads");
        if (writes) {
            must_know(thread, touch->read, at + i, "writes");
            must_know(thread, touch->loaded, at + i, "writes");
            if (has_stores(at + i))
                place_around(at + i)->plain = true;
        }
        *mine = clock;
    }
}

static void touch_atomically(int thread, const struct place *place, bool stores) {
    for (uint32_t i = 0; i < place->bytes; i++) {
        struct touch *touch = touch_at(place->at + i);
        must_know(thread, touch->written, place->at + i, stores ? "stores to" : "loads");
        if (stores)
            must_know(thread, touch->read, place->at + i, "stores to");
        (stores ? touch->stored : touch->loaded)[thread] = knowledge[thread].clock[thread];
    }
}

/* ---- places ---- */

static uint64_t value_in_memory(const struct place *place) {
    uint64_t value = 0;
    memcpy(&value, place->at, place->bytes);
    return value;
}

/* As bits. All threads, where the model does not say it. */
static int writers_of(const char *at) {
    for (int k = 0; k < nwriters; k++)
        if (at >= writers[k].from && at < writers[k].to)
            return 1 << writers[k].thread;
    return (1 << MODEL_THREADS) - 1;
}

static struct place *place_at(const void *at, uint32_t bytes) {
    for (int k = 0; k < nplaces; k++)
        if (places[k].at == at)
            return &places[k];
    if (nplaces == PLACES_MAX)
        model_fail("more than %d atomic places", PLACES_MAX);
    struct place *place = &places[nplaces++];
    *place = (struct place){.at = (char *)at, .bytes = bytes, .writers = writers_of(at)};
    snprintf(place->name, sizeof(place->name), "byte %zu", (size_t)(place->at - model_arena));
    return place;
}

/* What was there before its first atomic access, or was written plainly since, is its oldest store. Nobody else touches it. */
struct place *memory_place(const void *at, uint32_t bytes) {
    struct place *place = place_at(at, bytes);
    if (!in_arena(at) || place->bytes != bytes)
        model_fail("%s: an atomic access of %u bytes outside the arena, or of another size than before", place->name,
                   bytes);
    if (place->count > 0 && !place->plain)
        return place;
    if (place->count == STORES_MAX)
        model_fail("more than %d stores to %s", STORES_MAX, place->name);
    place->plain = false;
    place->base = place->count;
    place->stores[place->count] = (struct store){.value = value_in_memory(place), .hash = value_in_memory(place)};
    place->count++;
    return place;
}

void memory_name(const void *at, uint32_t bytes, const char *name) {
    struct place *place = place_at(at, bytes);
    snprintf(place->name, sizeof(place->name), "%s", name);
}

static int number_of(const struct place *place) { return (int)(place - places); }

static bool acquires(int order) { return order != __ATOMIC_RELAXED && order != __ATOMIC_RELEASE; }
static bool releases(int order) { return order >= __ATOMIC_RELEASE; }

static void learn(struct knowledge *to, const struct knowledge *from) {
    for (int t = 0; t < MODEL_THREADS; t++)
        if (from->clock[t] > to->clock[t])
            to->clock[t] = from->clock[t];
    for (int k = 0; k < nplaces; k++)
        if (from->floor[k] > to->floor[k])
            to->floor[k] = from->floor[k];
}

int memory_oldest(int thread, const struct place *place, bool in_order) {
    int floor = knowledge[thread].floor[number_of(place)];
    if (in_order && floor < place->in_order)
        floor = place->in_order;
    return floor > place->base ? floor : place->base;
}

uint64_t memory_load(int thread, struct place *place, int number, int order) {
    struct store *store = &place->stores[number];
    touch_atomically(thread, place, false);
    knowledge[thread].floor[number_of(place)] = (uint8_t)number;
    if (acquires(order) && store->released)
        learn(&knowledge[thread], &store->knew);
    return store->value;
}

static uint64_t hash_of(const struct store *store) {
    uint64_t hash = memory_mix(store->value, store->released);
    for (int t = 0; t < MODEL_THREADS; t++)
        hash = memory_mix(hash, store->knew.clock[t]);
    for (int k = 0; k < nplaces; k++)
        if (store->knew.floor[k] > 0)
            hash = memory_mix(hash, (uint64_t)k << 8 | store->knew.floor[k]);
    return hash;
}

bool memory_is_shared(const struct place *place) { return (place->writers & (place->writers - 1)) != 0; }

/* continued: the store that a read-modify-write replaces. */
static void append(int thread, struct place *place, uint64_t value, int order, const struct store *continued) {
    if (place->count == STORES_MAX)
        model_fail("more than %d stores to %s", STORES_MAX, place->name);
    struct knowledge *mine = &knowledge[thread];
    struct store *store = &place->stores[place->count];
    touch_atomically(thread, place, true);
    mine->floor[number_of(place)] = (uint8_t)place->count;
    *store = (struct store){.value = value};
    if (continued != NULL && continued->released) {
        store->released = true;
        store->knew = continued->knew;
    }
    if (releases(order)) {
        store->released = true;
        learn(&store->knew, mine);
        mine->clock[thread]++;
    }
    store->hash = hash_of(store);
    if (order == __ATOMIC_SEQ_CST &&
        !memory_is_shared(place)) /* when it happens is a choice: no load may read what is older */
        model_fail("a sequentially consistent store to %s, which the model says has one writer", place->name);
    if (order == __ATOMIC_SEQ_CST)
        place->in_order = place->count;
    place->by[thread]++;
    if ((place->writers >> thread & 1) == 0)
        model_fail("thread %d stores to %s, which the model says it does not", thread, place->name);
    place->count++;
    memcpy(place->at, &value, place->bytes);
}

void memory_store(int thread, struct place *place, uint64_t value, int order) {
    append(thread, place, value, order, NULL);
}

uint64_t memory_exchange(int thread, struct place *place, uint64_t value, int order) {
    const struct store *newest = &place->stores[place->count - 1];
    uint64_t before = memory_load(thread, place, place->count - 1, order);
    append(thread, place, value, order, newest);
    return before;
}

/* ---- executions ---- */

void memory_reset(void) {
    for (int k = 0; k < nused; k++) {
        struct line *line = &lines[used[k]];
        size_t at = (size_t)used[k] * LINE_BYTES;
        if (model_arena + at < owned)
            memset(line->bytes, 0, sizeof(line->bytes));
        if (at < sizeof(image))
            memcpy(model_arena + at, image + at, LINE_BYTES);
        line->used = line->changed = false;
        line->hash = 0;
    }
    nused = nchanged = 0;
    crossing = false;
    all_hash = 0;
    memset(knowledge, 0, sizeof(knowledge));
    for (int t = 0; t < MODEL_THREADS; t++)
        knowledge[t].clock[t] = 1;
    for (int k = 0; k < nplaces; k++) {
        places[k].count = places[k].base = places[k].in_order = 0;
        places[k].plain = false;
        memset(places[k].by, 0, sizeof(places[k].by));
    }
}

void memory_begin(bool shares_stacks) {
    knows_arena = !shares_stacks;
    owned = arena_end = model_arena + (shares_stacks ? sizeof(model_arena) : MODEL_ARENA_BYTES);
    memory_reset();
    memset(model_arena, 0, MODEL_ARENA_BYTES);
    nplaces = nprivates = nwriters = 0;
}

void model_owned(const void *from) { owned = from; }

void model_private(const void *from, size_t bytes, int thread) {
    if (nprivates == PRIVATES_MAX)
        model_fail("more than %d parts of the arena belong to one process", PRIVATES_MAX);
    privates[nprivates].from = from;
    privates[nprivates].to = (const char *)from + bytes;
    privates[nprivates++].thread = thread;
}

void model_writer(const void *from, size_t bytes, int thread) {
    if (nwriters == WRITERS_MAX)
        model_fail("more than %d parts of the arena have one writer", WRITERS_MAX);
    writers[nwriters].from = from;
    writers[nwriters].to = (const char *)from + bytes;
    writers[nwriters++].thread = thread;
}

void memory_cross(bool now) { crossing = now; }

void memory_keep(void) { memcpy(image, model_arena, sizeof(image)); }

static uint64_t line_hash(int number) {
    const char *content = model_arena + (size_t)number * LINE_BYTES;
    const char *touched = (const char *)lines[number].bytes;
    uint64_t hash = (uint64_t)number, word;
    for (size_t i = 0; i < LINE_BYTES; i += sizeof(word)) {
        memcpy(&word, content + i, sizeof(word));
        hash = memory_mix(hash, word);
    }
    for (size_t i = 0; content < owned && i < sizeof(lines[number].bytes); i += sizeof(word)) {
        memcpy(&word, touched + i, sizeof(word));
        hash = memory_mix(hash, word);
    }
    return hash;
}

static void hash_changes(void) {
    for (int k = 0; k < nchanged; k++) {
        struct line *line = &lines[changed[k]];
        all_hash ^= line->hash;
        line->hash = line_hash(changed[k]);
        all_hash ^= line->hash;
        line->changed = false;
    }
    nchanged = 0;
}

/* Stores that no thread may read any more do not matter. */
static int oldest_of_all(const struct place *place, int nthreads) {
    int oldest = place->count;
    for (int t = 0; t < nthreads; t++)
        if (memory_oldest(t, place, false) < oldest)
            oldest = memory_oldest(t, place, false);
    return oldest;
}

uint64_t memory_hash(int nthreads) {
    uint64_t hash = 0;
    if (knows_arena) {
        hash_changes();
        hash = all_hash;
    }
    for (int k = 0; k < nplaces; k++) {
        hash = memory_mix(hash, (uint64_t)places[k].count << 8 | (uint64_t)places[k].in_order);
        for (int s = oldest_of_all(&places[k], nthreads); s < places[k].count; s++)
            hash = memory_mix(hash, places[k].stores[s].hash);
    }
    for (int t = 0; t < nthreads; t++) {
        for (int other = 0; other < nthreads; other++)
            hash = memory_mix(hash, knowledge[t].clock[other]);
        for (int k = 0; k < nplaces; k++)
            hash = memory_mix(hash, knowledge[t].floor[k]);
    }
    return hash;
}
