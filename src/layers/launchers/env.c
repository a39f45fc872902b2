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
#include "api/group.h"
#include "api/join.h"
#include "base/config_read.h"
#include "base/os.h"
#include "boot/address.h"
#include "layers/launchers/launcher_meeting.h"
#include "layers/launchers/local_meeting.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The names of a launcher's environment variables. NULL: the launcher has no such variable. */
struct launcher {
    const char *name, *rank, *size, *local_size, *nodes, *job, *step;
    /* If these variables are set, they count instead of size and nodes, because a job of Slurm may have more tasks than one of its
     * steps. */
    const char *step_size, *step_nodes;
    bool has_store; /* Each process that it starts is one rank, and may have access to a store of the job */
};

/* The innermost launcher comes first, because torchrun or mpirun may run under Slurm. */
static const struct launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", NULL, "TORCHELASTIC_RUN_ID", NULL, NULL, NULL, false},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL,
     "OMPI_MCA_ess_base_jobid", NULL, NULL, NULL, true},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", NULL, "PMI_JOBID", NULL, NULL, NULL, true},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", NULL, "SLURM_NNODES", "SLURM_JOB_ID", "SLURM_STEP_ID",
     "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES", true},
};

/* Ranks meet at MASTER_PORT + 2, because torch's store listens on MASTER_PORT itself. Why 2, not 1? The kernel gives listeners ports of
 * one parity (even or odd), and outgoing connections ports of the other parity. torchrun gets MASTER_PORT from the kernel, so no
 * outgoing connection is given MASTER_PORT + 2. */
#define DEFAULT_MASTER_PORT 29500
#define PORT_AFTER_MASTER 2

/* Reads a variable that must be a number. believed: the variables from which the bounds follow; "": the bounds are
 * fixed. */
static enum collet_result read_int(const char *variable, long least, long most, const char *believed, int *value) {
    const char *text = config_env(variable);
    if (text == NULL)
        return err_set(COLLET_ERR_INVALID_USAGE, "%s is not set, but the launcher's other variables are", variable);
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < least || number > most)
        return err_set(COLLET_ERR_INVALID_USAGE, "%s is \"%s\": a number from %ld to %ld is needed%s%s", variable, text,
                       least, most, believed[0] ? ", by " : "", believed);
    *value = (int)number;
    return COLLET_SUCCESS;
}

static const struct launcher *launcher_find(void) {
    for (size_t k = 0; k < sizeof(launchers) / sizeof(launchers[0]); k++)
        if (config_env(launchers[k].rank) != NULL || config_env(launchers[k].size) != NULL)
            return &launchers[k];
    return NULL;
}

static const char *value_of(const char *variable) { return variable != NULL ? config_env(variable) : NULL; }

/* Returns `step` if a variable of this name is set, else `job`. */
static const char *variable_of(const char *step, const char *job) { return value_of(step) != NULL ? step : job; }

/* Appends a set variable to the list of variables that are relied on: "WORLD_SIZE=4, MASTER_ADDR=n1". */
static void believe(struct config *config, const char *variable) {
    const size_t used = strlen(config->believed);
    if (value_of(variable) != NULL)
        snprintf(config->believed + used, sizeof config->believed - used, "%s%s=%.60s", used > 0 ? ", " : "", variable,
                 value_of(variable));
}

static bool on_one_host(const struct launcher *l, int nranks) {
    const char *local = value_of(l->local_size);
    const char *nodes = value_of(variable_of(l->step_nodes, l->nodes));
    if (local != NULL)
        return atoi(local) == nranks;
    return nodes != NULL && atoi(nodes) == 1;
}

/* ---- the name of the job, if ranks of one host share nothing else ---- */

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

/* The launcher is the nearest ancestor process that was not launched itself. Shells and debuggers may be between. */
static int launcher_pid(const struct launcher *l) {
    int pid = parent_pid(getpid());
    while (pid > 1 && environment_has(pid, l->rank))
        pid = parent_pid(pid);
    return pid;
}

static void job_name(const struct launcher *l, char *name, size_t room) {
    static int communicators; /* Number of communicators of this process so far, equal on all ranks */
    const char *job = value_of(l->job), *step = value_of(l->step);
    int number = __atomic_fetch_add(&communicators, 1, __ATOMIC_RELAXED);
    if (job != NULL)
        snprintf(name, room, "%.40s.%.16s.%d", job, step != NULL ? step : "", number);
    else
        snprintf(name, room, "launcher-%d.%d", launcher_pid(l), number);
}

/* ---- the meeting point ---- */

/* Reads MASTER_ADDR. An IPv6 address may have the brackets that are usual before a port: [fd00::1]. */
static void master_host(char host[ADDRESS_HOST_BYTES]) {
    const char *text = config_env("MASTER_ADDR");
    const size_t length = strlen(text);
    const bool is_bracketed = length > 2 && text[0] == '[' && text[length - 1] == ']';
    snprintf(host, ADDRESS_HOST_BYTES, "%.*s", (int)(length - 2 * is_bracketed), text + is_bracketed);
}

static enum collet_result master_id(const struct config *config, struct collet_unique_id *id) {
    char secret[CONFIG_TEXT_BYTES + 64], host[ADDRESS_HOST_BYTES];
    const char *run = config_env("TORCHELASTIC_RUN_ID");
    int port = DEFAULT_MASTER_PORT;
    if (config_env("MASTER_PORT") != NULL)
        COLLET_TRY(read_int("MASTER_PORT", 1, 65535 - PORT_AFTER_MASTER, "", &port));
    snprintf(secret, sizeof(secret), "%s/%.60s", config->secret, run != NULL ? run : "");
    master_host(host);
    enum collet_result result = boot_unique_id_at(host, port + PORT_AFTER_MASTER, secret, id);
    sodium_memzero(secret, sizeof(secret));
    return result;
}

static enum collet_result meet(const struct launcher *l, int nranks, int rank, struct config *config,
                               struct collet_unique_id *id) {
    if (config->comm_id[0] != '\0')
        return boot_unique_id(id); /* boot_unique_id() reads COLLET_COMM_ID itself */
    believe(config, "MASTER_ADDR");
    if (config_env("MASTER_ADDR") != NULL) {
        believe(config, "MASTER_PORT");
        return master_id(config, id);
    }
    believe(config, l->local_size);
    believe(config, variable_of(l->step_nodes, l->nodes));
    if (!on_one_host(l, nranks) && l->has_store && launcher_meeting_possible())
        return launcher_meeting(rank, config, id);
    if (!on_one_host(l, nranks))
        return err_set(COLLET_ERR_INVALID_USAGE,
                       "the %s environment names %d ranks on several hosts (%s) but no place to meet: set MASTER_ADDR "
                       "(and MASTER_PORT) or COLLET_COMM_ID=host:port to an address of rank 0's host, or let the "
                       "launcher keep a store (srun --mpi=pmix)",
                       l->name, nranks, config->believed);
    char job[96];
    believe(config, l->job);
    job_name(l, job, sizeof(job));
    COLLET_TRY(boot_hide_name(config->secret, job, sizeof(job)));
    return local_meeting(job, nranks, rank, config, id);
}

static enum collet_result find_id(const struct launcher *l, int *nranks, int *rank, struct config *config,
                                  struct collet_unique_id *id) {
    COLLET_TRY(config_read(config));
    if (l != NULL) {
        const char *size = variable_of(l->step_size, l->size);
        COLLET_TRY(read_int(size, 1, BOOT_RANKS_MAX, "", nranks));
        believe(config, size);
        COLLET_TRY(read_int(l->rank, 0, *nranks - 1, config->believed, rank));
    }
    return *nranks > 1 ? meet(l, *nranks, *rank, config, id) : boot_unique_id(id);
}

enum collet_result collet_comm_init_from_env(struct collet_comm **comm, const struct collet_config *options) {
    struct config config = {.believed = ""};
    struct collet_unique_id id;
    int nranks = 1, rank = 0;
    if (comm == NULL)
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "comm is NULL: pass where the handle goes");
    *comm = NULL;
    COLLET_TRY(find_id(launcher_find(), &nranks, &rank, &config, &id));
    return group_poison(comm_init_rank(comm, nranks, &id, 1, rank, options, config.believed));
}
