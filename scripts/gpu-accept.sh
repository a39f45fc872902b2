#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# gpu-accept.sh: everything that a GPU has to show, in one report. Takes 9 minutes at most, however much of it hangs.
#
#   $BUILD/gpu-accept/report.txt     the machine, the output of every part, and last a table of the parts
#
# Exits 0 if every part passed, or if there is no GPU ("skipped: no CUDA device").
set -u
cd "$(dirname "$0")/.." || exit 1

build=${BUILD:-build}
accept=$build/tests/gpu/test_accept
work=$build/gpu-accept
report=$work/report.txt
mkdir -p "$work"
table=()
failed=0

# One part: its name, the seconds it may take, and the command. Exit status 77 is a part that does not apply.
part() {
    local name=$1 limit=$2 start=$SECONDS status verdict
    shift 2
    printf '\n=== %s: %s\n' "$name" "$*"
    timeout --kill-after=5 "$limit" "$@" 2>&1
    status=$?
    case $status in
    0) verdict=passed ;;
    77) verdict=skipped ;;
    124 | 137) verdict="FAILED (stopped after $limit s)" ;;
    *) verdict="FAILED (exit status $status)" ;;
    esac
    [[ $verdict == FAILED* ]] && failed=1
    table+=("$(printf '%-28s %6d s   %s' "$name" $((SECONDS - start)) "$verdict")")
}

absent() { table+=("$(printf '%-28s %6s     not run: %s' "$1" - "$2")"); }

sanitized() {
    local tool=$1
    if command -v compute-sanitizer >/dev/null; then
        part "sanitizer $tool" 55 compute-sanitizer --tool "$tool" --error-exitcode 9 "$accept" small
    else
        absent "sanitizer $tool" 'compute-sanitizer is not installed'
    fi
}

machine() {
    date -u '+%Y-%m-%d %H:%M:%S UTC'
    uname -srm
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
    "${NVCC:-nvcc}" --version 2>/dev/null | tail -n 2
    "$build/bin/collet-info" 2>/dev/null | head -n 3
}

everything() {
    machine
    part 'processes on one GPU' 60 "$accept" processes
    part 'conformance, Simple' 48 "$accept" --seconds 24 simple
    part 'conformance, LL' 48 "$accept" --seconds 24 ll
    part 'conformance, LL128' 48 "$accept" --seconds 24 ll128
    part 'conformance, chosen' 48 "$accept" --seconds 24 chosen
    part 'kinds of memory' 20 "$accept" memory
    part 'streams' 20 "$accept" streams
    part 'graphs' 20 "$accept" graphs
    part 'current GPU unchanged' 20 "$accept" device
    part 'abort of a hung rank' 30 "$accept" abort
    sanitized memcheck
    sanitized racecheck
    part 'unit test of the loops' 25 "$build/tests/unit/test_block"
    if [ -x "$build/bin/overlap" ]; then
        part 'example: overlap' 30 "$build/bin/overlap"
    fi
    printf '\n=== summary\n'
    printf '%s\n' "${table[@]}"
    [ $failed = 0 ]
}

if ! "$accept" device >"$work/probe.txt" 2>&1 && [ "$(tail -n 1 "$work/probe.txt")" = 'skipped: no CUDA device' ]; then
    echo 'skipped: no CUDA device'
    exit 0
fi
everything | tee "$report"
status=${PIPESTATUS[0]}
echo "the whole report: $report"
exit "$status"
