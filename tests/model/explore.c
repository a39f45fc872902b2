/* SPDX-License-Identifier: Apache-2.0
 *
 * The search through all executions. See model.h.
 *
 *    one execution      threads run up to their next choice ──▶ what may happen next? ──▶ one of it happens ──▶ …
 *                       thread 0: will load head                 0 reads head = 1          thread 0 runs up to its
 *                       thread 1: will load tail                 1 reads tail = 2          next choice
 *                                                                1 reads tail = 3
 *
 * Threads are coroutines. A thread that cannot do anything waits (model_wait): its next choice may only be made once one of the
 * places that it has read in vain has a newer store. If it then reads the same stores again, nothing new can follow, and the
 * execution is given up. If no thread may go on and not all have ended, they wait for each other: a finding.
 */
#include "explore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define CHOICES_MAX 4096
#define LOOKS_MAX 96

enum kind { NOTHING, LOAD, EXCHANGE, BLOCKED };

/* What a thread has read. */
struct look {
    const struct place *place;
    int store; /* the one that it has read; of a mutex, how often others have held it and given it back */
    bool mutex;
};
struct looks {
    struct look look[LOOKS_MAX];
    int count;
    bool stored; /* and it has stored something */
};

struct thread {
    jmp_buf at;
    bool begun, ended, waits;
    enum kind next; /* its next choice … */
    struct place *place;
    bool in_order; /* a load that is sequentially consistent */
    bool (*ready)(const void *argument);
    const void *argument;
    const char *what;
    int reads;                /* … and the store that it reads then */
    struct looks looks, vain; /* since its last wait; before it */
    uint64_t trace;           /* all that it has read since its last turn, as a hash */
};

/* One thing that may happen next. */
struct option {
    int thread, store;
};

static struct {
    const struct model *model;
    struct thread threads[MODEL_THREADS];
    int running;
    jmp_buf search;
    bool given_up, prints;
    int chosen[CHOICES_MAX], options[CHOICES_MAX]; /* the current execution's */
    int depth, repeats;                            /* of them, how many are given */
    struct model_result result;
} x = {.running = -1};

/* ---- states that have been seen ---- */

static uint64_t *seen;
static uint64_t seen_room;

static void seen_reset(void) {
    free(seen);
    seen_room = 1u << 16;
    seen = calloc(seen_room, sizeof(*seen));
}

static bool seen_add(uint64_t hash) {
    hash += hash == 0;
    uint64_t k = hash & (seen_room - 1);
    for (; seen[k] != 0; k = (k + 1) & (seen_room - 1))
        if (seen[k] == hash)
            return false;
    seen[k] = hash;
    return true;
}

static void seen_grow(void) {
    uint64_t *old = seen, room = seen_room;
    seen_room *= 4;
    seen = calloc(seen_room, sizeof(*seen));
    if (seen == NULL)
        abort();
    for (uint64_t k = 0; k < room; k++)
        if (old[k] != 0)
            seen_add(old[k]);
    free(old);
}

static uint64_t state_hash(void) {
    uint64_t hash = memory_hash(x.model->nthreads);
    for (int t = 0; t < x.model->nthreads; t++) {
        const struct thread *thread = &x.threads[t];
        hash = memory_mix(hash, thread->trace);
        hash = memory_mix(hash, (uint64_t)thread->next << 2 | thread->waits << 1 | thread->ended);
        for (int k = 0; thread->waits && k < thread->vain.count; k++)
            hash = memory_mix(hash,
                              (uint64_t)(uintptr_t)thread->vain.look[k].place ^ (uint64_t)thread->vain.look[k].store);
    }
    return hash;
}

/* False: it has been seen. */
static bool state_is_new(void) {
    if (!seen_add(state_hash()))
        return false;
    if (++x.result.states > seen_room / 2)
        seen_grow();
    return true;
}

/* ---- threads ---- */

static void to_search(void) {
    if (_setjmp(x.threads[x.running].at) == 0)
        _longjmp(x.search, 1);
}

static void thread_main(void) {
    x.model->thread(x.model, x.running);
    x.threads[x.running].ended = true;
    x.threads[x.running].next = NOTHING;
    _longjmp(x.search, 1);
}

static void start_on_its_stack(int number) {
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = model_arena + MODEL_ARENA_BYTES + (size_t)number * MODEL_STACK_BYTES;
    context.uc_stack.ss_size = MODEL_STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, thread_main, 0);
    setcontext(&context);
}

/* Runs the thread up to its next choice. */
static void go_on(int number) {
    struct thread *thread = &x.threads[number];
    x.running = number;
    if (_setjmp(x.search) == 0) {
        if (thread->begun)
            _longjmp(thread->at, 1);
        thread->begun = true;
        start_on_its_stack(number);
    }
    x.running = -1;
}

static int newest_for(int thread, const struct look *look) {
    int others = 0;
    for (int t = 0; t < MODEL_THREADS; t++)
        others += t != thread ? look->place->by[t] : 0;
    return look->mutex ? others : look->place->count - 1;
}

static bool has_newer(int thread, const struct looks *looks) {
    for (int k = 0; k < looks->count; k++)
        if (looks->look[k].store < newest_for(thread, &looks->look[k]))
            return true;
    return false;
}

/* What the thread may do now. */
static int options_of(int number, struct option *options) {
    const struct thread *thread = &x.threads[number];
    int n = 0;
    if (thread->ended || (thread->waits && !has_newer(number, &thread->vain)))
        return 0;
    if (thread->next == BLOCKED && thread->ready(thread->argument))
        options[n++] = (struct option){number, 0};
    if (thread->next == EXCHANGE)
        options[n++] = (struct option){number, thread->place->count - 1};
    if (thread->next == LOAD)
        for (int s = thread->place->count; s-- > memory_oldest(number, thread->place, thread->in_order);)
            options[n++] = (struct option){number, s};
    return n;
}

/* Whose steps may change what the thread may do now, as bits: the writers of what it reads. */
static int others_of(const struct thread *thread) {
    int others = thread->ended ? 0 : thread->place->writers;
    for (int k = 0; thread->waits && k < thread->vain.count; k++)
        others |= thread->vain.look[k].place->writers;
    return others;
}

/* The threads whose steps are to be tried now: closed, so that what the others do first changes nothing for them. */
static int closure_of(int number) {
    int closed = 1 << number, before;
    do {
        before = closed;
        for (int t = 0; t < x.model->nthreads; t++)
            if (closed >> t & 1)
                closed |= others_of(&x.threads[t]);
    } while (closed != before);
    return closed;
}

static int list_options(struct option *options) {
    struct option of_closure[MODEL_THREADS * STORES_MAX];
    int fewest = 0;
    for (int t = 0; t < x.model->nthreads; t++) {
        int closed = closure_of(t), n = 0;
        for (int other = 0; other < x.model->nthreads; other++)
            if (closed >> other & 1)
                n += options_of(other, of_closure + n);
        if (n == 0 || (fewest > 0 && n >= fewest))
            continue;
        memcpy(options, of_closure, (size_t)n * sizeof(*options));
        fewest = n;
    }
    return fewest;
}

static void must_all_have_ended(void) {
    char text[160] = "";
    for (int t = 0; t < x.model->nthreads; t++)
        if (!x.threads[t].ended)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s thread %d, at %s", text[0] ? ";" : "", t,
                     x.threads[t].next == BLOCKED ? x.threads[t].what : x.threads[t].place->name);
    if (text[0])
        model_fail("deadlock: nothing can go on:%s", text);
}

/* ---- one execution ---- */

static jmp_buf execution;

/* Which of n options comes next; −1: the rest has been seen. */
static int choose(int n) {
    if (x.depth == CHOICES_MAX)
        model_fail("more than %d choices", CHOICES_MAX);
    if (x.depth >= x.repeats) {
        if (!x.prints && !state_is_new())
            return -1;
        x.chosen[x.depth] = 0;
        x.options[x.depth] = n;
    }
    return x.chosen[x.depth++];
}

static void execute(void) {
    struct option options[MODEL_THREADS * STORES_MAX];
    memset(x.threads, 0, sizeof(x.threads));
    memory_reset();
    x.depth = 0;
    x.given_up = false;
    for (int t = 0; t < x.model->nthreads && !x.given_up; t++)
        go_on(t);
    for (int n; !x.given_up && (n = list_options(options)) > 0;) {
        int k = choose(n);
        if (k < 0)
            return;
        struct thread *thread = &x.threads[options[k].thread];
        thread->reads = options[k].store;
        thread->waits = false;
        go_on(options[k].thread);
    }
    if (x.given_up)
        return;
    must_all_have_ended();
    x.result.executions++;
    x.model->check(x.model);
}

/* False: there is no other. */
static bool next_execution(void) {
    while (x.depth > 0 && x.chosen[x.depth - 1] + 1 == x.options[x.depth - 1])
        x.depth--;
    x.repeats = x.depth;
    return x.depth > 0 && ++x.chosen[x.depth - 1] > 0;
}

/* The same execution again, printed. */
static void print_finding(void) {
    char text[sizeof(x.result.text)];
    snprintf(text, sizeof(text), "%s", x.result.text);
    printf("%s: %s\n", x.model->name, text);
    x.repeats = x.depth;
    x.prints = true;
    if (_setjmp(execution) == 0)
        execute();
    x.prints = false;
}

static void explore_all(uint64_t most_states) {
    x.running = -1;
    x.result = (struct model_result){0};
    x.repeats = 0;
    seen_reset();
    do
        execute();
    while (next_execution() && x.result.states < most_states);
    x.result.complete = x.result.states < most_states;
}

struct model_result model_explore(const struct model *model, uint64_t most_states, bool quiet) {
    x.model = model;
    x.running = -1;
    memory_begin(model->shares_stacks);
    model->prepare(model);
    memory_keep();
    if (_setjmp(execution) == 0) {
        explore_all(most_states);
        return x.result;
    }
    x.result.failed = true;
    if (!quiet)
        print_finding();
    return x.result;
}

void model_print(const struct model *model, const struct model_result *result, bool quiet) {
    if (quiet && result->failed)
        printf("%s\n", model->name);
    if (!quiet)
        printf("%-5s %-56s %9llu states %8llu executions%s\n", result->failed ? "FAIL" : "ok", model->name,
               (unsigned long long)result->states, (unsigned long long)result->executions,
               result->complete || result->failed ? "" : "   not all");
    fflush(stdout);
}

/* ---- what threads call ---- */

int explore_thread(void) { return x.running; }

static void look(const struct place *place, int store, bool mutex) {
    struct looks *looks = &x.threads[x.running].looks;
    for (int k = 0; k < looks->count; k++)
        if (looks->look[k].place == place) {
            looks->look[k].store = store;
            return;
        }
    if (looks->count == LOOKS_MAX)
        model_fail("a thread reads more than %d places between two waits", LOOKS_MAX);
    looks->look[looks->count++] = (struct look){place, store, mutex};
}

static void reach(enum kind next, struct place *place) {
    struct thread *thread = &x.threads[x.running];
    thread->next = next;
    thread->place = place;
    to_search();
}

static void remember(const struct place *place, int store) {
    struct thread *thread = &x.threads[x.running];
    thread->trace = memory_mix(thread->trace, (uint64_t)(uintptr_t)place);
    thread->trace = memory_mix(thread->trace, place->stores[store].value);
    thread->trace = memory_mix(thread->trace, (uint64_t)store);
}

int explore_load(struct place *place, bool in_order) {
    x.threads[x.running].in_order = in_order;
    reach(LOAD, place);
    int store = x.threads[x.running].reads;
    look(place, store, false);
    remember(place, store);
    explore_say("loads %s: %lld, store %d of %d", place->name, (long long)place->stores[store].value, store + 1,
                place->count);
    return store;
}

void explore_exchange(struct place *place) {
    reach(EXCHANGE, place);
    look(place, place->count - 1, false);
    remember(place, place->count - 1);
}

void explore_stored(const struct place *place) {
    x.threads[x.running].looks.stored = true;
    explore_say("stores %s: %lld", place->name, (long long)place->stores[place->count - 1].value);
}

void explore_block(struct place *place, bool (*ready)(const void *argument), const void *argument, const char *what) {
    struct thread *thread = &x.threads[x.running];
    thread->ready = ready;
    thread->argument = argument;
    thread->what = what;
    reach(BLOCKED, place);
    thread->trace = memory_mix(thread->trace, (uint64_t)(uintptr_t)what);
    explore_say("goes on: %s", what);
}

void explore_locked(const struct place *mutex) {
    const struct look now = {mutex, 0, true};
    int others = newest_for(x.running, &now);
    look(mutex, others, true);
    x.threads[x.running].trace = memory_mix(x.threads[x.running].trace, (uint64_t)others);
}

void model_turn(void) { x.threads[x.running].trace = 0; }

static bool same(const struct looks *a, const struct looks *b) {
    if (a->stored || a->count != b->count)
        return false;
    for (int k = 0; k < a->count; k++)
        if (a->look[k].place != b->look[k].place || a->look[k].store != b->look[k].store)
            return false;
    return true;
}

void model_wait(void) {
    struct thread *thread = &x.threads[x.running];
    explore_say("waits");
    if (thread->looks.count == 0 && !thread->looks.stored)
        model_fail("thread %d waits, and looks at nothing that could change", x.running);
    if (same(&thread->looks, &thread->vain)) {
        x.given_up = true;
        to_search();
    }
    thread->vain = thread->looks;
    thread->looks.count = 0;
    thread->looks.stored = false;
    thread->waits = true;
}

void explore_say(const char *format, ...) {
    va_list list;
    if (!x.prints || x.running < 0)
        return;
    printf("%*sthread %d ", 4 + 4 * x.running, "", x.running);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
}

void model_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(x.result.text, sizeof(x.result.text), format, list);
    va_end(list);
    explore_say("… %s", x.result.text);
    x.running = -1;
    _longjmp(execution, 1);
}

void model_name(const void *at, uint32_t bytes, const char *format, ...) {
    char name[48];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof(name), format, list);
    va_end(list);
    memory_name(at, bytes, name);
}
