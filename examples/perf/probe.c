/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about the machine that is measured. Speeds through shared memory depend most on the round trip of a cache line between two
 * CPUs. On virtual machines, this time may change by several times from one minute to the next.
 */
#define _GNU_SOURCE
#include "perf.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double far_ns = 220;

double probe_now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double probe_resident_bytes(void) {
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%ld %ld", &total, &resident) != 2)
            resident = 0;
        fclose(file);
    }
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

/* ------------------------------------------------------------------------------------------------------------- card */

static void read_cpu_model(char *model, size_t size) {
    snprintf(model, size, "unknown CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (colon && (strncmp(line, "model name", 10) == 0 || strncmp(line, "Hardware", 8) == 0)) {
            colon[strcspn(colon, "\n")] = '\0';
            snprintf(model, size, "%s", colon + 2);
            break;
        }
    }
    if (file)
        fclose(file);
}

/* Writes the CPUs of a set, for example "0-3,8". */
static void print_cpus(const cpu_set_t *set, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int cpu = 0; cpu < CPU_SETSIZE && used < size; cpu++) {
        if (!CPU_ISSET(cpu, set))
            continue;
        int last = cpu;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        const char *comma = used ? "," : "";
        used += (size_t)(last == cpu ? snprintf(text + used, size - used, "%s%d", comma, cpu)
                                     : snprintf(text + used, size - used, "%s%d-%d", comma, cpu, last));
        cpu = last;
    }
}

void probe_card(struct perf_card *card) {
    memset(card, 0, sizeof(*card));
    card->pid = getpid();
    card->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    gethostname(card->host, sizeof(card->host) - 1);
    read_cpu_model(card->cpu_model, sizeof(card->cpu_model));

    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof(allowed), &allowed);
    card->cpu_count = CPU_COUNT(&allowed);
    print_cpus(&allowed, card->cpus, sizeof(card->cpus));
    card->first_cpu = card->second_cpu = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE && card->second_cpu < 0; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            *(card->first_cpu < 0 ? &card->first_cpu : &card->second_cpu) = cpu;
}

/* ------------------------------------------------------------------------------------------------------- round trip */

enum { TRIPS_PER_SAMPLE = 64, MIN_SAMPLES = 16 };
static const unsigned last_ball = ~0u;

/* Two threads pass a number to and fro in one cache line. Odd numbers are for the partner. */
struct table_tennis {
    _Alignas(128) atomic_uint ball;
    _Alignas(128) int partner_cpu;
};

static bool run_on_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0;
}

static void *partner_main(void *argument) {
    struct table_tennis *game = argument;
    run_on_cpu(game->partner_cpu);
    unsigned ball;
    while ((ball = atomic_load_explicit(&game->ball, memory_order_acquire)) != last_ball)
        if (ball & 1)
            atomic_store_explicit(&game->ball, ball + 1, memory_order_release);
    return NULL;
}

static void play(struct table_tennis *game, int trips) {
    for (int trip = 0; trip < trips; trip++) {
        unsigned ball = atomic_load_explicit(&game->ball, memory_order_relaxed) + 1;
        atomic_store_explicit(&game->ball, ball, memory_order_release);
        while (atomic_load_explicit(&game->ball, memory_order_acquire) == ball) {
        }
    }
}

/* Returns the best sample: if other programs use the CPUs too, all other samples may have been interrupted. */
static double play_for_2_ms(struct table_tennis *game) {
    play(game, TRIPS_PER_SAMPLE); /* After this, the partner is on its CPU */
    double begin = probe_now_s(), now = begin, best_s = 1e9;
    for (int sample = 0; sample < MIN_SAMPLES || now < begin + 2e-3; sample++) {
        double start = now;
        play(game, TRIPS_PER_SAMPLE);
        now = probe_now_s();
        best_s = now - start < best_s ? now - start : best_s;
    }
    return best_s / TRIPS_PER_SAMPLE * 1e9;
}

double probe_round_trip_ns(int cpu_a, int cpu_b) {
    cpu_set_t before;
    pthread_t partner;
    struct table_tennis game = {.partner_cpu = cpu_b};
    sched_getaffinity(0, sizeof(before), &before);
    double round_trip_ns = 0;
    if (run_on_cpu(cpu_a) && pthread_create(&partner, NULL, partner_main, &game) == 0) {
        round_trip_ns = play_for_2_ms(&game);
        atomic_store_explicit(&game.ball, last_ball, memory_order_release);
        pthread_join(partner, NULL);
    }
    sched_setaffinity(0, sizeof(before), &before);
    return round_trip_ns;
}

const char *probe_class(double round_trip_ns) {
    return round_trip_ns <= 0 ? "one CPU" : round_trip_ns < far_ns ? "near" : "far";
}
