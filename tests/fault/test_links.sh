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
trap 'rm -f "$out"' EXIT

[ -x "$bridge" ] || make -s --no-print-directory BUILD="$build" "$bridge"
"$bridge" --delay-ms 0 true 2>"$out" || { cat "$out"; exit 77; }

export COLLET_HEARTBEAT=300 COLLET_HEARTBEAT_TIMEOUT=3000 COLLET_TRANSPORT=tcp
# A job without an end, but for that of the network.
both_name_the_other() { # how the network ends
    local status=0 lines
    timeout 60 "$bridge" --delay-ms 0 "$1" 200 "$perf" -b 2M -e 2M -n 10000000 -w 1 -c 0 >"$out" 2>&1 || status=$?
    lines=$(grep -cE 'rank [01] \(host .*(out of reach|died)|the other ranks count this process as lost' "$out")
    [ $status != 0 ] && [ $status != 124 ] && [ "$lines" -ge 2 ] || { echo "status $status, $lines lines"; cat "$out"; return 1; }
}

check a_network_that_ends_is_noticed_by_both_ranks both_name_the_other --cut
check a_network_that_ends_one_way_is_noticed_by_both_ranks both_name_the_other --deaf
finish
