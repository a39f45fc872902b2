#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collet-sim and collet-topo --explain as programs: what they take, what they print, how long they take.
cd "$(dirname "$0")/../../.." || exit 1
. tests/common/cases.sh

sim=${BUILD:-build}/bin/collet-sim
topo=${BUILD:-build}/bin/collet-topo
pairs=tests/layers/topology/topo/switched_pairs.xml
machine="8 gpu nvswitch : 4 nic 200"
if [ ! -x "$sim" ] || [ ! -x "$topo" ]; then
    echo "$sim or $topo is not built"
    exit 77
fi

shows() { # pattern program arguments…
    local pattern=$1 output
    shift
    output=$("$@") && grep -qE -- "$pattern" <<<"$output" || { echo "$output"; return 1; }
}

# Ends with 2, and the message names the argument.
refuses() { # pattern program arguments…
    local pattern=$1 output
    shift
    output=$("$@" 2>&1 >/dev/null)
    [ $? = 2 ] && grep -qE -- "$pattern" <<<"$output" || { echo "$output"; return 1; }
}

refuses_all() {
    refuses "--nodes is '0'" "$sim" --nodes 0 && refuses "--collective is 'sing'" "$sim" --collective sing &&
        refuses "--type is 'gold': it must be one of float" "$sim" --type gold && refuses "--sizes is '1G:1K'" "$sim" --sizes 1G:1K && refuses "--sizes is 'x'" "$sim" --sizes x &&
        refuses "--factor is '1'" "$sim" --factor 1 && refuses "--limit is 'much'" "$sim" --limit much &&
        refuses "^collet-sim: none.xml: cannot be read: " "$sim" --machine none.xml && refuses "option '--algo' requires an argument" "$sim" --algo &&
        refuses "give one of them" "$sim" --machine a --synthetic b && refuses "unrecognized option '--speed'" "$sim" --speed &&
        refuses "--algo is 'square', which is no algorithm of allreduce" "$sim" --synthetic "$machine" --algo square &&
        refuses "--algo is 'oneshot', which takes up to 64 ranks" "$sim" --synthetic "$machine" --nodes 9 --algo oneshot &&
        refuses "are 1048576 ranks: at most 131072" "$sim" --synthetic "$machine" --nodes 131072 &&
        refuses "--nodes is '2', but" "$sim" --nodes 2 --synthetic "2 node : 1 gpu" &&
        ! "$sim" --synthetic "2 node : 2 gpu" --ranks 3 2>/dev/null &&
        refuses "one rank alone" "$sim" --synthetic "1 gpu : 1 nic" &&
        refuses "--collective is 'sing'" "$topo" --explain --collective sing && refuses "--size is 'big'" "$topo" --explain --size big &&
        refuses "--size is for --explain" "$topo" --size 1M
}

# A rank's part of 100 bytes is whole elements.
type_is_simulated() {
    shows "allreduce of double on 4 ranks" "$sim" --synthetic "4 cpu" --ranks 4 --sizes 100 --type double &&
        [ "$("$sim" --synthetic "4 cpu" --ranks 4 --sizes 100 --type double | grep -v '^#')" != "$("$sim" --synthetic "4 cpu" --ranks 4 --sizes 100 | grep -v '^#')" ]
}

json_is_json() {
    command -v python3 >/dev/null || return 0
    "$sim" --synthetic "$machine" --nodes 4 --sizes 1K:1M --json |
        python3 -c 'import json, sys; j = json.load(sys.stdin); assert j["ranks"] == 32 and len(j["rows"]) > 10 and j["measured"] is False'
}

same_twice() {
    [ "$("$sim" --synthetic "$machine" --nodes 64 --sizes 64K:64K)" = "$("$sim" --synthetic "$machine" --nodes 64 --sizes 64K:64K)" ]
}

# The largest there are, in under a minute and 2 GiB; in less than a full test one size of one algorithm.
largest() {
    local sizes=(--sizes 64M --algo ring)
    [ "${COLLET_TEST_LEVEL:-normal}" = full ] && sizes=(--sizes 1K:1G)
    (
        ulimit -v $((2 << 20))
        timeout 60 "$sim" --synthetic "$machine" --nodes 16384 "${sizes[@]}"
    ) | grep -qE "^ +64M .*ring .* grouped"
}

# The last bar ends when the table says that the call does; each message begins once, and ends once, later; the bars of an engine do
# not overlap.
timeline_adds_up() {
    command -v python3 >/dev/null || return 0
    local file
    file=$(mktemp)
    "$sim" --synthetic "2 cpu" --ranks 4 --nodes 2 --sizes 256K --algo "$1" --json --timeline "$file" | python3 -c '
import json, sys
row, events = json.load(sys.stdin)["rows"][0], json.load(open(sys.argv[1]))["traceEvents"]
bars = [e for e in events if e["ph"] == "X"]
sent, got = ({e["id"]: e["ts"] for e in events if e["ph"] == end} for end in "sf")
assert abs(max(b["ts"] + b["dur"] for b in bars) - row["time_us"]) < 0.01, row
assert len(bars) > 8 and sent.keys() == got.keys() and len(sent) > 8 and all(sent[m] < got[m] for m in got)
for rank in {b["pid"] for b in bars}:
    mine = sorted((b["ts"], b["ts"] + b["dur"]) for b in bars if b["pid"] == rank)
    assert all(a[1] <= b[0] + 1e-5 for a, b in zip(mine, mine[1:])), rank
' "$file"
    local status=$?
    rm -f "$file"
    return $status
}

refuses_timelines() {
    refuses "give --sizes one" "$sim" --synthetic "2 cpu" --ranks 4 --sizes 1K:1M --timeline /dev/null &&
        "$sim" --synthetic "$machine" --nodes 64 --sizes 1M --algo ring --timeline /dev/null 2>&1 | grep -q 'up to 128 ranks, not 512'
}

# What an imported ring is predicted to take is what the ring of the same steps takes, and a file for other ranks is refused.
imported_is_simulated() {
    local rows scratch
    scratch=$(mktemp -d) && trap 'rm -rf "$scratch"' EXIT
    python3 tests/common/schedules.py allreduce_ring 4 >"$scratch/ring.xml" || return 1
    rows=$("$sim" --synthetic "2 cpu" --ranks 4 --sizes 4K:4M --factor 32 --algo ring --import "$scratch/ring.xml") || return 1
    awk '/^ / { time[$1, $2] = $6; sizes[$1] } END { for (size in sizes) { n++; if (time[size, "imported"] + 0 == 0 || time[size, "imported"] != time[size, "ring"]) exit 1 } exit n != 3 }' \
        <<<"$(sed 's/\*/ /' <<<"$rows")" || { echo "$rows"; return 1; }
    refuses "of 4 ranks, but asked for is allreduce of 3" "$sim" --synthetic "2 cpu" --ranks 3 --import "$scratch/ring.xml" &&
        refuses "asked for is broadcast of 4" "$sim" --synthetic "2 cpu" --ranks 4 --collective broadcast --import "$scratch/ring.xml"
}
if command -v python3 >/dev/null; then
    check an_imported_schedule_is_simulated_beside_the_others imported_is_simulated
else
    skipped "python3 is not here"
fi
check a_type_is_simulated type_is_simulated
check a_timeline_of_a_ring_adds_up timeline_adds_up ring
check a_timeline_of_a_tree_adds_up timeline_adds_up tree
check timelines_that_cannot_be_are_refused refuses_timelines
check candidates_are_explained shows "^why" "$topo" --machine "$pairs" --nodes 2 --explain --size 64M --collective allreduce
check the_link_that_binds_is_named shows "busiest link, NET NIC" "$topo" --synthetic "2 node : 2 gpu nvswitch : 1 nic" --explain --size 64M
check ranks_that_share_a_gpu_share_its_memory shows "busiest link, memory of GPU 0" "$topo" --synthetic "1 gpu h100" --ranks 2 --explain --size 64M
check constants_of_a_card_say_how_they_came shows "within a GPU measured on 2026-11-26: one NVIDIA H200" "$topo" --synthetic "1 gpu h100" --ranks 2 --explain
check every_collective_is_explained shows "^  pat " "$topo" --synthetic "2 node : 4 gpu : 2 nic" --explain --collective all_gather
check hosts_without_gpus_are_explained shows "^  ring " "$topo" --synthetic "2 node : 2 cpu" --ranks 4 --explain
check a_machine_is_simulated shows "^ +1M .*ring" "$sim" --machine "$pairs" --nodes 4 --sizes 1M
check json_has_the_same_rows json_is_json
check the_same_question_has_the_same_answer same_twice
check the_largest_jobs_fit_into_their_limits largest
check a_slot_that_is_too_short_is_said shows "bruck +no prediction: its messages are too long" "$sim" --synthetic "1 gpu : 1 nic" --nodes 131072 --collective allgather --algo bruck --sizes 1M
check few_steps_do_for_an_algorithm_of_several_nodes shows "hiertree .*fewer" "$sim" --synthetic "2 gpu nvswitch : 1 nic" --nodes 1024 --algo hiertree --sizes 1M --limit 1
check bad_input_is_named_and_ends_with_2 refuses_all
finish
