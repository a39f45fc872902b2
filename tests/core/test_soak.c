/* SPDX-License-Identifier: Apache-2.0
 *
 * A job that goes on and on. Four processes meet in round after round. A seed says what all do in each of them:
 *
 *    round 0      1      2      …      7        8        9     …
 *    random       random random        yardstick random   random
 *      │                                 │
 *      │                                 └─▶ the same calls each time, and then each process says how much memory, how many threads,
 *      │                                     descriptors and mappings it has
 *      └─▶ a communicator over shared memory or tcp: collectives of any kind, type and size, calls on a stream, splits, revokes;
 *          in some rounds a process dies, and the others shrink. Another one takes its place in the next round
 *
 * Every result is compared. Processes 0 and 1 never die, so they show what stays behind. What a process has after a
 * yardstick must be no more than it had after its second one. Only the heap may be larger, by HEAP_SLACK_BYTES in all,
 * for what is made once and late. The C library is told not to keep blocks of its own, which would count.
 *
 *    SOAK_SECONDS=1800 make soak                how long
 *    SOAK_SEED=7 SOAK_FIRST=120 make soak       another seed; from round 120 on: what a round does depends on both numbers alone
 */
#include "collet.h"

#include "common/fair.h"
#include "common/level.h"
#include "common/trial.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 4
#define IMMORTALS 2
#define LAP_ROUNDS 8
#define HANG_S (180 * LEVEL_SLOWER) /* a round that takes longer hangs */
#define INIT_TIMEOUT_S 60 /* a meeting point whose init has failed waits so long for ranks that may still come */
#define SETTLE_S (INIT_TIMEOUT_S + 20) /* so long a process may take to give back what the rounds before had */
#define HEAP_SLACK_BYTES (16u << 10)
#define ELEMS_LOG2_MAX 17

/* What a process has. */
struct holdings {
    long threads, descriptors, mappings; /* mappings: of shared memory */
    size_t heap_bytes;
    long resident_kb;
};

/* What processes and their parent share. */
struct board {
    struct collet_unique_id id;
    int id_ready;
    int met; /* how many have their communicator: nobody dies before all have */
    pthread_barrier_t all_out;
    struct seat {
        uint64_t round; /* 1 + the one that it is to go through … */
        uint64_t ended; /* … and has */
        int measured;   /* yardsticks */
        struct holdings base, now;
        char failure[1200]; /* "": none */
    } seats[PROCESSES];
};

static struct board *board;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* -------------------------------------------------------------------------------------------------- what a round is */

struct plan {
    uint64_t round, seed; /* seed: of everything in it */
    bool yardstick;
    int first;    /* the process that is rank 0; the others follow */
    int nactions; /* of random kinds */
    int victim;   /* a process; −1: none */
    int death_at; /* the action before which it dies */
    const char *transport;
    bool hosts, checksum, selftest; /* hosts: each process has one of its own */
};

static uint64_t number(const struct plan *plan, uint64_t k) { return numbers_hash(plan->seed, 77, k); }

static struct plan plan_of(uint64_t seed, uint64_t round) {
    struct plan plan = {.round = round, .seed = numbers_hash(seed, 78, round), .victim = -1, .transport = ""};
    plan.yardstick = round % LAP_ROUNDS == LAP_ROUNDS - 1;
    if (plan.yardstick)
        plan.seed = 1;
    plan.first = (int)(number(&plan, 0) % PROCESSES);
    plan.nactions = 4 + (int)(number(&plan, 1) % 12);
    plan.hosts = !plan.yardstick && number(&plan, 2) % 2;
    plan.transport = plan.yardstick || number(&plan, 3) % 2 ? "" : number(&plan, 4) % 2 ? "tcp" : "shm,self";
    plan.hosts = plan.hosts && plan.transport[0] != 's';
    plan.checksum = number(&plan, 5) % 2;
    plan.selftest = number(&plan, 6) % 4 == 0;
    if (!plan.yardstick && number(&plan, 7) % 3 == 0)
        plan.victim = IMMORTALS + (int)(number(&plan, 8) % (PROCESSES - IMMORTALS));
    plan.death_at = (int)(number(&plan, 9) % (unsigned)plan.nactions);
    return plan;
}

/* ----------------------------------------------------------------------------------------------------- a process's round */

struct life {
    const struct plan *plan;
    int process;
    struct collet_comm *comm;
    int rank, nranks; /* of comm */
    bool harmed;      /* a call has failed, as it may in a round with a death */
    bool mourned;     /* those that live have shrunk: from now on all must go well */
};

static void fail(const struct life *life, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static void fail(const struct life *life, const char *format, ...) {
    struct seat *seat = &board->seats[life->process];
    va_list list;
    va_start(list, format);
    vsnprintf(seat->failure, sizeof(seat->failure), format, list);
    va_end(list);
    __atomic_store_n(&seat->ended, seat->round, __ATOMIC_RELEASE);
    pause();
    exit(1);
}

/* False: the call has failed because of the death. */
static bool went_well(struct life *life, enum collet_result result, const char *what) {
    if (result == COLLET_SUCCESS)
        return true;
    if (life->plan->victim < 0 || life->mourned || (result != COLLET_ERR_REMOTE && result != COLLET_ERR_ABORTED))
        fail(life, "rank %d of %d: %s: %s", life->rank, life->nranks, what, collet_last_error(NULL));
    life->harmed = true;
    return false;
}

static struct trial_call call_of(const struct life *life, int nranks, uint64_t k) {
    uint64_t dice = number(life->plan, k);
    struct trial_call call = {.nranks = nranks, .seed = dice};
    do
        call.collective = (enum prog_collective)(dice++ % PROG_COLLECTIVE_COUNT);
    while (prog_is_p2p(call.collective));
    call.type = (enum collet_type)(number(life->plan, k + 1) % COLLET_TYPE_COUNT);
    call.op = trial_op(call.type, number(life->plan, k + 2));
    call.count = number(life->plan, k + 3) % (1u << number(life->plan, k + 4) % ELEMS_LOG2_MAX);
    call.root = trial_has_root(call.collective) ? (int)(number(life->plan, k + 5) % (unsigned)nranks) : 0;
    call.in_place = trial_may_be_in_place(call.collective) && number(life->plan, k + 6) % 2;
    return call;
}

/* A collective on a communicator, by its k-th numbers; stream: NULL, or where it is called. */
static bool collective_on(struct life *life, struct collet_comm *comm, int rank, int nranks, uint64_t k,
                          struct collet_stream *stream) {
    struct trial_call call = call_of(life, nranks, k);
    char why[TRIAL_WHY_BYTES] = "", name[TRIAL_NAME_BYTES];
    struct trial trial;
    trial_name(&call, name);
    trial_prepare(&trial, &call, rank);
    bool well = went_well(life, trial_run_in(&trial, comm, stream), name);
    if (well && stream != NULL)
        well = went_well(life, collet_stream_synchronize(stream), name);
    if (well && !trial_check(&trial, why))
        fail(life, "%s is wrong: %s", name, why);
    trial_destroy(&trial);
    return well;
}

static bool act_collective(struct life *life, uint64_t k) {
    return collective_on(life, life->comm, life->rank, life->nranks, k, NULL);
}

static bool act_stream(struct life *life, uint64_t k) {
    struct collet_stream *stream;
    bool well = went_well(life, collet_stream_create(&stream), "collet_stream_create");
    for (uint64_t i = 0; i < 3 && well; i++)
        well = collective_on(life, life->comm, life->rank, life->nranks, k + 10 * i, stream);
    collet_stream_destroy(stream);
    return well;
}

/* A message to the next rank and one from the one before. */
static bool act_messages(struct life *life, uint64_t k) {
    int next = (life->rank + 1) % life->nranks, before = (life->rank + life->nranks - 1) % life->nranks;
    uint64_t sent = number(life->plan, k) + (uint64_t)life->rank, got = 0;
    collet_group_start();
    collet_send(&sent, 1, COLLET_UINT64, next, life->comm, NULL);
    collet_recv(&got, 1, COLLET_UINT64, before, life->comm, NULL);
    if (!went_well(life, collet_group_end(), "messages"))
        return false;
    if (got != number(life->plan, k) + (uint64_t)before)
        fail(life, "a message of rank %d is wrong", before);
    return true;
}

static bool act_split(struct life *life, uint64_t k) {
    struct collet_comm *child = NULL;
    int rank, nranks, color = (int)(number(life->plan, k + (uint64_t)life->rank) % 2);
    if (!went_well(life, collet_comm_split(life->comm, color, life->rank, &child, NULL), "collet_comm_split"))
        return false;
    collet_comm_rank(child, &rank);
    collet_comm_count(child, &nranks);
    bool well = true;
    for (uint64_t i = 1; i < 3 && well; i++)
        well = collective_on(life, child, rank, nranks, k + 10 * i, NULL);
    collet_comm_destroy(child);
    return well;
}

/* All that live go on with a smaller communicator, or with one like it. */
static void shrink(struct life *life, int nranks) {
    struct collet_comm *smaller;
    enum collet_result result = collet_comm_shrink(life->comm, NULL, 0, &smaller, NULL);
    if (result != COLLET_SUCCESS)
        fail(life, "rank %d: collet_comm_shrink: %s", life->rank, collet_last_error(NULL));
    collet_comm_destroy(life->comm);
    life->comm = smaller;
    collet_comm_rank(smaller, &life->rank);
    collet_comm_count(smaller, &life->nranks);
    if (life->nranks != nranks)
        fail(life, "%d ranks go on, not %d", life->nranks, nranks);
}

/* One rank revokes, and the others find out in their next call. */
static bool act_revoke(struct life *life, uint64_t k) {
    if (life->plan->victim >= 0) /* who is to shrink, and when, is up to the death */
        return act_collective(life, k);
    pthread_barrier_wait(&board->all_out); /* nobody is in a call of before, which the revoke would end */
    if (life->rank == (int)(number(life->plan, k) % (unsigned)life->nranks))
        collet_comm_revoke(life->comm);
    else if (collet_barrier(life->comm, NULL) != COLLET_ERR_ABORTED)
        fail(life, "a call on a revoked communicator ends with: %s", collet_last_error(NULL));
    shrink(life, life->nranks);
    return true;
}

static bool act(struct life *life, int action) {
    static bool (*const kinds[])(struct life *, uint64_t) = {act_collective, act_collective, act_collective, act_stream,
                                                             act_messages,   act_split,      act_revoke};
    uint64_t k = 1000 + 100 * (uint64_t)action;
    return kinds[number(life->plan, k) % (sizeof(kinds) / sizeof(kinds[0]))](life, k + 1);
}

static void set_variables(const struct life *life) {
    char host[16];
    snprintf(host, sizeof(host), "host%d", life->process);
    setenv("COLLET_TRANSPORT", life->plan->transport, 1);
    setenv("COLLET_HOSTID", life->plan->hosts ? host : "", 1);
    setenv("COLLET_CHECKSUM", life->plan->checksum ? "1" : "0", 1);
    setenv("COLLET_SELFTEST", life->plan->selftest ? "1" : "0", 1);
}

static void meet(struct life *life) {
    life->rank = (life->process - life->plan->first + PROCESSES) % PROCESSES;
    life->nranks = PROCESSES;
    if (life->rank == 0) {
        if (collet_get_unique_id(&board->id) != COLLET_SUCCESS)
            fail(life, "collet_get_unique_id: %s", collet_last_error(NULL));
        __atomic_store_n(&board->id_ready, 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(&board->id_ready, __ATOMIC_ACQUIRE))
        usleep(200);
    if (collet_comm_init_rank(&life->comm, life->nranks, board->id, life->rank) != COLLET_SUCCESS)
        fail(life, "rank %d: collet_comm_init_rank: %s", life->rank, collet_last_error(NULL));
    __atomic_add_fetch(&board->met, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&board->met, __ATOMIC_RELAXED) < PROCESSES)
        usleep(200);
}

/* With a death: up to the first failure. The last barrier fails on every rank that has not noticed it before. */
static void go_through(struct life *life) {
    bool well = true;
    for (int action = 0; action < life->plan->nactions && well; action++) {
        if (life->process == life->plan->victim && action == life->plan->death_at)
            kill(getpid(), SIGKILL);
        well = act(life, action);
    }
    if (well && life->plan->victim >= 0 && went_well(life, collet_barrier(life->comm, NULL), "the last barrier"))
        fail(life, "a barrier ended without the rank that died");
}

static void go_on_without_the_dead(struct life *life) {
    collet_comm_revoke(life->comm);
    shrink(life, PROCESSES - 1);
    life->mourned = true;
    for (uint64_t k = 0; k < 3; k++)
        act_collective(life, 100000 + 10 * k);
}

static void live(int process, const struct plan *plan) {
    struct life life = {.plan = plan, .process = process};
    set_variables(&life);
    meet(&life);
    go_through(&life);
    if (life.harmed)
        go_on_without_the_dead(&life);
    collet_comm_destroy(life.comm);
}

/* --------------------------------------------------------------------------------------------------------- what it has */

static long entries_of(const char *folder) {
    DIR *dir = opendir(folder);
    long n = 0;
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n - 2; /* . and .. */
}

static struct holdings holdings_now(void) {
    struct holdings h = {.threads = entries_of("/proc/self/task"),
                         .descriptors = entries_of("/proc/self/fd") - 1, /* without that of the folder */
                         .heap_bytes = mallinfo2().uordblks};
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r"), *statm = fopen("/proc/self/statm", "r");
    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
        h.mappings += strstr(line, "memfd:") != NULL;
    if (statm != NULL && fscanf(statm, "%*d %ld", &h.resident_kb) == 1)
        h.resident_kb *= sysconf(_SC_PAGESIZE) / 1024;
    if (maps != NULL)
        fclose(maps);
    if (statm != NULL)
        fclose(statm);
    return h;
}

static bool is_no_more(const struct holdings *now, const struct holdings *base) {
    return now->threads <= base->threads && now->descriptors <= base->descriptors && now->mappings <= base->mappings &&
           now->heap_bytes <= base->heap_bytes + HEAP_SLACK_BYTES;
}

/* Threads end, and the control plane says goodbye, a moment after the round. The first yardstick is for what is made once. */
static void measure(struct life *life) {
    struct seat *seat = &board->seats[life->process];
    const uint64_t deadline_ns = fair_now_ns() + SETTLE_S * 1000000000ull;
    seat->measured++;
    do {
        usleep(seat->measured <= 2 ? 1000000 : 20000);
        seat->now = holdings_now();
    } while (seat->measured > 2 && !is_no_more(&seat->now, &seat->base) && fair_now_ns() < deadline_ns);
    if (seat->measured <= 2)
        seat->base = seat->now;
    const struct holdings *was = &seat->base, *is = &seat->now;
    if (!is_no_more(is, was))
        fail(
            life,
            "process %d had %ld threads, %ld descriptors, %ld mappings, %zu bytes of heap after its second yardstick, and "
            "has %ld, %ld, %ld, %zu after its %dth",
            life->process, was->threads, was->descriptors, was->mappings, was->heap_bytes, is->threads, is->descriptors,
            is->mappings, is->heap_bytes, seat->measured);
}

/* Round after round, as the parent says. */
static void process_main(int process, uint64_t seed) {
    struct seat *seat = &board->seats[process];
    for (;;) {
        while (__atomic_load_n(&seat->round, __ATOMIC_ACQUIRE) == seat->ended)
            usleep(300);
        struct plan plan = plan_of(seed, seat->round - 1);
        struct life life = {.plan = &plan, .process = process};
        live(process, &plan);
        if (plan.yardstick)
            measure(&life);
        __atomic_store_n(&seat->ended, seat->round, __ATOMIC_RELEASE);
    }
}

/* ------------------------------------------------------------------------------------------------------------ the parent */

static pid_t pids[PROCESSES];

static void start(int process, uint64_t seed) {
    struct seat *seat = &board->seats[process];
    memset(seat, 0, sizeof(*seat));
    fflush(NULL);
    if ((pids[process] = fork()) == 0)
        process_main(process, seed);
}

/* The victim has died, or the process has come to the end of the round. */
static bool has_ended(const struct plan *plan, int process, char *failure, size_t room) {
    const struct seat *seat = &board->seats[process];
    int status;
    if (pids[process] == 0)
        return true;
    if (waitpid(pids[process], &status, WNOHANG) == pids[process]) {
        pids[process] = 0;
        if (process != plan->victim || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            snprintf(failure, room, "process %d has ended with status 0x%x", process, (unsigned)status);
        return true;
    }
    if (__atomic_load_n(&seat->ended, __ATOMIC_ACQUIRE) != seat->round)
        return false;
    if (seat->failure[0] != '\0' && failure[0] == '\0')
        snprintf(failure, room, "%s", seat->failure);
    return true;
}

/* False, and why: the soak is over. */
static bool run_round(const struct plan *plan, char *failure, size_t room) {
    const uint64_t deadline_ns = fair_now_ns() + HANG_S * 1000000000ull;
    board->id_ready = board->met = 0;
    for (int process = 0; process < PROCESSES; process++)
        __atomic_store_n(&board->seats[process].round, plan->round + 1, __ATOMIC_RELEASE);
    for (int ended = 0; ended < PROCESSES && failure[0] == '\0';) {
        ended = 0;
        for (int process = 0; process < PROCESSES; process++)
            ended += has_ended(plan, process, failure, room);
        if (ended < PROCESSES && fair_now_ns() > deadline_ns)
            snprintf(failure, room, "%d processes hang for %d s", PROCESSES - ended, HANG_S);
        usleep(500);
    }
    return failure[0] == '\0';
}

static void print_holdings(uint64_t rounds, int deaths, uint64_t begun_ns) {
    printf("%5llu s %7llu rounds %6d deaths |", (unsigned long long)((now_ns() - begun_ns) / 1000000000u),
           (unsigned long long)rounds, deaths);
    for (int process = 0; process < IMMORTALS; process++) {
        const struct holdings *h = &board->seats[process].now;
        printf(" %ld threads %ld descriptors %ld mappings %5zu KiB heap %6ld KiB resident |", h->threads,
               h->descriptors, h->mappings, h->heap_bytes / 1024, h->resident_kb);
    }
    printf("\n");
    fflush(stdout);
}

static uint64_t variable(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
    (void)argc;
    /* What the thread sanitizer is to see is the same each time: other tests show it all. */
    if (LEVEL_WATCHES_THREADS && getenv("SOAK_SECONDS") == NULL)
        return 77;
    if (setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 0) == 0 && getenv("SOAK_AGAIN") == NULL) {
        setenv("SOAK_AGAIN", "1", 1); /* what it is told, it reads when a program begins */
        execv("/proc/self/exe", argv);
    }
    const uint64_t seconds = variable("SOAK_SECONDS", 5), seed = variable("SOAK_SEED", 1), begun_ns = now_ns();
    const uint64_t first = variable("SOAK_FIRST", 0);
    uint64_t round = first, said_ns = 0;
    char failure[1300] = "";
    int deaths = 0;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->all_out, &shared, PROCESSES);
    char init_timeout[16];
    snprintf(init_timeout, sizeof(init_timeout), "%d", INIT_TIMEOUT_S);
    setenv("COLLET_TIMEOUT", "120", 1);
    setenv("COLLET_INIT_TIMEOUT", init_timeout, 1);
    setenv("COLLET_HEARTBEAT_TIMEOUT", "100000", 1); /* a busy machine is no lost host */
    printf("seed %llu, %d processes, of which %d never die; after each %dth round:\n", (unsigned long long)seed,
           PROCESSES, IMMORTALS, LAP_ROUNDS);
    for (int process = 0; process < PROCESSES; process++)
        start(process, seed);
    for (; (now_ns() - begun_ns) / 1000000000u < seconds || round < first + LAP_ROUNDS; round++) {
        struct plan plan = plan_of(seed, round);
        if (!run_round(&plan, failure, sizeof(failure)))
            break;
        if (plan.victim >= 0)
            start(plan.victim, seed);
        deaths += plan.victim >= 0;
        if (plan.yardstick && now_ns() - said_ns > seconds * 1000000000u / 20) {
            print_holdings(round + 1 - first, deaths, begun_ns);
            said_ns = now_ns();
        }
    }
    if (failure[0] != '\0')
        printf("round %llu of seed %llu: %s\n", (unsigned long long)round, (unsigned long long)seed, failure);
    print_holdings(round - first, deaths, begun_ns);
    for (int process = 0; process < PROCESSES; process++)
        if (pids[process] != 0) {
            kill(pids[process], SIGKILL);
            waitpid(pids[process], NULL, 0);
        }
    printf("%d passed, %d failed\n", failure[0] == '\0', failure[0] != '\0');
    return failure[0] != '\0';
}
