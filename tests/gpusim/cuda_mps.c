/* SPDX-License-Identifier: Apache-2.0
 *
 * MPS: processes that share a GPU use it at the same time. Blocks of one take room from blocks of the others, and a process may be allowed
 * a part of the multiprocessors alone.
 *
 *    GPUSIM_MPS_PERCENT=0     how many of the multiprocessors, in percent, as CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; 0: there is no MPS
 *    GPUSIM_MACHINE=file      what the processes have in common: what each uses of each multiprocessor; needed with MPS
 */
#include "gpusim/machine.h"
#include "gpusim/sim.h"

#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#define PROCESSES_MAX 16
#define SMS_MAX 144

struct process {
    int32_t pid; /* 0: a free row */
    struct gpusim_use uses[SIM_GPUS_MAX][SMS_MAX];
};

static struct process *processes, *self;
static bool lives[PROCESSES_MAX]; /* as of the newest lock */
static int file = -1;

uint64_t sim_mps_percent(void) { return sim_number("GPUSIM_MPS_PERCENT", 0); }

uint32_t sim_mps_sms(void) {
    const uint64_t sms = gpusim_limits()->sms, percent = sim_mps_percent();
    return (uint32_t)(percent == 0 ? sms : (sms * percent + 99) / 100);
}

/* A process that is gone uses nothing. */
static void lock(bool locks) {
    flock(file, locks ? LOCK_EX : LOCK_UN);
    for (int k = 0; k < PROCESSES_MAX && locks; k++)
        lives[k] = processes[k].pid != 0 && kill(processes[k].pid, 0) == 0;
}

static struct gpusim_use others(uint32_t device, uint32_t sm) {
    struct gpusim_use all = {0};
    for (int k = 0; k < PROCESSES_MAX; k++) {
        const struct gpusim_use *use = &processes[k].uses[device][sm];
        if (!lives[k] || &processes[k] == self)
            continue;
        all.blocks += use->blocks;
        all.threads += use->threads;
        all.registers += use->registers;
        all.shared_bytes += use->shared_bytes;
    }
    return all;
}

static void note(uint32_t device, uint32_t sm, struct gpusim_use use) { self->uses[device][sm] = use; }

static void take_row(void) {
    lock(true);
    for (int k = 0; k < PROCESSES_MAX && self == NULL; k++)
        if (!lives[k])
            self = &processes[k];
    if (self != NULL)
        *self = (struct process){.pid = (int32_t)getpid()};
    lock(false);
    if (self == NULL)
        sim_violation("more than %d processes share GPUs", PROCESSES_MAX);
}

void sim_mps_begin(void) {
    static struct gpusim_sharing sharing = {.lock = lock, .others = others, .note = note};
    if (sim_mps_percent() == 0)
        return;
    if (sim_mps_percent() > 100 || gpusim_limits()->sms > SMS_MAX)
        sim_violation("MPS: 100 percent of %d multiprocessors at most", SMS_MAX);
    processes = sim_machine_open(PROCESSES_MAX * sizeof(*processes), &file);
    take_row();
    sharing.most_sms = sim_mps_sms();
    gpusim_share(&sharing);
}
