#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The timing loop of `make bench-peers` over collet, which checks its own results, the table that is made of samples, and what
# bench-peers.sh does with an archive of peers and with a limit of minutes, with programs that only say that they have measured.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

BUILD=${BUILD:-build}
[ -e "$BUILD/lib/libcollet.a" ] || { echo "$BUILD/lib/libcollet.a is not built"; exit 77; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# Where the library is sanitized, so is what is linked with it.
read -r -a sanitize <<<"$(grep -o -m 1 -- "-fsanitize=[a-z,]*" "$BUILD/flags" | head -n 1)"
flags=(-std=gnu11 -O1 -Wall -Wextra -Werror -pthread "${sanitize[@]}" -Ibench -Iinclude -Isrc)
common=(bench/loop.c bench/board.c src/layers/tuner/two_cpus.c src/layers/tuner/line_probe.c)
builds() { # name libraries…
    gcc "${flags[@]}" "bench/$1_loop.c" "${common[@]}" "${@:2}" -lm -o "$scratch/$1_loop"
}

# So many samples of each collective; every result was checked.
measures() { # samples program arguments…
    local want=$1 out
    out=$(timeout 100 "$scratch/$2" -t 1 "${@:3}" 2>&1) || { echo "$out"; return 1; }
    [ "$(grep -o 'collective=[a-z]*' <<<"$out" | sort | uniq -c | awk '{ printf "%s%d", sep, $1; sep = " " }')" = "$want" ] || { echo "$out"; return 1; }
}

collet_is_right() { measures "2 2 2 2 2 2" collet_loop -n 3 -s 24,12300 && measures "1 1 1 1 1 1" collet_loop -n 2 -s 3M -R; }

# 8 bytes are not a whole float for each of 4 ranks: only collectives of whole buffers remain.
sizes_that_have_no_blocks_are_left_out() { measures "1 1 1" collet_loop -n 4 -s 8; }
only_what_is_asked_for() { measures "1 1" copy_loop -n 2 -s 4K -c reduce,alltoall && ! "$scratch/copy_loop" -c gossip 2>/dev/null; }

# Medians, the best way, the ratio to the fastest peer; limit and registered buffers apart; classes apart.
samples() {
    local base="ranks=2 before_ns=80 after_ns=82 case=shm2 bytes=4096"
    for us in 3 1 2; do
        echo "$base round=1 collective=alltoall class=near library=collet way=default us=$us"
    done
    cat <<END
$base round=1 collective=alltoall class=near library=collet way=bound us=1.5
$base round=1 collective=alltoall class=near library=collet way=registered us=1.25
$base round=1 collective=alltoall class=near library=limit way=default us=0.5
$base round=1 collective=alltoall class=near library=openmpi way=default us=4
$base round=1 collective=alltoall class=near library=openmpi way=copying us=3
$base round=1 collective=alltoall class=far library=collet way=default us=7
$base round=1 collective=alltoall class=busy library=collet way=default us=99
END
}

table_is_right() {
    samples >"$scratch/samples" && : >"$scratch/facts"
    local out
    out=$(python3 bench/table.py "$scratch/samples" "$scratch/facts") &&
        grep -q '^alltoall: Shared memory, 2 ranks.*, near' <<<"$out" && grep -q '^alltoall: .*, far' <<<"$out" &&
        grep -qE '^ *4 K +0\.50 +1\.25 +2\.00 +1\.50 +4\.00 +4\.00 +2\.00 +2\.67 +2\.00 +1$' <<<"$out" &&
        grep -qE '^ *4 K +– +– +7\.00 +7\.00 +– +– +– +1$' <<<"$out" && grep -q 'Dropped: 1 of 10 samples' <<<"$out" || { echo "$out"; return 1; }
}

overview_is_right() {
    samples | sed 's/case=shm2/case=shm16/; s/ranks=2/ranks=16/; s/class=far/class=near/' >"$scratch/samples"
    : >"$scratch/facts"
    local out
    out=$(python3 bench/table.py "$scratch/samples" "$scratch/facts" --overview) &&
        grep -q '^Shared memory, 16 ranks' <<<"$out" &&
        grep -qE '^ *alltoall +4 K +0\.50 +2\.50 +1\.50 +1\.25 +4\.00 +2\.67 +1$' <<<"$out" || { echo "$out"; return 1; }
}

# An archive whose loops and mpirun measure nothing, in no time: what is run, with which ranks and sizes, is in its samples.
archive_of_stubs() {
    local library peers=$scratch/stubs/peers
    mkdir -p "$peers"/{loops,openmpi/bin,mpich/bin,impi/bin}
    cat >"$peers/loops/collet_loop" <<'STUB'
#!/bin/bash
while getopts n:pRb:c:s:t: letter; do case $letter in s) sizes=$OPTARG ;; c) calls=$OPTARG ;; esac; done
[ -z "${SLOW:-}" ] || sleep "$SLOW"
for call in ${calls//,/ }; do for size in ${sizes//,/ }; do
    echo "sample collective=$call bytes=${size%[KM]} us=2.5 iterations=9 class=near before_ns=90 after_ns=90 attempts=1"
done; done
STUB
    # -n RANKS, and then some way to say what is run: the last words from the loop on
    cat >"$peers/mpich/bin/mpirun" <<'STUB'
#!/bin/bash
while [[ $1 != */loops/* ]]; do shift; done
exec "$@"
STUB
    cp "$peers/mpich/bin/mpirun" "$peers/openmpi/bin/"
    cp "$peers/mpich/bin/mpirun" "$peers/impi/bin/"
    chmod +x "$peers"/*/bin/mpirun "$peers/loops/collet_loop"
    for library in openmpi mpich impi; do
        echo 9.8 >"$peers/$library/VERSION"
        cp "$peers/loops/collet_loop" "$peers/loops/${library}_loop"
    done
    cp "$peers/loops/collet_loop" "$peers/loops/limit_loop"
    tar -C "$scratch/stubs" -cf "$scratch/stubs.tar" peers
}

benches() {
    BUILD=$scratch/bench PATH=/usr/bin:/bin exec scripts/bench-peers.sh --archive "$scratch/stubs.tar" "$@" >"$scratch/out" 2>&1
}

an_archive_is_measured() {
    archive_of_stubs && (benches --minutes 1 --rounds 2 --only shm2,shm3,shm16) || { cat "$scratch/out"; return 1; }
    ! grep -q 'so the sizes' "$scratch/out" && grep -q 'Open MPI 9.8, MPICH 9.8, Intel MPI 9.8' "$scratch/out" && [ "$(grep -c '^Shared memory, [0-9]* ranks' "$scratch/out")" = 3 ] &&
        grep -qE '^ *broadcast +16 +2.50 +2.50 +2.50 +2.50 +2.50 +2.50 +2.50 +1.00 +1$' "$scratch/out" || { cat "$scratch/out"; return 1; }
}

# Nine numbers of ranks make 63 runs in a round. Each takes a second, so a minute has no time for all sizes.
minutes_that_do_not_suffice_leave_out_sizes() {
    archive_of_stubs
    : >"$scratch/out"
    SLOW=1 benches --minutes 1 --only shm2,shm3,shm4,shm5,shm6,shm7,shm8,shm9,shm10 &
    local benching=$! patience=200
    until grep -q 'round 1, ' "$scratch/out" || [ $((patience -= 1)) = 0 ]; do sleep 0.2; done
    kill "$benching"
    grep -q 'so the sizes are only 8,.*16M$' "$scratch/out" || { cat "$scratch/out"; return 1; }
}

a_missing_archive_is_named() {
    ! BUILD=$scratch/bench scripts/bench-peers.sh --archive "$scratch/none" 2>"$scratch/out" && grep -q 'there is no such file' "$scratch/out"
}

# shellcheck disable=SC2046 # a list of words
check the_loop_over_collet_compiles builds collet $(make -s BUILD="$BUILD" static-link)
check the_loop_that_only_copies_compiles builds copy
check every_collective_in_the_loop_has_right_results collet_is_right
check a_size_that_ranks_cannot_divide_is_left_out_for_blocks sizes_that_have_no_blocks_are_left_out
check the_loop_measures_the_collectives_that_are_named only_what_is_asked_for
if command -v python3 >/dev/null; then
    check the_table_has_medians_bests_limits_and_ratios table_is_right
    check the_overview_has_a_table_for_each_number_of_ranks overview_is_right
    check an_archive_of_peers_needs_no_compiler an_archive_is_measured
    check a_limit_of_minutes_that_is_short_leaves_out_sizes minutes_that_do_not_suffice_leave_out_sizes
    check an_archive_that_is_missing_is_named a_missing_archive_is_named
else
    skipped "the_table_has_medians_bests_limits_and_ratios: python3 is not installed"
fi
finish
