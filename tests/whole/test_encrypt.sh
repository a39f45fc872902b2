#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# COLLET_ENCRYPT: two hosts with a bridge between them that listens, or flips bits (bench/slow_link.c).
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
build=${BUILD:-build}
bridge=$build/bench/slow_link
work=$(mktemp -d)
out=$work/out
trap 'rm -rf "$work"' EXIT

[ -x "$bridge" ] && [ "$bridge" -nt bench/slow_link.c ] || make -s --no-print-directory BUILD="$build" "$bridge"
"$bridge" --delay-ms 0 true 2>"$out" || { cat "$out"; exit 77; }

export COLLET_HEARTBEAT_TIMEOUT=60000 # whatever else this machine does

# Broadcasts a text, again and again, from buffers that are lent and from slots.
cat >"$work/secret.c" <<'END'
#include "collet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static const char text[] = "attack at dawn, ";
static struct collet_comm *comm;
static void check(enum collet_result result) {
    if (result == COLLET_SUCCESS)
        return;
    fprintf(stderr, "%s\n", collet_last_error(NULL));
    collet_comm_abort(comm);
    exit(1);
}
int main(void) {
    static char buffer[1 << 20];
    int rank, one = 1, sum;
    check(collet_comm_init_from_env(&comm, NULL));
    check(collet_comm_rank(comm, &rank));
    for (size_t bytes = 16; bytes <= sizeof buffer; bytes *= 4)
        for (int times = 0; times < 3; times++) {
            for (size_t k = 0; k < bytes; k++)
                buffer[k] = rank == 0 ? text[k % 16] : 0;
            check(collet_broadcast(buffer, buffer, bytes, COLLET_UINT8, 0, comm, NULL));
            for (size_t k = 0; k < bytes; k++)
                if (buffer[k] != text[k % 16])
                    return 2;
            check(collet_allreduce(&one, &sum, 1, COLLET_INT32, COLLET_SUM, comm, NULL)); /* both have it */
        }
    check(collet_comm_destroy(comm));
    return 0;
}
END
${CC:-gcc} -Iinclude "$work/secret.c" -o "$work/secret" -L"$build/lib" -lcollet -Wl,-rpath,"$(realpath "$build/lib")" || exit 1

# job VARIABLE… -- OPTION…: the exit status of the program over the bridge.
job() {
    local variables=() status=0
    while [ "$1" != -- ]; do variables+=("$1"); shift; done
    timeout 100 env "${variables[@]}" "$bridge" --delay-ms 0 "${@:2}" "$work/secret" >"$out" 2>&1 || status=$?
    return $status
}
seen() { sed -nE 's/.*"attack at dawn" was seen in ([0-9]+) of ([0-9]+) long packets.*/\1 \2/p' "$out"; }

without_it_the_data_are_read() {
    job COLLET_ENCRYPT=0 -- --sniff "attack at dawn" || { cat "$out"; return 1; }
    set -- $(seen)
    [ "$1" -gt 50 ]
}
nobody_reads_the_data() {
    job COLLET_ENCRYPT=1 "$@" -- --sniff "attack at dawn" || { cat "$out"; return 1; }
    set -- $(seen)
    [ "$1" = 0 ] && [ "$2" -gt 50 ] || { cat "$out"; return 1; }
}
a_bit_that_flips_ends_both_ranks() {
    ! job COLLET_ENCRYPT=1 -- --flip 9 && [ "$(grep -cE 'data changed on the way from rank 0 .* by tcp, socket [0-9]+ of [0-9]+, 10\.77\.9\.[12]:[0-9]+ to 10\.77\.9\.[12]:[0-9]+ by slow: slot [0-9]+, its seal does not fit \(COLLET_ENCRYPT\)' "$out")" = 2 ] ||
        { cat "$out"; return 1; }
}
what_does_not_encrypt_is_not_used() {
    ! job COLLET_ENCRYPT=1 COLLET_TRANSPORT=verbs -- && grep -q 'not verbs: it does not encrypt (COLLET_ENCRYPT); not tcp: not in COLLET_TRANSPORT' "$out" ||
        { cat "$out"; return 1; }
}

check without_it_the_data_are_read_on_the_way without_it_the_data_are_read
check with_it_nobody_reads_the_data nobody_reads_the_data
check checksums_and_self_tests_go_with_it nobody_reads_the_data COLLET_CHECKSUM=1 COLLET_SELFTEST=1
check a_proxy_encrypts_too nobody_reads_the_data COLLET_PROXY=1
check a_bit_that_flips_ends_both_ranks_with_the_link_named a_bit_that_flips_ends_both_ranks
check what_does_not_encrypt_is_not_used what_does_not_encrypt_is_not_used
finish
