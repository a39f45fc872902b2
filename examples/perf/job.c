/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes ranks of processes. How their communicator is made depends on who started the processes:
 *
 *   --procs              the unique id comes from the parent, through a pipe
 *   mpirun, torchrun …   the environment describes the job. If each process is one rank, collet needs no more. If processes have
 *                        several ranks, a communicator of the processes broadcasts the unique id of the communicator of all ranks
 *   no launcher          all ranks are in this process
 */
#include "perf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool job_prints(const struct perf_job *job) { return job->team.first_rank == 0; }

/* ---------------------------------------------------------------------------------------------------------- threads */

struct thread {
    pthread_t handle;
    struct perf_job *job;
    struct perf_team team;
    int index;
    job_function *function;
    void *context;
};

static void *thread_main(void *argument) {
    struct thread *thread = argument;
    thread->function(thread->job, &thread->team, thread->index, thread->context);
    return NULL;
}

void job_run_threads(struct perf_job *job, job_function *function, void *context) {
    int count = job->options->threads, gpus = job->options->gpus;
    struct thread *threads = perf_allocate((size_t)count * sizeof(*threads));
    for (int i = count - 1; i >= 0; i--) { /* The caller runs as thread 0, so thread 0 comes last */
        struct perf_team team = {job->team.comms + i * gpus, job->team.first_rank + i * gpus, gpus,
                                 job->team.measured + i * gpus, job->team.streams + i * gpus};
        threads[i] = (struct thread){.job = job, .team = team, .index = i, .function = function, .context = context};
        if (i == 0) {
            thread_main(&threads[0]);
        } else if (pthread_create(&threads[i].handle, NULL, thread_main, &threads[i]) != 0) {
            perror("pthread_create: fewer threads (-t) may help");
            _exit(PERF_FAILED);
        }
    }
    for (int i = 1; i < count; i++)
        pthread_join(threads[i].handle, NULL);
    free(threads);
}

/* ---------------------------------------------------------------------------------------------------- communicators */

static void create_ranks(struct perf_job *job, const struct perf_team *team, int thread, void *id) {
    (void)thread;
    team_group_start(team);
    for (int i = 0; i < team->count; i++) {
        MUST(team->first_rank + i, collet_comm_init_rank, &team->comms[i], job->nranks, *(struct collet_unique_id *)id,
             team->first_rank + i);
    }
    team_group_end(team);
}

static void create_by_id(struct perf_job *job, struct collet_unique_id *id) {
    if (job->options->parallel_init)
        job_run_threads(job, create_ranks, id);
    else
        create_ranks(job, &job->team, 0, id);
}

/* For one rank per process, with or without a launcher. */
static struct collet_comm *create_world(struct perf_job *job) {
    struct collet_comm *world;
    MUST(-1, collet_comm_init_from_env, &world, NULL);
    MUST(-1, collet_comm_count, world, &job->nprocs);
    MUST(-1, collet_comm_rank, world, &job->proc);
    return world;
}

static void create_from_world(struct perf_job *job, struct collet_comm *world) {
    if (job->nprocs == 1 && !job->options->parallel_init) {
        MUST(0, collet_comm_init_all, job->team.comms, job->nranks, NULL);
        return;
    }
    struct collet_unique_id id;
    if (job->proc == 0)
        MUST(0, collet_get_unique_id, &id);
    MUST(job->team.first_rank, collet_broadcast, id.bytes, id.bytes, sizeof(id.bytes), COLLET_UINT8, 0, world, NULL);
    create_by_id(job, &id);
}

/* Makes the communicators that are measured: on host memory these are the existing ones, on GPUs as many new ones. */
static void join_devices(struct perf_job *job) {
    struct perf_team *team = &job->team;
    struct collet_unique_id id = {{0}};
    device_choose(job);
    team->streams = perf_allocate((size_t)team->count * sizeof(*team->streams));
    team->measured = team->comms;
    if (!perf_device)
        return;
    team->measured = perf_allocate((size_t)team->count * sizeof(*team->measured));
    if (team->first_rank == 0)
        MUST(0, collet_get_unique_id, &id);
    struct collet_unique_id *ids = perf_allocate((size_t)job->nranks * sizeof(id));
    struct collet_unique_id *own = perf_allocate((size_t)team->count * sizeof(id));
    own[0] = id;
    team_gather(team, own, sizeof(id), ids, job->nranks);
    MUST(team->first_rank, collet_group_start);
    for (int i = 0; i < team->count; i++) {
        int gpu = device_of(team->first_rank + i);
        struct collet_config config = {.size = sizeof(config), .device = COLLET_DEVICE_CUDA(gpu)};
        perf_device->use(gpu);
        team->streams[i] = perf_device->stream();
        MUST(team->first_rank + i, collet_comm_init_rank_config, &team->measured[i], job->nranks, ids[0],
             team->first_rank + i, &config);
    }
    MUST(team->first_rank, collet_group_end);
    free(ids);
    free(own);
}

void job_join(struct perf_job *job) {
    bool forked = job->id_pipe >= 0;
    struct collet_comm *world = forked ? NULL : create_world(job);

    job->team.count = job->options->threads * job->options->gpus;
    job->team.first_rank = job->proc * job->team.count;
    job->team.comms = perf_allocate((size_t)job->team.count * sizeof(struct collet_comm *));
    job->nranks = job->nprocs * job->team.count;

    if (forked) {
        struct collet_unique_id id;
        procs_receive_id(job, &id);
        create_by_id(job, &id);
    } else if (job->team.count == 1) {
        job->team.comms[0] = world;
    } else {
        create_from_world(job, world);
        MUST(job->team.first_rank, collet_comm_destroy, world);
    }
    join_devices(job);
}

void job_leave(struct perf_job *job) {
    for (int i = 0; perf_device && i < job->team.count; i++)
        MUST(job->team.first_rank + i, collet_comm_destroy, job->team.measured[i]);
    if (perf_device)
        free(job->team.measured);
    free(job->team.streams);
    for (int i = 0; i < job->team.count; i++)
        MUST(job->team.first_rank + i, collet_comm_destroy, job->team.comms[i]);
    free(job->team.comms);
    free(job->cards);
}

/* ---------------------------------------------------------------------------------------------------- introductions */

/* Are the buffers of two ranks in the same memory, of a host or of a GPU? */
static bool share_memory(const struct perf_card *card, const struct perf_card *other) {
    return strcmp(card->host, other->host) == 0 && strcmp(card->gpu.uuid, other->gpu.uuid) == 0;
}

/* Buffers may take three quarters of a memory. Each rank that has its buffers there has two. */
static size_t affordable_bytes(const struct perf_job *job) {
    size_t least = SIZE_MAX;
    for (int rank = 0; rank < job->nranks; rank++) {
        const struct perf_card *card = &job->cards[rank];
        size_t neighbours = 0;
        for (int other = 0; other < job->nranks; other++)
            neighbours += share_memory(card, &job->cards[other]);
        uint64_t memory_bytes = perf_device ? card->gpu.memory_bytes : card->memory_bytes;
        size_t share = memory_bytes / 4 * 3 / (2 * neighbours);
        least = share < least ? share : least;
    }
    return least / 64 * 64;
}

/* Gets the transports from the text by which the library describes a communicator. */
static void ask_for_transports(int rank, struct collet_comm *comm, char text[PERF_TEXT_BYTES]) {
    FILE *file = tmpfile();
    char *line = NULL;
    size_t room = 0;
    if (!file)
        return;
    MUST(rank, collet_comm_dump, comm, fileno(file));
    rewind(file);
    while (getline(&line, &room, file) > 0 && sscanf(line, " transports: %63[^\n]", text) != 1)
        continue;
    free(line);
    fclose(file);
}

void job_introduce(struct perf_job *job) {
    struct perf_card *own = perf_allocate((size_t)job->team.count * sizeof(*own));
    probe_card(own);
    own->gpu.ordinal = -1; /* The rank has no GPU */
    for (int i = 1; i < job->team.count; i++)
        own[i] = own[0];
    for (int i = 0; perf_device && i < job->team.count; i++)
        perf_device->describe(device_of(job->team.first_rank + i), &own[i].gpu);
    for (int i = 0; i < job->team.count; i++)
        ask_for_transports(job->team.first_rank + i, job->team.measured[i], own[i].transports);
    job->cards = perf_allocate((size_t)job->nranks * sizeof(*job->cards));
    team_gather(&job->team, own, sizeof(*own), job->cards, job->nranks);
    free(own);

    size_t affordable = affordable_bytes(job);
    job->min_bytes = job->options->min_bytes < affordable ? job->options->min_bytes : affordable;
    job->max_bytes = job->options->max_bytes < affordable ? job->options->max_bytes : affordable;
}

/* Two CPUs that ranks of rank 0's host use. Both are rank 0's, but if rank 0 is bound to a single CPU, the second is a neighbour's. */
static bool choose_cpus(const struct perf_job *job, int cpus[2]) {
    cpus[0] = job->cards[0].first_cpu;
    cpus[1] = job->cards[0].second_cpu;
    for (int rank = 1; rank < job->nranks && cpus[1] < 0; rank++) {
        const struct perf_card *card = &job->cards[rank];
        if (strcmp(card->host, job->cards[0].host) == 0 && card->first_cpu != cpus[0])
            cpus[1] = card->first_cpu;
    }
    return cpus[1] >= 0;
}

double job_probe(const struct perf_job *job) {
    team_barrier(&job->team);
    double round_trip_ns = 0;
    int cpus[2];
    if (!job_prints(job))
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    else if (choose_cpus(job, cpus))
        round_trip_ns = probe_round_trip_ns(cpus[0], cpus[1]);
    team_barrier(&job->team);
    return round_trip_ns;
}
