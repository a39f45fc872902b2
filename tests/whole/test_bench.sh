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
common=(bench/loop.c bench/board.c src/layers/tuner/on_cpus.c src/layers/tuner/line_probe.c)
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
limit_measures_both_ways() { measures "1 1 1 1 1 1" limit_loop -p -n 3 -s 12300 && measures "1 1 1 1 1 1" limit_loop -p -w -n 3 -s 12300; }

# A library that spoils its input in each call, line by line, and ends the process if it is given one that is spoilt.
spoils() {
    cat >"$scratch/spoil_loop.c" <<'END'
#include "loop.h"
static struct board *board;
static void align(void *state) { (void)state, board_meet(board); }
static void call(void *state, const float *in, float *out, size_t count) {
    for (size_t k = 0; k < count; k += 16) {
        if (in[k] < 0)
            bench_die("the input is that of the last call");
        ((float *)in)[k] = -1;
    }
    (void)state, (void)out;
}
int main(int argc, char **argv) {
    int rank;
    struct loop_options options = loop_options_read(argc, argv);
    const struct loop_library library = {.align = align, .calls = {call}, .unchecked = true};
    board = board_fork(options.nranks, options.pinned, &rank);
    loop_run(&options, &library, board, rank);
    if (rank == 0)
        board_join(board);
    return 0;
}
END
    gcc "${flags[@]}" "$scratch/spoil_loop.c" "${common[@]}" -lm -o "$scratch/spoil_loop" && measures 1 spoil_loop -n 2 -s 4K -c allreduce
}

# One number for each of 3 ranks; and what collet has chosen: algorithm, protocol, channels, chunk, prediction.
samples_tell_switches_and_plans() {
    local out
    out=$("$scratch/collet_loop" -t 1 -n 3 -s 12300 -c broadcast) &&
        grep -qE ' switches=[0-9]+,[0-9]+,[0-9]+ plan=[a-z]+/(Simple|LL|LL128)/1/[0-9]+/[0-9.]+$' <<<"$out" || { echo "$out"; return 1; }
}

only_what_is_asked_for() { measures "1 1" limit_loop -n 2 -s 4K -c reduce,alltoall && ! "$scratch/copy_loop" -c gossip 2>/dev/null; }

# Medians, the best way, the ratio to the fastest peer; limit and registered buffers apart; classes apart.
samples() {
    local base="ranks=2 before_ns=80 after_ns=82 case=shm2 bytes=4096"
    for us in 3 1 2; do
        echo "$base round=1 collective=alltoall class=near library=collet way=default us=$us iterations=$((2 * us)) switches=0,$us"
    done
    cat <<END
$base round=1 collective=alltoall class=near library=collet way=bound us=1.5
$base round=1 collective=alltoall class=near library=collet way=registered us=1.25
$base round=1 collective=alltoall class=near library=limit way=default us=0.5
$base round=1 collective=alltoall class=near library=limit way=push us=0.75
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
        grep -qE '^ *4 K +0\.50 +1\.25 +2\.00 +1\.50 +4\.00 +4\.00 +2\.00 +2\.67 +2\.00 +500 +1$' <<<"$out" &&
        grep -qE '^ *4 K +– +– +7\.00 +7\.00 +– +– +– +– +1$' <<<"$out" && grep -q 'Dropped: 1 of 11 samples' <<<"$out" || { echo "$out"; return 1; }
}

overview_is_right() {
    samples | sed 's/case=shm2/case=shm16/; s/ranks=2/ranks=16/; s/class=far/class=near/' >"$scratch/samples"
    : >"$scratch/facts"
    local out
    out=$(python3 bench/table.py "$scratch/samples" "$scratch/facts" --overview) &&
        grep -q '^Shared memory, 16 ranks' <<<"$out" &&
        grep -qE '^ *alltoall +4 K +0\.50 +2\.50 +1\.50 +1\.25 +4\.00 +2\.67 +500 +1$' <<<"$out" || { echo "$out"; return 1; }
}

# Of three algorithms one was chosen, one was faster, one was tried with another protocol in another round.
candidates_are_compared() {
    {
        samples | sed '/way=bound/s/$/ plan=ring\/Simple\/1\/4096\/1.75/'
        samples | sed -n '/way=bound/{s/way=bound us=1.5/way=candidate1 us=1.00/; s/$/ plan=direct\/LL\/1\/4096\/2.50/p; s/direct/ring/; s/LL/Simple/; s/1.00/1.30/p; s/ring/tree/; s/1.30/4/p}'
    } >"$scratch/samples"
    : >"$scratch/facts"
    local out
    out=$(python3 bench/table.py "$scratch/samples" "$scratch/facts") &&
        grep -q '^candidates: Shared memory, 2 ranks' <<<"$out" &&
        grep -qE '^ *alltoall +4 K +ring Simple +1\.40 +1\.75 +direct LL +1\.00 +1\.40 +3 +1$' <<<"$out" || { echo "$out"; return 1; }
}

# An archive whose loops and mpirun measure nothing, in no time: what is run, with which ranks and sizes, is in its samples.
archive_of_stubs() {
    local library peers=$scratch/stubs/peers
    mkdir -p "$peers"/{loops,openmpi/bin,mpich/bin,impi/bin,oneccl}
    cat >"$peers/loops/collet_loop" <<'STUB'
#!/bin/bash
while getopts n:pRwb:c:s:t: letter; do case $letter in s) sizes=$OPTARG ;; c) calls=$OPTARG ;; esac; done
[ -z "${SLOW:-}" ] || sleep "$SLOW"
for call in ${calls//,/ }; do for size in ${sizes//,/ }; do
    echo "sample collective=$call bytes=${size%[KM]} us=2.5 iterations=9 class=near before_ns=90 after_ns=90 attempts=1 switches=9,0 plan=${COLLET_ALGO:-none}/LL/1/8/1"
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
    for library in openmpi mpich impi oneccl; do
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
    ! grep -q 'so the sizes' "$scratch/out" && grep -q 'Open MPI 9.8, MPICH 9.8, Intel MPI 9.8, oneCCL 9.8' "$scratch/out" && [ "$(grep -c '^Shared memory, [0-9]* ranks' "$scratch/out")" = 3 ] &&
        grep -qE '^ *broadcast +16 +2.50 +2.50 +2.50 +2.50 +2.50 +2.50 +2.50 +2.50 +1.00 +1000 +1$' "$scratch/out" || { cat "$scratch/out"; return 1; }
}

# Each algorithm of each collective in one of three rounds: of six the sixth is only allreduce's.
candidates_are_measured() {
    archive_of_stubs
    printf '%s\n' allreduce\ {ring,tree,oneshot,twoshot,halving,doubling} broadcast\ {chain,tree} >"$scratch/stubs/peers/loops/candidates"
    tar -C "$scratch/stubs" -cf "$scratch/stubs.tar" peers
    (benches --rounds 3 --only shm3 --sizes 8 --candidates --collective allreduce,broadcast) || { cat "$scratch/out"; return 1; }
    local plans
    plans=$(sed -nE 's/.*round=(.).*way=candidate.*collective=([a-z]*).*plan=([^/]*).*/\1 \2 \3/p' "$scratch/bench/bench/samples.txt")
    [ "$plans" = "1 allreduce allreduce:ring,broadcast:chain
1 broadcast allreduce:ring,broadcast:chain
1 allreduce allreduce:tree,broadcast:tree
1 broadcast allreduce:tree,broadcast:tree
2 allreduce allreduce:oneshot
2 allreduce allreduce:twoshot
3 allreduce allreduce:halving
3 allreduce allreduce:doubling" ] || { echo "$plans"; return 1; }
}

few_rounds_are_told() {
    archive_of_stubs && (benches --rounds 2 --only shm2 --sizes 8 --collective reduce) && grep -q '^FEW ROUNDS: 2' "$scratch/out" &&
        (benches --rounds 3 --only shm2 --sizes 8 --collective reduce) && ! grep -q 'FEW ROUNDS' "$scratch/out" || { cat "$scratch/out"; return 1; }
}

# Nine numbers of ranks make 72 runs in a round. Each takes a second, so a minute has no time for all sizes in three rounds.
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
check the_loop_that_only_moves_compiles builds limit
check every_collective_in_the_loop_has_right_results collet_is_right
check a_size_that_ranks_cannot_divide_is_left_out_for_blocks sizes_that_have_no_blocks_are_left_out
check the_loop_measures_the_collectives_that_are_named only_what_is_asked_for
check the_limit_moves_bytes_in_two_ways limit_measures_both_ways
check inputs_are_written_anew_before_each_call spoils
check samples_tell_switches_of_ranks_and_plans samples_tell_switches_and_plans
if command -v python3 >/dev/null; then
    check the_table_has_medians_bests_limits_and_ratios table_is_right
    check the_overview_has_a_table_for_each_number_of_ranks overview_is_right
    check the_table_of_candidates_has_what_the_choice_loses candidates_are_compared
    check each_algorithm_is_measured_in_one_of_three_rounds candidates_are_measured
    check fewer_than_three_rounds_are_told few_rounds_are_told
    check an_archive_of_peers_needs_no_compiler an_archive_is_measured
    check a_limit_of_minutes_that_is_short_leaves_out_sizes minutes_that_do_not_suffice_leave_out_sizes
    check an_archive_that_is_missing_is_named a_missing_archive_is_named
else
    skipped "the_table_has_medians_bests_limits_and_ratios: python3 is not installed"
fi
finish
