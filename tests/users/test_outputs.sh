#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# One rule for what programs write: -o FILE (of perf programs -J and --csv), "-" is standard output, and one line on standard error
# names what was written. What one program writes the other one reads.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

bin=$(realpath "${BUILD:-build}")/bin
for program in all_reduce_perf collet-prog collet-plot; do
    [ -x "$bin/$program" ] || { echo "$program is not built in $bin"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# With -o the same goes to the file, nothing to standard output, and one line says so. What cannot be written is an error.
# What is measured anew in each run says nothing here.
alike() { cmp <(grep -v "CPUs at once" "$1") <(grep -v "CPUs at once" "$2"); }
writes_where_it_is_told() { # program arguments…
    local program=$1
    shift
    "$bin/$program" "$@" >"$work/plain" 2>/dev/null
    "$bin/$program" "$@" -o "$work/file" >"$work/out" 2>"$work/errors"
    [ ! -s "$work/out" ] && alike "$work/plain" "$work/file" && grep -qx "$program: wrote $work/file" "$work/errors" ||
        { cat "$work/errors"; return 1; }
    "$bin/$program" "$@" -o - 2>"$work/errors" >"$work/dash" && alike "$work/dash" "$work/plain" && ! grep wrote "$work/errors" || return 1
    ! "$bin/$program" "$@" -o /dev/full 2>"$work/errors" >&2 && grep -q "$program: --output: cannot write /dev/full: No space left" "$work/errors" ||
        { cat "$work/errors"; return 1; }
}

perf() { "$bin/all_reduce_perf" --host 1 --procs 2 -b 8 -e 64 -f 2 -n 1 -w 0 --plan 1 --predict 1 "$@"; }

# The table is on standard error then.
perf_writes_json_to_standard_output() {
    perf -J - 2>"$work/table" >"$work/perf.json" && grep -q '^# Collective test concluded' "$work/table" &&
        python3 -c 'import json, sys; assert [row["size"] for row in json.load(open(sys.argv[1]))["results"]] == [8, 16, 32, 64]' "$work/perf.json"
}

# A line of names, then a row for each of the table, all with the same columns.
perf_writes_csv() {
    perf --csv "$work/perf.csv" >"$work/table" 2>"$work/errors" && grep -qx "all_reduce_perf: writes $work/perf.csv" "$work/errors" &&
        python3 - "$work/perf.csv" <<'PYTHON'
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
assert [row["size"] for row in rows] == ["8", "16", "32", "64"], rows
assert all(float(row["out_of_place_us"]) > 0 and row["in_place_wrong"] == "0" and "channel" in row["plan"] for row in rows), rows
PYTHON
}

standard_output_has_room_for_one() { ! perf -J - --csv - 2>"$work/errors" && grep -q '^--csv -: -J has standard output already' "$work/errors"; }

# The same picture, but for digits.
plot_reads_json() {
    perf -J "$work/both.json" >"$work/both.txt" 2>/dev/null
    script() { "$bin/collet-plot" --script "$1" | sed -E '/^[0-9]+ /s/ .*//'; }
    diff <(script "$work/both.txt") <(script "$work/both.json") && [ "$(script "$work/both.json" | grep -cxE '8|16|32|64')" = 4 ]
}
plot_refuses_what_is_half_json() {
    head -c 300 "$work/perf.json" >"$work/half.json"
    ! "$bin/collet-plot" --script "$work/half.json" 2>"$work/errors" && grep -q "FILE is '$work/half.json'.*-J" "$work/errors" || { cat "$work/errors"; return 1; }
}
# To a pipe it draws into the pipe, and leaves no file behind.
plot_draws_into_a_pipe() {
    (cd "$work" && "$bin/collet-plot" both.txt | grep -q '<svg' && [ ! -e collet.svg ])
}

sim_writes_csv() {
    "$bin/collet-sim" --synthetic "2 cpu" --ranks 2 --sizes 64K:256K --csv | python3 -c '
import csv, sys
rows = list(csv.DictReader(sys.stdin))
assert {row["size"] for row in rows} == {"65536", "262144"} and sum(row["chosen"] == "1" for row in rows) == 2, rows'
}
report_writes_csv() {
    COLLET_RECORD=$work/record perf >/dev/null && "$bin/collet-report" --csv "$work/record" | python3 -c '
import csv, sys
rows = list(csv.DictReader(sys.stdin))
assert {"8", "64"} <= {row["bytes"] for row in rows} and all(float(row["median_us"]) > 0 for row in rows), rows'
}

a_root_that_is_none_is_refused() {
    local program
    for program in all_reduce_perf broadcast_perf; do
        "$bin/$program" --host 1 -b 8 -e 8 -r 9 2>"$work/errors"
        [ $? = 2 ] && grep -qx -- '-r 9: there are only ranks 0 to 0' "$work/errors" || { echo "$program: $(cat "$work/errors")"; return 1; }
    done
}

machine=(--synthetic "2 cpu")
check collet_prog_writes_where_it_is_told writes_where_it_is_told collet-prog allreduce_ring 4
check pages_go_where_they_are_told writes_where_it_is_told collet-prog --html allreduce_ring 4
check collet_topo_writes_where_it_is_told writes_where_it_is_told collet-topo "${machine[@]}"
check collet_sim_writes_where_it_is_told writes_where_it_is_told collet-sim "${machine[@]}" --ranks 2 --sizes 64K
check collet_info_writes_where_it_is_told writes_where_it_is_told collet-info --json
check collet_tune_writes_where_it_is_told writes_where_it_is_told collet-tune --print
check a_root_that_is_none_is_refused a_root_that_is_none_is_refused
if command -v python3 >/dev/null; then
    check perf_writes_json_to_standard_output perf_writes_json_to_standard_output
    check perf_writes_csv perf_writes_csv
    check sim_writes_csv sim_writes_csv
    check report_writes_csv report_writes_csv
    check collet_report_writes_where_it_is_told writes_where_it_is_told collet-report "$work/record"
    check plot_refuses_what_is_half_json plot_refuses_what_is_half_json
else
    skipped "what is JSON or CSV: python3 is not here"
fi
check standard_output_has_room_for_one_file standard_output_has_room_for_one
check plot_reads_what_J_writes plot_reads_json
if command -v gnuplot >/dev/null; then
    check plot_draws_into_a_pipe plot_draws_into_a_pipe
else
    skipped "plot_draws_into_a_pipe: gnuplot is not installed"
fi
finish
