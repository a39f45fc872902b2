/* SPDX-License-Identifier: Apache-2.0
 *
 * --procs N: the program forks itself, so that ranks can be processes without a launcher.
 *
 *   parent ──fork──▶ process 0 … N−1      before any code of collet runs
 *      │ unique id, N copies ──pipe──▶    each process reads one
 *      ╰─ waits; when one process fails, the others get some time to report errors, and then they are ended too
 */
#include "perf.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double grace_s = 10; /* collet notices a dead rank within a few seconds */

static bool started_by_launcher(int count) {
    static const char *const variables[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *size = getenv(variables[i]);
        if (size && atoi(size) > 1) {
            fprintf(stderr, "--procs %d: a launcher has already started %s processes (%s); use one of the two\n", count,
                    size, variables[i]);
            return true;
        }
    }
    return false;
}

static void send_ids(int pipe_end, int count) {
    struct collet_unique_id id;
    MUST(-1, collet_get_unique_id, &id);
    for (int i = 0; i < count; i++)
        if (write(pipe_end, id.bytes, sizeof(id.bytes)) != (ssize_t)sizeof(id.bytes))
            return; /* All readers have gone, and supervise() will say why */
}

void procs_receive_id(const struct perf_job *job, struct collet_unique_id *id) {
    /* Writes of this size are atomic, so each process reads one whole id. */
    if (read(job->id_pipe, id->bytes, sizeof(id->bytes)) != (ssize_t)sizeof(id->bytes))
        _exit(PERF_FAILED); /* The parent has failed, and has said so */
}

static void end_all(const pid_t *pids, int count) {
    for (int proc = 0; proc < count; proc++)
        if (pids[proc] > 0)
            kill(pids[proc], SIGKILL);
}

static int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : PERF_FAILED; }

static void report_failure(int proc, int count, pid_t pid, int status) {
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "process %d of %d (pid %d) was killed by signal %d (%s)\n", proc, count, (int)pid,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != PERF_BAD_RESULTS && WEXITSTATUS(status) != PERF_BAD_USAGE) {
        fprintf(stderr, "process %d of %d (pid %d) ended with exit code %d\n", proc, count, (int)pid,
                WEXITSTATUS(status));
    }
}

/* Waits for all processes. Returns the exit code of the first process that failed. */
static int supervise(pid_t *pids, int count) {
    int exit_code = PERF_OK;
    double deadline = 0;
    for (int left = count; left > 0;) {
        int status;
        pid_t pid = waitpid(-1, &status, exit_code == PERF_OK ? 0 : WNOHANG);
        if (pid == 0) {
            if (probe_now_s() > deadline)
                end_all(pids, count);
            nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
        } else if (pid > 0) {
            int proc = 0;
            while (proc < count && pids[proc] != pid)
                proc++;
            if (proc == count)
                continue; /* The process is not one of these */
            pids[proc] = 0;
            left--;
            if (exit_code_of(status) != PERF_OK && exit_code == PERF_OK) {
                exit_code = exit_code_of(status);
                deadline = probe_now_s() + grace_s;
                report_failure(proc, count, pid, status);
            }
        } else if (errno != EINTR) {
            break;
        }
    }
    return exit_code;
}

bool procs_fork(struct perf_job *job, int count, int *exit_code) {
    *exit_code = PERF_BAD_USAGE;
    if (started_by_launcher(count))
        return false;
    *exit_code = PERF_FAILED;
    int ends[2];
    pid_t *pids = perf_allocate((size_t)count * sizeof(*pids));
    pid_t parent = getpid();
    if (pipe(ends) != 0) {
        perror("pipe");
        return false;
    }
    signal(SIGPIPE, SIG_IGN);
    for (int proc = 0; proc < count; proc++) {
        pids[proc] = fork();
        if (pids[proc] < 0) {
            perror("fork");
            end_all(pids, proc);
            return false;
        }
        if (pids[proc] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(PERF_FAILED); /* The parent died before this process could notice it */
            close(ends[1]);
            free(pids);
            job->proc = proc;
            job->nprocs = count;
            job->id_pipe = ends[0];
            return true;
        }
    }
    close(ends[0]);
    send_ids(ends[1], count);
    close(ends[1]);
    *exit_code = supervise(pids, count);
    free(pids);
    return false;
}
