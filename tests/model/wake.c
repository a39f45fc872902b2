/* SPDX-License-Identifier: Apache-2.0
 *
 * The model of waiting and waking. Which thread carries the calls of a communicator on host memory (src/api/engine.c,
 * engine_thread.c, base/call_lock.h)?
 *
 *      thread 0            thread 1                   thread 2
 *      a blocking call     a call on a stream, then   collet-engine: sleeps, is woken, drives while nobody else does
 *                          waits, or only looks
 *
 * Each call must be carried to its end, by one thread at a time, whoever drives. If a wake is lost, everybody waits: a deadlock,
 * which is found. Calls move twice, and touch memory without atomics that belongs to the communicator: two drivers would race.
 * A caller's posts are on its stack. If a driver looked at them after they were said to be done, that would race too.
 *
 * Left out are other rooms: plans, connections, failures, memory for posts. They are stood in for below.
 */
#include "api/engine.c"
#include "layers/streams/engine_thread.c"
#include "model.h"

#define CALLS 2 /* of a thread, at most */

struct scenario {
    const char *name;
    int blocking, issued; /* calls of thread 0, of thread 1 */
    bool waits;           /* thread 1 waits for its stream; else it only looks whether the calls are done */
};

static const struct scenario scenarios[] = {
    {"a call on a stream, nobody waits", 0, 1, false},
    {"two calls on a stream, nobody waits", 0, 2, false},
    {"a blocking call and one on a stream", 1, 1, false},
    {"a blocking call, and one on a stream that is waited for", 1, 1, true},
};

struct shared {
    struct collet_comm comm;
    struct engine_thread thread;
    struct lane lanes[4];
    struct chan chan;
    struct exec_program program;
    struct queue stream;
    struct post copies[CALLS];
    int ncopies, ended;    /* threads 0 and 1 that have */
    int moves;             /* of all calls; without atomics: whoever drives counts alone */
    int results[2][CALLS]; /* of blocking calls, of those on the stream: whoever has waited for one reads it */
};
_Static_assert(sizeof(struct shared) <= MODEL_ARENA_BYTES, "all fits");

static struct shared *shared(void) { return (struct shared *)(void *)model_arena; }

/* ---- a call: it begins, moves, and ends ---- */

enum collet_result plan_get(struct planner *planner, const struct exec_request *request, struct exec_call *call) {
    (void)planner, (void)request;
    call->program = &shared()->program;
    call->chan = &shared()->chan;
    call->state = EXEC_CONNECTING;
    call->args_id = 1;
    return COLLET_SUCCESS;
}

enum collet_result exec_call_try(struct exec_call *call, bool *moved) {
    *moved = true;
    shared()->moves++;
    call->state = call->state == EXEC_CONNECTING ? EXEC_RUNNING : EXEC_IDLE;
    if (call->state == EXEC_RUNNING)
        return COLLET_IN_PROGRESS;
    *(int *)(void *)call->args.out = 1;
    return COLLET_SUCCESS;
}

/* ---- waiting ---- */

bool wait_pause_slowly(struct waiter *waiter) {
    (void)waiter;
    model_wait();
    return false;
}

/* ---- rooms that are stood in for ---- */

const struct prog_facts prog_facts[PROG_COLLECTIVE_COUNT];
enum collet_result comm_check_phase(const struct collet_comm *comm) {
    return comm ? COLLET_SUCCESS : COLLET_ERR_INTERNAL;
}
enum collet_result comm_check(const struct collet_comm *comm) { return comm_check_phase(comm); }
bool comm_enter(struct collet_comm *comm) { return comm != NULL; }
void comm_leave(struct collet_comm *comm) { (void)comm; }
enum collet_result boot_check(const struct boot *boot) { return boot ? COLLET_ERR_INTERNAL : COLLET_SUCCESS; }
struct process *process_lock(void) {
    static struct process process;
    return &process;
}
void process_unlock(void) {}
void comm_tell_failure(struct collet_comm *comm) { (void)comm; }
void stream_post_free(struct post *copy) { (void)copy; }
enum collet_result stream_post(struct post *post, uint64_t issue, struct post **copy_p) {
    (void)issue;
    struct post *copy = &shared()->copies[shared()->ncopies++];
    *copy = *post;
    copy->queue = &shared()->stream;
    copy->failure = &shared()->stream.failure;
    copy->place = shared()->stream.issued++;
    *copy_p = copy;
    return COLLET_SUCCESS;
}

unsigned process_forks;
uint64_t os_now_ns(void) { return 0; }

/* ---- threads ---- */

static void prepare(const struct model *model) {
    struct collet_comm *comm = &shared()->comm;
    (void)model;
    comm->magic = COMM_MAGIC;
    comm->phase = COMM_READY;
    comm->nranks = 1;
    for (size_t k = 0; k < sizeof shared()->lanes / sizeof *shared()->lanes; k++)
        shared()->lanes[k].run.args_id = 1; /* all calls are alike: none is told */
    comm->engine.lanes = shared()->lanes;
    comm->engine.busy_end = &comm->engine.busy;
    comm->engine.thread = &shared()->thread;
    shared()->thread.comm = comm;
    model_name(&comm->lock.held, 4, "lock");
    model_name(&comm->engine.incoming, 8, "incoming");
    model_name(&comm->engine.callers, 4, "callers");
    model_name(&comm->engine.driver, 8, "driver");
    model_name(&shared()->stream.done, 8, "calls done of the stream");
}

static struct post call_of(int *result, void *stream) {
    return (struct post){
        .request = {.collective = PROG_ALLREDUCE}, .comm = &shared()->comm, .out = result, .stream = stream};
}

static void expect_result(const int *result) {
    if (*result != 1)
        model_fail("a call is over without its result");
}

static void make_calls(int ncalls, void *stream) {
    for (int k = 0; k < ncalls; k++) {
        int *result = &shared()->results[stream != NULL][k];
        struct post post = call_of(result, stream);
        if (engine_run(&post, 1, stream != NULL) != COLLET_SUCCESS)
            model_fail("a call fails");
        if (stream == NULL)
            expect_result(result);
    }
}

/* As engine_thread_stop() does it. */
static void end_engine_thread(void) {
    struct engine_thread *thread = &shared()->thread;
    SCOPED_LOCK(&thread->lock);
    thread->over = true;
    pthread_cond_signal(&thread->wake);
}

static void wait_for_stream(const struct scenario *scenario) {
    const struct queue *stream = &shared()->stream;
    if (scenario->waits)
        engine_wait(stream, (uint64_t)scenario->issued, &shared()->comm, 0);
    while (!queue_has_come_to(stream, (uint64_t)scenario->issued))
        model_wait();
    for (int k = 0; k < scenario->issued; k++)
        expect_result(&shared()->results[1][k]);
}

static void thread_main(const struct model *model, int number) {
    const struct scenario *scenario = model->facts;
    if (number == 2) {
        engine_thread_main(&shared()->thread);
        return;
    }
    if (number == 0) {
        make_calls(scenario->blocking, NULL);
    } else {
        make_calls(scenario->issued, &shared()->stream);
        wait_for_stream(scenario);
    }
    if (__atomic_add_fetch(&shared()->ended, 1, __ATOMIC_ACQ_REL) == 2)
        end_engine_thread();
}

static void check(const struct model *model) {
    const struct scenario *scenario = model->facts;
    int ncalls = scenario->blocking + scenario->issued;
    if (shared()->moves != 2 * ncalls)
        model_fail("%d calls moved %d times, not twice each", ncalls, shared()->moves);
    if (shared()->comm.lock.held || engine_is_busy(&shared()->comm.engine))
        model_fail("something is left");
}

/* A state is known by all that the threads have read, so there are many. Every mistake that is known shows among the first. */
#define STATES_MOST 30000

/* wake [quick | large] */
int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0, large = argc > 1 && strcmp(argv[1], "large") == 0;
    unsigned long long states = 0;
    int passed = 0, failed = 0;
    for (size_t k = 0; k < sizeof(scenarios) / sizeof(*scenarios) && !(quick && failed); k++) {
        struct model model = {scenarios[k].name, 3, prepare, thread_main, check, &scenarios[k], true};
        struct model_result result = model_explore(&model, large ? UINT64_MAX : STATES_MOST, quick);
        states += result.states;
        failed += result.failed;
        passed += !result.failed;
        model_print(&model, &result, quick);
    }
    if (!quick)
        printf("wake: %llu states\n%d passed, %d failed\n", states, passed, failed);
    return failed != 0;
}
