/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples share these functions. They start the processes and handle errors. They also print a table: how many bytes did each
 * collective get? The functions are for C and C++.
 *
 *   train_mlp --procs 4          forks four processes on this host; the parent's unique id is all that they need to meet
 *   mpirun -np 4 train_mlp       or srun, torchrun …: collet_comm_init_from_env() reads the launcher's variables
 *   train_mlp                    one rank
 */
#ifndef EXAMPLES_COMMON_JOB_H
#define EXAMPLES_COMMON_JOB_H

#include "collet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* An example prints an error and exits. The other ranks then get an error, too. */
#define CHECK(call) job_check((call), #call)

static inline void job_check(enum collet_result result, const char *call) {
    if (result == COLLET_SUCCESS)
        return;
    fprintf(stderr, "%s: %s: %s\n", call, collet_error_string(result), collet_last_error(NULL));
    exit(1);
}

/* The rows of the table. All ranks have the same rows, so that the ranks can add up their numbers. */
enum tally_row { ALLREDUCE, ALLGATHER, REDUCESCATTER, BROADCAST, SEND, ALLTOALLV, TALLY_ROWS };

struct job {
    struct collet_comm *comm;
    int rank, nranks;
    int64_t calls[TALLY_ROWS], bytes[TALLY_ROWS];
};

/* Forks the processes, and returns in each child. The parent does not return: it waits for the children, and exits with 1 if one of them
 * failed. */
static inline void job_fork(struct job *job, int nprocs) {
    struct collet_unique_id id;
    CHECK(collet_get_unique_id(&id)); /* The ranks meet in the parent, which lives longer than they do */
    for (int rank = 0; rank < nprocs; rank++) {
        pid_t pid = fork();
        if (pid == 0) {
            CHECK(collet_comm_init_rank(&job->comm, nprocs, id, rank));
            return;
        }
        if (pid < 0) {
            perror("fork");
            exit(1);
        }
    }
    int failed = 0;
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    exit(failed);
}

/* Every process that returns from here is one rank of job.comm. */
static inline struct job job_start(int argc, char **argv) {
    struct job job;
    memset(&job, 0, sizeof job);
    int nprocs = argc == 3 && strcmp(argv[1], "--procs") == 0 ? atoi(argv[2]) : 0;
    if (argc > 1 && nprocs < 1) {
        fprintf(stderr, "usage: %s [--procs N]\n", argv[0]);
        exit(2);
    }
    if (nprocs > 0)
        job_fork(&job, nprocs);
    else
        CHECK(collet_comm_init_from_env(&job.comm, NULL));
    CHECK(collet_comm_rank(job.comm, &job.rank));
    CHECK(collet_comm_count(job.comm, &job.nranks));
    return job;
}

/* Counts a call. bytes: the length of this rank's send buffer. */
static inline void job_count(struct job *job, enum tally_row row, size_t bytes) {
    job->calls[row]++;
    job->bytes[row] += (int64_t)bytes;
}

/* Prints the loss of the whole batch, on rank 0. share: this rank's share of the loss. */
static inline void job_print_loss(struct job *job, int step, float share) {
    float loss = 0;
    CHECK(collet_allreduce(&share, &loss, 1, COLLET_FLOAT32, COLLET_SUM, job->comm, NULL));
    job_count(job, ALLREDUCE, sizeof share);
    if (job->rank == 0)
        printf("step %3d  loss %.6f\n", step, (double)loss);
}

static inline void job_print_table(struct job *job) {
    static const char *const names[TALLY_ROWS] = {"allreduce", "allgather", "reducescatter",
                                                  "broadcast", "send",      "alltoallv"};
    CHECK(collet_allreduce(job->calls, job->calls, TALLY_ROWS, COLLET_INT64, COLLET_SUM, job->comm, NULL));
    CHECK(collet_allreduce(job->bytes, job->bytes, TALLY_ROWS, COLLET_INT64, COLLET_SUM, job->comm, NULL));
    if (job->rank != 0)
        return;
    printf("%-14s %8s %12s\n", "collective", "calls", "bytes");
    for (int row = 0; row < TALLY_ROWS; row++)
        if (job->calls[row] > 0)
            printf("%-14s %8lld %12lld\n", names[row], (long long)job->calls[row], (long long)job->bytes[row]);
    printf("(of all ranks together; bytes: what the ranks gave into the calls)\n");
}

/* Ends an example: prints the result of the check against one rank, and the table. Returns main()'s exit status.
 *   difference  the largest difference that this rank found
 *   allowed     the largest difference that is allowed; 0: results must be equal bit for bit */
static inline int job_report(struct job *job, double difference, double allowed) {
    CHECK(collet_allreduce(&difference, &difference, 1, COLLET_FLOAT64, COLLET_MAX, job->comm, NULL));
    int good = difference <= allowed; /* False if `difference` is a NaN */
    if (job->rank == 0 && difference == 0)
        printf("check: the same as one rank computes, bit for bit\n");
    else if (job->rank == 0)
        printf("check: %s one rank computes but for %.1e; allowed is %.1e\n", good ? "what" : "NOT what", difference,
               allowed);
    job_print_table(job);
    return good ? 0 : 1;
}

#endif
