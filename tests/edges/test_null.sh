#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A rank may pass NULL for a buffer that a call of it does not use. An address behind NULL is undefined, also if nobody goes there, and a
# compiler may draw conclusions from it. clang can trap it: rooms that see addresses of buffers are compiled so, the rest is the build's.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

lib=${BUILD:-build}/lib/libcollet-internal.a
clang=${CLANG:-clang}
command -v "$clang" >/dev/null || { echo "clang is not here"; exit 77; }
[ -f "$lib" ] || { echo "the library is not built: $lib"; exit 77; }
! nm "$lib" 2>/dev/null | grep -q ' cudaMalloc$' || { echo "the library is built with CUDA"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/calls.c" <<'END_OF_C'
#include "collet.h"

#include <stdint.h>
#include <stdlib.h>

#define RANKS 3
#define ELEMS 10000
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != COLLET_SUCCESS)                                                                                  \
            exit(1);                                                                                                   \
    } while (0)
#define ALL(call)                                                                                                      \
    do {                                                                                                               \
        TRY(collet_group_start());                                                                                     \
        for (int rank = 0; rank < RANKS; rank++)                                                                       \
            TRY(call);                                                                                                 \
        TRY(collet_group_end());                                                                                       \
    } while (0)

int main(void) {
    static int32_t in[RANKS][RANKS * ELEMS], out[RANKS * ELEMS];
    struct collet_comm *comms[RANKS];
    struct collet_unique_id id;
    TRY(collet_get_unique_id(&id));
    ALL(collet_comm_init_rank(&comms[rank], RANKS, id, rank));
    for (int root = 0; root < RANKS; root++)
        for (size_t n = 1; n <= ELEMS; n *= 100) {
            ALL(collet_barrier(comms[rank], NULL));
            ALL(collet_reduce(in[rank], rank == root ? out : NULL, n, COLLET_INT32, COLLET_SUM, root, comms[rank], NULL));
            ALL(collet_broadcast(rank == root ? out : NULL, in[rank], n, COLLET_INT32, root, comms[rank], NULL));
            ALL(collet_gather(in[rank], rank == root ? out : NULL, n, COLLET_INT32, root, comms[rank], NULL));
            ALL(collet_scatter(rank == root ? out : NULL, in[rank], n, COLLET_INT32, root, comms[rank], NULL));
            ALL(collet_allreduce(NULL, NULL, 0, COLLET_INT32, COLLET_SUM, comms[rank], NULL));
        }
    for (int rank = 0; rank < RANKS; rank++)
        TRY(collet_comm_destroy(comms[rank]));
    return 0;
}
END_OF_C

build() {
    local file
    for file in src/api/*.c src/exec/*.c src/plan/*.c src/layers/memory/*.c "$work/calls.c"; do
        echo "$file" "$work/$(echo "$file" | tr / -).o"
    done | xargs -P 2 -L 1 bash -c '"$0" -std=gnu11 -D_GNU_SOURCE= -O1 -g -ffp-contract=off -fvisibility=hidden -fPIC -pthread \
        -fsanitize=pointer-overflow -fsanitize-trap=pointer-overflow -Iinclude -Isrc -c "$1" -o "$2"' "$clang" || return 1
    # What comes before the library takes the place of what is in it.
    gcc -pthread -o "$work/calls" "$work"/*.o -Wl,--allow-multiple-definition "$lib" -lsodium -lhwloc -lxml2 -ldl -lm
}
buffers_that_are_not_used_may_be_NULL() {
    timeout 60 "$work/calls" || { echo "ended with $?"; return 1; }
}
build >"$work/build.log" 2>&1 || { tail -3 "$work/build.log"; echo "FAIL  it does not build"; exit 1; }
check buffers_that_are_not_used_may_be_NULL buffers_that_are_not_used_may_be_NULL
finish
