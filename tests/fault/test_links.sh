#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A network that ends in the middle of a job, both ways or one way, and with every socket left half open: two hosts with a bridge
# between them that stops to carry packets (bench/slow_link.c). Both ranks end, and say which one they have lost.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
build=${BUILD:-build}
bridge=$build/bench/slow_link
perf=$build/bin/all_reduce_perf
out=$(mktemp)
trap 'rm -f "$out" "$out".[01]' EXIT

[ -x "$bridge" ] && [ "$bridge" -nt bench/slow_link.c ] || make -s --no-print-directory BUILD="$build" "$bridge"
"$bridge" --delay-ms 0 true 2>"$out" || { cat "$out"; exit 77; }

export COLLET_HEARTBEAT=300 COLLET_HEARTBEAT_TIMEOUT=3000 COLLET_TRANSPORT=tcp
# A job without an end, but for that of the network.
both_name_the_other() { # how the network ends
    local status=0 rank
    timeout 60 "$bridge" --delay-ms 0 "$1" 200 bash -c 'exec "$@" >"$0.$RANK" 2>&1' "$out" "$perf" -b 2M -e 2M -n 10000000 -w 1 -c 0 ||
        status=$?
    for rank in 0 1; do
        grep -qE "rank $((1 - rank)) \(host .*(out of reach|died)|the other ranks count this process as lost" "$out.$rank" ||
            { echo "status $status; rank $rank says:"; cat "$out.$rank"; return 1; }
    done
    [ $status != 0 ] && [ $status != 124 ] || { echo "status $status"; return 1; }
}

check a_network_that_ends_is_noticed_by_both_ranks both_name_the_other --cut
check a_network_that_ends_one_way_is_noticed_by_both_ranks both_name_the_other --deaf
finish
