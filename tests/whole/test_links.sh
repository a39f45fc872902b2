#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A network that ends in the middle of a job, both ways or one way, and with every socket left half open: two hosts with a bridge
# between them that stops to carry packets (bench/slow_link.c). All ranks end in time, and say whom they have lost.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
build=${BUILD:-build}
bridge=$build/bench/slow_link
perf=$build/bin/all_reduce_perf
out=$(mktemp)
trap 'rm -f "$out" "$out".[0-7]' EXIT

[ -x "$bridge" ] && [ "$bridge" -nt bench/slow_link.c ] || make -s --no-print-directory BUILD="$build" "$bridge"
"$bridge" --delay-ms 0 true 2>"$out" || { cat "$out"; exit 77; }

export COLLET_HEARTBEAT=300 COLLET_HEARTBEAT_TIMEOUT=3000 COLLET_TRANSPORT=tcp
# A job without an end, but for that of the network.
both_name_the_other() { # how the network ends
    local status=0 rank
    timeout 60 "$bridge" --delay-ms 0 "$1" 200 bash -c 'exec "$@" >"$0.$RANK" 2>&1' "$out" "$perf" -b 2M -e 2M -n 10000000 -w 1 -c 0 ||
        status=$?
    for rank in 0 1; do
        grep -qE "rank $((1 - rank)) \(host .*(out of reach|died|does not answer)|the other ranks count this process as lost" "$out.$rank" ||
            { echo "status $status; rank $rank says:"; cat "$out.$rank"; return 1; }
    done
    [ $status != 0 ] && [ $status != 124 ] || { echo "status $status"; return 1; }
}

# Four processes on each host are lost in the time of one, here 7 s; and 11 s for a busy machine. One after the other took 32 s.
the_processes_of_a_host_are_lost_together() {
    local rank ms limit_ms=6000
    COLLET_HEARTBEAT_TIMEOUT=$limit_ms timeout 60 "$bridge" --delay-ms 0 --cut 200 bash -c 'host=$RANK
        export WORLD_SIZE=8
        for ((rank = 4 * host; rank < 4 * host + 4; rank++)); do RANK=$rank "$@" >"$0.$rank" 2>&1 & done
        wait' "$out" "$perf" -b 2M -e 2M -n 10000000 -w 1 -c 0 2>"$out" || { echo "status $?"; return 1; }
    for rank in {0..7}; do
        grep -qE "rank [$((rank < 4 ? 4 : 0))-$((rank < 4 ? 7 : 3))] \(host .*(out of reach|died|does not answer)|the other ranks count this process as lost" \
            "$out.$rank" || { echo "rank $rank says:"; cat "$out.$rank"; return 1; }
    done
    ms=$(sed -n 's/.*ended \([0-9]*\) ms after the link$/\1/p' "$out")
    echo "all ranks have ended ${ms:=none} ms after the link"
    [ "$ms" -lt $((3 * limit_ms)) ]
}

check a_network_that_ends_is_noticed_by_both_ranks both_name_the_other --cut
check a_network_that_ends_one_way_is_noticed_by_both_ranks both_name_the_other --deaf
check the_processes_of_a_host_are_lost_together the_processes_of_a_host_are_lost_together
finish
