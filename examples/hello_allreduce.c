/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest program with a collective: every rank gives its number, and all get the sum.
 *
 *   mpirun -np 4 hello_allreduce
 *   for r in 0 1 2 3; do RANK=$r WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 hello_allreduce & done; wait
 *   hello_allreduce                  one rank, which waits for no other
 */
#include "collet.h"

#include <stdio.h>
#include <stdlib.h>

static void check(enum collet_result result) {
    if (result != COLLET_SUCCESS) {
        fprintf(stderr, "%s: %s\n", collet_error_string(result), collet_last_error(NULL));
        exit(1);
    }
}

int main(void) {
    struct collet_comm *comm;
    int rank, nranks;
    /* The environment says which rank this is, how many there are, and where they meet. */
    check(collet_comm_init_from_env(&comm, NULL));
    check(collet_comm_rank(comm, &rank));
    check(collet_comm_count(comm, &nranks));

    float mine = (float)(rank + 1), sum;
    check(collet_allreduce(&mine, &sum, 1, COLLET_FLOAT32, COLLET_SUM, comm, NULL));

    printf("hello from rank %d of %d: I gave %g, all of us together %g\n", rank, nranks, mine, sum);
    check(collet_comm_destroy(comm));
    return sum == (float)(nranks * (nranks + 1) / 2) ? 0 : 1;
}
