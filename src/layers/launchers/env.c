/* SPDX-License-Identifier: Apache-2.0
 *
 * collet_comm_init_from_env: what a launcher says in the environment → rank, size and a meeting point.
 *
 *    meeting point, the first that applies:   COLLET_COMM_ID   host:port, given by the user
 *                                             MASTER_ADDR      and MASTER_PORT + 2: torchrun's and many scripts'
 *                                             one host         the launcher's job id names a Unix socket
 *                                             several hosts    the launcher's store (PMI-1, PMIx)
 */
#include "api/comm.h"
#include "base/config.h"
#include "base/os.h"
#include "layers/launchers/launcher_meeting.h"
#include "layers/launchers/local_meeting.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How a launcher spells things; NULL where it has no word for it. */
struct launcher {
    const char *name, *rank, *size, *local_size, *nodes, *job, *step;
    bool has_store; /* a process that it starts is a rank of its own, and may find a store of its job */
};

/* The innermost launcher first: torchrun or mpirun may themselves run under Slurm. */
static const struct launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", NULL, "TORCHELASTIC_RUN_ID", NULL, false},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL,
     "OMPI_MCA_ess_base_jobid", NULL, true},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, "PMI_JOBID", NULL, true},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", NULL, "SLURM_NNODES", "SLURM_JOB_ID", "SLURM_STEP_ID", true},
};

/* MASTER_PORT itself is where torch's store listens. torchrun takes a port that the kernel gives to listeners; Linux gives
 * those of the other parity to outgoing connections, which would be in the way. */
#define DEFAULT_MASTER_PORT 29500
#define PORT_AFTER_MASTER 2

static enum collet_result read_int(const char *variable, long least, long most, int *value) {
    const char *text = config_env(variable);
    if (text == NULL)
        return err_set(COLLET_ERR_INVALID_USAGE, "%s is not set, but the launcher's other variables are", variable);
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < least || number > most)
        return err_set(COLLET_ERR_INVALID_USAGE, "%s is \"%s\": a number from %ld to %ld is needed", variable, text,
                       least, most);
    *value = (int)number;
    return COLLET_SUCCESS;
}

static const struct launcher *launcher_find(void) {
    for (size_t k = 0; k < sizeof(launchers) / sizeof(launchers[0]); k++)
        if (config_env(launchers[k].rank) != NULL || config_env(launchers[k].size) != NULL)
            return &launchers[k];
    return NULL;
}

static bool on_one_host(const struct launcher *l, int nranks) {
    const char *local = l->local_size != NULL ? config_env(l->local_size) : NULL;
    const char *nodes = l->nodes != NULL ? config_env(l->nodes) : NULL;
    if (local != NULL)
        return atoi(local) == nranks;
    return nodes != NULL && atoi(nodes) == 1;
}

/* ---- the name of the job, where ranks of one host have nothing else ---- */

static int parent_pid(int pid) {
    char path[64], line[128];
    int parent = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    FILE *file = os_fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "PPid: %d", &parent) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return parent;
}

static bool environment_has(int pid, const char *variable) {
    char path[64];
    char *entry = NULL;
    size_t room = 0, length = strlen(variable);
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/environ", pid);
    FILE *file = os_fopen(path, "re");
    while (file != NULL && !found && getdelim(&entry, &room, '\0', file) > 0)
        found = strncmp(entry, variable, length) == 0 && entry[length] == '=';
    free(entry);
    if (file != NULL)
        fclose(file);
    return found;
}

/* The launcher's process is the nearest ancestor that was not itself launched: shells and debuggers may stand between. */
static int launcher_pid(const struct launcher *l) {
    int pid = parent_pid(getpid());
    while (pid > 1 && environment_has(pid, l->rank))
        pid = parent_pid(pid);
    return pid;
}

static void job_name(const struct launcher *l, char *name, size_t room) {
    static int communicators; /* of this process so far: all ranks count alike */
    const char *job = l->job != NULL ? config_env(l->job) : NULL;
    const char *step = l->step != NULL ? config_env(l->step) : NULL;
    int number = __atomic_fetch_add(&communicators, 1, __ATOMIC_RELAXED);
    if (job != NULL)
        snprintf(name, room, "%.40s.%.16s.%d", job, step != NULL ? step : "", number);
    else
        snprintf(name, room, "launcher-%d.%d", launcher_pid(l), number);
}

/* ---- the meeting point ---- */

static enum collet_result master_id(const struct config *config, struct collet_unique_id *id) {
    char secret[CONFIG_TEXT_BYTES + 64];
    const char *run = config_env("TORCHELASTIC_RUN_ID");
    int port = DEFAULT_MASTER_PORT;
    if (config_env("MASTER_PORT") != NULL)
        COLLET_TRY(read_int("MASTER_PORT", 1, 65535 - PORT_AFTER_MASTER, &port));
    snprintf(secret, sizeof(secret), "%s/%.60s", config->secret, run != NULL ? run : "");
    enum collet_result result = boot_unique_id_at(config_env("MASTER_ADDR"), port + PORT_AFTER_MASTER, secret, id);
    sodium_memzero(secret, sizeof(secret));
    return result;
}

static enum collet_result meet(const struct launcher *l, int nranks, int rank, struct collet_unique_id *id) {
    struct config config;
    COLLET_TRY(config_read(&config));
    if (config.comm_id[0] != '\0')
        return boot_unique_id(id); /* reads COLLET_COMM_ID itself */
    if (config_env("MASTER_ADDR") != NULL)
        return master_id(&config, id);
    if (!on_one_host(l, nranks) && l->has_store && launcher_meeting_possible())
        return launcher_meeting(rank, (int)config.init_timeout, id);
    if (!on_one_host(l, nranks))
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "the %s environment names %d ranks on several hosts but no place to meet: set MASTER_ADDR (and "
                       "MASTER_PORT) or COLLET_COMM_ID=host:port to an address of rank 0's host, or let the launcher "
                       "keep a store (srun --mpi=pmix)",
                       l->name, nranks);
    char job[96];
    job_name(l, job, sizeof(job));
    COLLET_TRY(boot_hide_name(config.secret, job, sizeof(job)));
    return local_meeting(job, nranks, rank, (int)config.init_timeout, id);
}

enum collet_result collet_comm_init_from_env(struct collet_comm **comm, const struct collet_config *config) {
    const struct launcher *l = launcher_find();
    struct collet_unique_id id;
    int nranks = 1, rank = 0;
    if (comm == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "comm is NULL: pass where the handle goes");
    *comm = NULL;
    if (l != NULL) {
        COLLET_TRY(read_int(l->size, 1, BOOT_RANKS_MAX, &nranks));
        COLLET_TRY(read_int(l->rank, 0, nranks - 1, &rank));
    }
    if (nranks > 1)
        COLLET_TRY(meet(l, nranks, rank, &id));
    else
        COLLET_TRY(boot_unique_id(&id));
    return collet_comm_init_rank_config(comm, nranks, id, rank, config);
}
