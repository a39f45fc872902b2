/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions of the library does a call enter, in which order? This program is linked with a library that was compiled with
 * -O0 -finstrument-functions: nothing is inlined, and each function calls __cyg_profile_func_enter() first.
 *
 *     entered allreduce     a warm allreduce of 2 floats of 2 processes: of many, the one that entered the fewest functions. It waited least
 *     entered init          the creation of their communicator
 *
 * Rank 0 prints the address of each function that its thread entered, in hexadecimal, from the beginning of the program. A function that was
 * entered again has one line. tests/whole/entered.sh turns addresses into names.
 */
#include "collet.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((no_instrument_function))
#define ENTERED_MAX 4096
#define CALLS 2000 /* on a busy machine, few of them wait for nothing */

extern char __executable_start; /* the linker's */
static _Thread_local bool records;
static uintptr_t entered[ENTERED_MAX], fewest[ENTERED_MAX];
static int nentered, nfewest = ENTERED_MAX + 1;

APART void __cyg_profile_func_enter(void *function, void *caller);
APART void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    if (!records)
        return;
    const uintptr_t offset = (uintptr_t)function - (uintptr_t)&__executable_start;
    for (int k = 0; k < nentered; k++)
        if (entered[k] == offset)
            return;
    if (nentered < ENTERED_MAX)
        entered[nentered++] = offset;
}

void __cyg_profile_func_exit(void *function, void *caller) { (void)function, (void)caller; }

APART static void expect(enum collet_result result) {
    if (result == COLLET_SUCCESS)
        return;
    fprintf(stderr, "entered: %s: %s\n", collet_error_string(result), collet_last_error(NULL));
    exit(1);
}

APART static struct collet_comm *join(const struct collet_unique_id *id, int rank) {
    struct collet_comm *comm;
    expect(collet_comm_init_rank(&comm, 2, *id, rank));
    return comm;
}

APART static void add_up(struct collet_comm *comm) {
    const float in[2] = {1, 2};
    float out[2];
    expect(collet_allreduce(in, out, 2, COLLET_FLOAT32, COLLET_SUM, comm, NULL));
    if (out[0] != 2 || out[1] != 4)
        exit(1);
}

APART static void begin(bool wanted) {
    nentered = 0;
    records = wanted;
}

APART static void end(void) {
    if (records && nentered < nfewest)
        memcpy(fewest, entered, sizeof fewest), nfewest = nentered;
    records = false;
}

APART static void run(int rank, const struct collet_unique_id *id, bool of_init) {
    begin(of_init && rank == 0);
    struct collet_comm *comm = join(id, rank);
    end();
    for (int call = 0; call < CALLS; call++) {
        begin(!of_init && rank == 0 && call > CALLS / 2);
        add_up(comm);
        end();
    }
    expect(collet_comm_destroy(comm));
}

APART int main(int argc, char **argv) {
    struct collet_unique_id id;
    int ids[2], status;
    if (argc != 2 || pipe(ids) != 0)
        return 2;
    const bool of_init = strcmp(argv[1], "init") == 0;
    const pid_t other = fork();
    if (other == 0) {
        if (read(ids[0], &id, sizeof id) != sizeof id)
            return 1;
        run(1, &id, of_init);
        return 0;
    }
    expect(collet_get_unique_id(&id));
    if (write(ids[1], &id, sizeof id) != sizeof id)
        return 1;
    run(0, &id, of_init);
    for (int k = 0; k < nfewest; k++)
        printf("%#lx\n", (unsigned long)fewest[k]);
    return waitpid(other, &status, 0) == other && status == 0 ? 0 : 1;
}
