#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run-tests.sh [--level fast|normal|full] [--jobs N] PROGRAM…: runs test programs, N at a time, and prints a line for each
# when it ends:
#
#   ok    core/test_base        23 cases   0.4 s
#   FAIL  core/conformance      2 of 310 cases failed   48.1 s      followed by what it printed
#   skip  whole/test_links.sh   needs root   0.0 s                  exit status 77
#
# Cases are counted from cmocka's output, or from a line "N passed, N failed[, N skipped]" that a program prints, or
# else the program is one case. A program that does not end in time, crashes or exits with anything but 0 or 77 has at
# least one failed case. On a busy machine it has more time (patient.sh). The last line is "N passed, N failed", with ", N skipped" if
# there are any.
# Programs learn the level from COLLET_TEST_LEVEL and choose how much to do.
set -u

level=normal jobs=1
while [[ "${1:-}" == --* ]]; do
    case $1 in
    --level) level=$2 ;;
    --jobs) jobs=$2 ;;
    *)
        echo "run-tests: $1: expected --level or --jobs" >&2
        exit 2
        ;;
    esac
    shift 2
done
case $level in
fast) limit=120 ;;
normal) limit=400 ;;
full) limit=7200 ;;
*)
    echo "run-tests: level $level: expected fast, normal or full" >&2
    exit 2
    ;;
esac
limit=${COLLET_TEST_TIMEOUT:-$limit}
export COLLET_TEST_LEVEL=$level

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A sanitizer wants the address space laid out as it expects; where that cannot be had, it is tried as it is.
fixed_layout=
setarch -R true 2>/dev/null && fixed_layout="setarch -R"
export LSAN_OPTIONS=${LSAN_OPTIONS:-suppressions=$(realpath "$(dirname "$0")")/../tests/common/leaks.txt:print_suppressions=0}

sum() { # of the numbers that sed finds in the output
    sed -nE "$1" "$output" | awk '{ total += $1 } END { print total + 0 }'
}

# Sets cases_ok, cases_bad, cases_skipped from the output and the exit status of a program.
count_cases() {
    local status=$1
    cases_ok=$(sum 's/^\[  PASSED  \] ([0-9]+) test.*/\1/p')
    cases_bad=$(sum 's/^\[  FAILED  \] ([0-9]+) test.*/\1/p')
    cases_skipped=$(sum 's/^\[  SKIPPED \] ([0-9]+) test.*/\1/p')
    local own='^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$'
    if grep -qE "$own" "$output"; then
        cases_ok=$((cases_ok + $(sum "s/$own/\\1/p")))
        cases_bad=$((cases_bad + $(sum "s/$own/\\2/p")))
        cases_skipped=$((cases_skipped + $(sum "s/$own/\\4/p")))
    fi
    if [ "$status" = 77 ]; then
        cases_skipped=$((cases_skipped > 0 ? cases_skipped : 1))
    elif [ "$status" != 0 ]; then
        cases_bad=$((cases_bad > 0 ? cases_bad : 1))
    elif [ $((cases_ok + cases_bad + cases_skipped)) = 0 ]; then
        cases_ok=1
    fi
}

describe_status() {
    case $1 in
    124 | 137) echo " (stopped after $limit s)" ;;
    13[0-9] | 14[0-9]) echo " (signal $(($1 - 128)))" ;;
    0) ;;
    *) echo " (exit status $1)" ;;
    esac
}

# Runs one program. Its lines come out together, its counts go to a file.
run_program() {
    local program=$1 name=${1#*tests/} output=$work/$2 start status seconds
    start=$(date +%s%N)
    # A program in the background would ignore Ctrl-C, and its children too, and some are tested with it.
    { scripts/patient.sh "$limit" $fixed_layout env --default-signal=INT,QUIT "$program" >"$output" 2>&1 </dev/null; } 2>/dev/null
    status=$?
    seconds=$(awk -v ns=$(($(date +%s%N) - start)) 'BEGIN { printf "%.1f s", ns / 1e9 }')
    count_cases $status
    echo "$cases_ok $cases_bad $cases_skipped" >>"$work/counts"
    if [ "$cases_bad" -gt 0 ]; then
        printf 'FAIL  %-28s %d of %d cases failed%s   %s\n' "$name" "$cases_bad" $((cases_bad + cases_ok)) \
            "$(describe_status $status)" "$seconds"
        tail -n 200 "$output" | sed 's/^/      | /'
    elif [ "$status" = 77 ]; then
        printf 'skip  %-28s %s   %s\n' "$name" "$(tail -n 1 "$output")" "$seconds"
    else
        printf 'ok    %-28s %d cases   %s\n' "$name" "$cases_ok" "$seconds"
    fi >"$output.lines"
    flock "$work" cat "$output.lines"
}

number=0
for program in "$@"; do
    [ $number -lt "$jobs" ] || wait -n
    number=$((number + 1))
    run_program "$program" $number &
done
wait

read -r passed failed skipped < <(awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }' "$work/counts" /dev/null)
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ] && [ "$(wc -l <"$work/counts")" = $# ]
