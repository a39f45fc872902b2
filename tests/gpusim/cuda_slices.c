/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices of time. Without MPS, processes that share a GPU take turns: one has it until it has nothing to do there, or until its slice is
 * over and another one waits.
 *
 *    GPUSIM_SLICE_US=0      how long a slice is, by the GPU's own clock (machine.h); on an H200 it is 2250. 0: processes do not take turns
 *    GPUSIM_MACHINE=file    what the processes of one machine have in common; it is made where it is not there. With MPS (cuda_mps.c)
 *                           it has other contents
 *
 * A file says for each GPU which process has it, which ones wait, and how often it went from one to another: a switch. A process that is
 * gone has nothing.
 */
#include "gpusim/gpusim.h"
#include "gpusim/machine.h"
#include "gpusim/sim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define WAITING_MAX 32

struct turns {
    int32_t owner, last; /* processes; 0: none */
    int32_t waiting[WAITING_MAX];
    uint64_t switches;
};

static struct turns *all; /* by place */
static int file = -1;
static uint64_t slice_ns, switches;

/* ---- the file ---- */

static void say_switches(void) {
    fprintf(stderr, "gpusim: process %d got a GPU from another process %llu times\n", (int)getpid(),
            (unsigned long long)switches);
}

void *sim_machine_open(size_t bytes, int *file_p) {
    const char *name = getenv("GPUSIM_MACHINE");
    *file_p = name == NULL ? -1 : open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*file_p < 0 || ftruncate(*file_p, (off_t)bytes) != 0)
        sim_violation("processes share GPUs by a file that GPUSIM_MACHINE names");
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *file_p, 0);
    if (memory == MAP_FAILED)
        sim_violation("GPUSIM_MACHINE: %s cannot be mapped", name);
    return memory;
}

static void open_machine(void) {
    all = sim_machine_open(SIM_GPUS_MAX * sizeof(struct turns), &file);
    atexit(say_switches);
}

static bool takes_turns(void) {
    static bool is_known;
    if (!is_known && sim_mps_percent() == 0)
        slice_ns = sim_number("GPUSIM_SLICE_US", 0) * 1000;
    if (!is_known && slice_ns > 0)
        open_machine();
    is_known = true;
    return slice_ns > 0;
}

/* ---- turns: with the file locked ---- */

static bool lives(int32_t process) { return process != 0 && kill(process, 0) == 0; }

static void wait_for_turn(struct turns *turns, bool waits) {
    const int32_t self = (int32_t)getpid();
    int32_t *place = NULL;
    for (int k = 0; k < WAITING_MAX; k++) {
        if (turns->waiting[k] == self) {
            turns->waiting[k] = waits ? self : 0;
            return;
        }
        if (place == NULL && !lives(turns->waiting[k]))
            place = &turns->waiting[k];
    }
    if (waits && place == NULL)
        sim_violation("more than %d processes wait for a GPU", WAITING_MAX);
    if (waits)
        *place = self;
}

/* The one that comes behind this process; 0: none waits. */
static int32_t next_of(const struct turns *turns) {
    const int32_t self = (int32_t)getpid();
    int32_t first = 0, next = 0;
    for (int k = 0; k < WAITING_MAX; k++) {
        const int32_t process = turns->waiting[k];
        if (process == self || !lives(process))
            continue;
        if (first == 0 || process < first)
            first = process;
        if (process > self && (next == 0 || process < next))
            next = process;
    }
    return next != 0 ? next : first;
}

static void begin_turn(struct sim_device *device, struct turns *turns) {
    const int32_t self = (int32_t)getpid();
    const bool is_switch = turns->last != 0 && turns->last != self;
    turns->owner = turns->last = self;
    turns->switches += is_switch;
    switches += is_switch;
    wait_for_turn(turns, false);
    device->has_slice = true;
    device->slice_ns = gpusim_clock_ns(device->place);
    gpusim_pause(device->place, false);
}

static void end_turn(struct sim_device *device, struct turns *turns, int32_t next) {
    turns->owner = next;
    device->has_slice = false;
    gpusim_pause(device->place, true);
}

/* Does it want the GPU, and has to wait? */
static bool look_at_turns(struct sim_device *device, struct turns *turns, bool wants) {
    const bool is_over = device->has_slice && gpusim_clock_ns(device->place) - device->slice_ns >= slice_ns;
    if (device->has_slice && !wants)
        end_turn(device, turns, next_of(turns));
    else if (is_over && next_of(turns) != 0)
        end_turn(device, turns, next_of(turns));
    else if (!device->has_slice && wants && (turns->owner == (int32_t)getpid() || !lives(turns->owner)))
        begin_turn(device, turns);
    if (!device->has_slice)
        wait_for_turn(turns, wants);
    if (!device->has_slice && !wants && turns->owner == (int32_t)getpid())
        turns->owner = next_of(turns);
    return wants && !device->has_slice;
}

bool sim_slices_take(bool (*wants)(const struct sim_device *device)) {
    bool waits = false;
    if (!takes_turns())
        return false;
    flock(file, LOCK_EX);
    for (int k = 0; k < sim_device_count(); k++) {
        struct sim_device *device = sim_device(k);
        waits |= look_at_turns(device, &all[device->place], wants(device));
    }
    flock(file, LOCK_UN);
    return waits;
}

bool sim_slice_is_ours(const struct sim_device *device) { return !takes_turns() || device->has_slice; }

uint64_t gpusim_switches(void) {
    sim_lock();
    uint64_t n = switches;
    sim_unlock();
    return n;
}
