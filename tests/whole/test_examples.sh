#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every example that trains, on 1 to 4 processes: what the ranks compute together is what one rank computes, the loss falls, and the
# table says what was moved.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

bin=${BUILD:-build}/bin
procs="1 2 3 4"
[ "${COLLET_TEST_LEVEL:-normal}" != fast ] || procs="2 3"

# The examples with what their tables must show. Up to so many ranks they must be equal bit for bit: sums have one
# order there.
examples() {
    cat <<'END'
train_mlp       2      allreduce broadcast
train_sharded   2      allgather reducescatter
pipeline        4      send
tensor_parallel 1      allreduce
moe_alltoallv   4      allgather alltoallv
kmeans          4      allreduce
END
}

for example in overlap_host elastic_mlp $(examples | cut -d' ' -f1); do
    [ -x "$bin/$example" ] || { echo "$example is not built in $bin"; exit 77; }
done

falls() { # a number per line: the last is less than the first
    awk 'NR == 1 { first = $1 } { last = $1 } END { if (!(NR > 1 && last < first * 3 / 4)) { print "from " first " to " last; exit 1 } }'
}

agrees() { # example, ranks up to which it is exact, number of processes, collectives…
    local example=$1 exact=$2 n=$3 output collective
    shift 3
    output=$(timeout 60 "$bin/$example" --procs "$n" 2>&1) || { echo "$output"; return 1; }
    sed -nE 's/.*(loss|distance) //p' <<<"$output" | falls || return 1
    [ "$n" -gt "$exact" ] || grep -qx 'check: the same as one rank computes, bit for bit' <<<"$output" ||
        { echo "$output"; return 1; }
    grep -q '^check: \(the same as\|what\) one rank computes' <<<"$output" || { echo "$output"; return 1; }
    for collective in "$@"; do
        [ "$n" = 1 ] || grep -qE "^$collective +[1-9][0-9]* +[1-9]" <<<"$output" || { echo "no row $collective in:"; echo "$output"; return 1; }
    done
}

# Sums on a stream are those of blocking calls, and the table has a row for each case. How much is hidden, the machine decides.
overlaps() {
    local output
    output=$(timeout 60 "$@" 2>&1) || { echo "$output"; return 1; }
    [ "$(grep -c ' % of the communication hidden$' <<<"$output")" = 2 ] &&
        grep -qx 'check: the sums are bit for bit those of blocking calls' <<<"$output" || { echo "$output"; return 1; }
}

# A packet takes 25 ms here, so a barrier cannot be faster, on whatever machine.
link_is_slow() {
    local us
    us=$(timeout 60 "$slow_link" --delay-ms 25 "$bin/all_reduce_perf" -b 8 -e 8 -n 2 -w 1 | awk '!/^#/ && NF > 5 { print int($6) }')
    [ "${us:-0}" -ge 25000 ] || { echo "an allreduce took $us us"; return 1; }
}

# As torchrun starts it: what --procs forks is not needed.
trains_under_a_launcher() {
    local rank pids=()
    local job=(env WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)))
    for rank in 0 1; do
        "${job[@]}" RANK=$rank timeout 60 "$bin/train_mlp" &
        pids+=($!)
    done
    wait "${pids[0]}" && wait "${pids[1]}"
}

# Ranks are killed, rank 0 too, and two in the same step. The last line of rank 0 says that the bits of all are equal.
trains_on() { # how many are left, number of processes, RANK@STEP…
    local left=$1 output
    shift
    output=$(timeout 120 "$bin/elastic_mlp" "$@" 2>&1) || { echo "$output"; return 1; }
    sed -nE 's/.*loss ([0-9.]+) .*/\1/p' <<<"$output" | falls || { echo "$output"; return 1; }
    grep -qx "check: the $left ranks that are left agree, bit for bit" <<<"$output" || { echo "$output"; return 1; }
}

# Four ways, each of which ends with every byte in its place.
moves_blocks() {
    local transport output
    for transport in "" tcp; do
        output=$(COLLET_TRANSPORT=$transport timeout 60 "$bin/kv_perf" --procs 2 --blocks 1000 --block 1000 2>&1) || { echo "$output"; return 1; }
        [ "$(grep -cE ' [0-9.]+ +[0-9.]+ +0$' <<<"$output")" = 4 ] || { echo "$output"; return 1; }
    done
    ! "$bin/kv_perf" --procs 3 2>/dev/null && "$bin/kv_perf" --blocks x 2>&1 | grep -q '^usage: kv_perf'
}

says_how_it_is_used() {
    "$bin/pipeline" --procs 0 2>&1 | grep -q '^usage: .*pipeline \[--procs N\]' && ! "$bin/pipeline" 4 2>/dev/null
}

while read -r example exact collectives; do
    for n in $procs; do
        # shellcheck disable=SC2086 # a list of words
        check "${example}_on_${n}_ranks_computes_what_one_rank_does" agrees "$example" "$exact" "$n" $collectives
    done
done < <(examples)
for n in $procs; do
    check "overlap_host_on_${n}_ranks_sums_on_a_stream_as_blocking_calls_do" overlaps "$bin/overlap_host" --procs "$n"
done
check elastic_mlp_trains_on_when_a_rank_is_killed trains_on 3 4 1@30
check elastic_mlp_trains_on_when_rank_0_and_then_two_more_are_killed trains_on 2 5 0@10 4@50 1@50
slow_link=${BUILD:-build}/bench/slow_link
if make -s BUILD="${BUILD:-build}" CUDA=0 "$slow_link" && "$slow_link" true; then
    check a_slow_link_is_slow link_is_slow
    check overlap_host_over_a_slow_link_sums_as_blocking_calls_do overlaps "$slow_link" --delay-ms 1 "$bin/overlap_host"
else
    skipped "network namespaces with a tun device are not permitted here"
fi
check an_example_runs_under_a_launcher trains_under_a_launcher
check kv_perf_moves_blocks_in_four_ways moves_blocks
check a_command_line_that_is_wrong_gets_the_right_one says_how_it_is_used
finish
