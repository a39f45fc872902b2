#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# gpu-accept.sh [seconds]: everything that a GPU has to show, in one report, in 540 seconds at most, however much of it hangs.
#
#   $BUILD/gpu-accept/report.txt     the machine, what it can do, the output of every part, and last a table of the parts:
#                                    the one file to send back
#
# Within the first minute it says what this machine can do and what not: the limits of all that comes before add up to less.
# ACCEPT_SLOW=1: what it runs on is slow, so small sizes and ten times as long for each part.
# Needs no compiler and nothing beside bash, coreutils and what is in $BUILD (make gpu-accept-bundle). Exits 0 if every part
# passed, or if there is no GPU ("skipped: no CUDA device").
set -u
cd "$(dirname "$0")/.." || exit 1

build=${BUILD:-build}
accept=$build/tests/gpu/test_accept
work=$build/gpu-accept
report=$work/report.txt
last_second=$((${1:-540} - 10))
mkdir -p "$work" || exit 1
slow=${ACCEPT_SLOW:-}
times=${slow:+10} times=${times:-1}
table=()
failed=0

# Of the shared libraries that came along (gpu-accept-bundle.sh), those that this machine has not, and what those need.
take_libraries() {
    local lacking needed library before=-1
    lacking=$(cd "$work" && pwd)/lacking needed=$(cd "$build/needed" && pwd)
    rm -rf "$lacking"
    mkdir "$lacking"
    export LD_LIBRARY_PATH=$lacking${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    while [ "$(find "$lacking" -name '*.so*' | wc -l)" != $before ]; do
        before=$(find "$lacking" -name '*.so*' | wc -l)
        for library in $(ldd "$accept" "$build"/tests/unit/* "$build"/bin/* 2>/dev/null | sed -nE 's/^\s*(\S+) => not found/\1/p'); do
            [ -e "$needed/$library" ] && ln -sf "$needed/$library" "$lacking/"
        done
    done
}
[ -d "$build/needed" ] && take_libraries

row() { table+=("$(printf '%-28s %6s s   %s' "$@")"); }

# One part: its name, the seconds it may take, and the command. Exit status 77 is a part that does not apply.
part() {
    local name=$1 limit=$(($2 * times)) start=$SECONDS status verdict left=$((last_second - SECONDS))
    shift 2
    if [ $left -lt 2 ]; then
        row "$name" - 'FAILED (not run: the time is up)'
        failed=1
        return
    fi
    limit=$((left < limit ? left : limit))
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
    row "$name" $((SECONDS - start)) "$verdict"
}

# A part whose program may not have been built.
part_if_there() { [ ! -x "$3" ] && row "$1" - "not run: no $3" || part "$@"; }

# In PATH, or where CUDA's packages put it.
find_sanitizer() {
    local nvcc
    nvcc=$(command -v "${NVCC:-nvcc}")
    for found in "$(command -v compute-sanitizer)" "${nvcc%/*}/compute-sanitizer" /usr/local/cuda{,-*}/bin/compute-sanitizer \
        /usr/local/cuda{,-*}/compute-sanitizer/compute-sanitizer; do
        [ -x "$found" ] && echo "$found" && return
    done
}

sanitized() {
    local name="sanitizer $1" tool=$1 what=$2
    [ "$what" = small ] || name+=", LL128"
    if [ -n "$sanitizer" ]; then
        part "$name" 45 "$sanitizer" --tool "$tool" --error-exitcode 9 "$accept" "$what"
    else
        row "$name" - 'not run: compute-sanitizer is not installed'
    fi
}

# Each may hang, so all are asked at once.
ask() { timeout --kill-after=2 6 "${@:2}" >"$work/$1" 2>/dev/null & }

machine() {
    date -u '+%Y-%m-%d %H:%M:%S UTC'
    uname -srm
    ask gpus nvidia-smi --query-gpu=name,driver_version,memory.total,compute_mode,mig.mode.current --format=csv,noheader
    ask links nvidia-smi topo -m
    ask compiler "${NVCC:-nvcc}" --version
    ask info "$build/bin/collet-info"
    wait
    cat "$work/gpus" "$work/links"
    tail -n 2 "$work/compiler"
    cat "$work/info"
}

# What the parts below would find out one by one, each tried for some seconds.
abilities() {
    part 'what can be done here' 32 "$accept" ${slow:+--slow} --seconds $((30 * times)) abilities
    [ -n "$sanitizer" ] || echo '  cannot  compute-sanitizer: it is not installed'
    command -v nvidia-smi >/dev/null || echo '  cannot  say what joins the GPUs: nvidia-smi is not here'
}

conformance() {
    part 'conformance, Simple' 40 "$accept" --seconds 20 simple
    part 'conformance, LL' 40 "$accept" --seconds 20 ll
    part 'conformance, LL128' 40 "$accept" --seconds 20 ll128
    part 'conformance, chosen' 40 "$accept" --seconds 20 chosen
}

# The order is that of what is to be known first, should the time run out.
everything() {
    local sanitizer sizes='-b 8 -e 64M -n 10' tuned=64:262144
    sanitizer=$(find_sanitizer)
    [ -z "$slow" ] || sizes='-b 8 -e 4K -n 1 -w 1' tuned=64:256
    machine
    abilities
    part 'current GPU unchanged' 20 "$accept" ${slow:+--slow} device
    if [ -n "$slow" ]; then
        part 'conformance, a few calls' 100 "$accept" --slow small small128
    else
        conformance
    fi
    part 'kinds of memory' 20 "$accept" ${slow:+--slow} memory
    part 'streams' 20 "$accept" ${slow:+--slow} streams
    part 'graphs' 20 "$accept" ${slow:+--slow} graphs
    part 'abort of a hung rank' 30 "$accept" ${slow:+--slow} abort
    part 'processes on one GPU' 60 "$accept" ${slow:+--slow} processes
    part 'windows, engines, switches' 60 "$accept" ${slow:+--slow} windows
    part_if_there 'all_reduce_perf -t 4' 30 "$build/bin/all_reduce_perf" -t 4 $sizes -f 8
    part_if_there 'example: overlap' 30 "$build/bin/overlap" ${slow:+2 256 1}
    sanitized memcheck small
    sanitized racecheck small
    echo
    echo 'A line of LL128 is stored by 8 lanes together. A tool that comes between them may part them: wrong results in the'
    echo 'next part alone, where "conformance, LL128" has none, are not a fault of the library.'
    sanitized memcheck small128
    part_if_there 'unit test of the loops' 25 "$build/tests/unit/test_block"
    # Constants of the cost model, beside the report.
    part_if_there 'tuning file' 60 "$build/bin/collet-tune" --device --procs 2 --quick --sizes $tuned \
        --output "$work/gpu.tuning"
    [ -f "$work/gpu.tuning" ] && printf '\n=== %s\n' "$work/gpu.tuning" && cat "$work/gpu.tuning"
    printf '\n=== summary\n'
    printf '%s\n' "${table[@]}"
    [ $failed = 0 ]
}

timeout --kill-after=2 8 "$accept" none >"$work/probe.txt" 2>&1
if [ $? = 77 ]; then
    tail -n 1 "$work/probe.txt"
    exit 0
fi
everything 2>&1 | tee "$report"
status=${PIPESTATUS[0]}
echo "the whole report: $report"
exit "$status"
