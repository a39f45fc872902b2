#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fuzz.sh SECONDS: tries the corpus of every target, then fuzzes it for so long; two targets at a time.
# 0: the corpus only. "again": the same inputs on every machine, as many as inputs.txt says, about 15 seconds' worth.
# An input that breaks something is kept in $BUILD/found: mend the library, and put the input into the corpus.
set -u
cd "$(dirname "$0")/../.." || exit 1

build=${BUILD:-build-fuzz} seconds=${1:-15}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$build/found"

# What an earlier run found (grown) is where the next one begins; not so for the same inputs again.
fuzz() {
    local target=$1 corpus=tests/fuzz/corpus/$1 grown=$build/corpus/$1
    local -a files=("$corpus"/*) much=(-max_total_time="$seconds")
    export COLLET_DEBUG= ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
    mkdir -p "$grown"
    if [ "$seconds" = 0 ]; then
        "$build/tests/fuzz/fuzz_$target" "${files[@]}"
        return
    fi
    if [ "$seconds" = again ]; then
        grown=$work/grown-$target much=(-seed=1 -runs="$(inputs_of "$target")")
        mkdir "$grown"
    fi
    "$build/tests/fuzz/fuzz_$target" "${much[@]}" -timeout=60 -rss_limit_mb=4000 -print_final_stats=1 -verbosity=1 \
        -artifact_prefix="$build/found/$target-" "$grown" "$corpus"
}

inputs_of() {
    awk -v target="$1" '$1 == target { print $2 }' tests/fuzz/inputs.txt
}

report() {
    local target=$1 status=$2 log=$work/$1 tried
    tried=$(sed -nE 's/^stat::number_of_executed_units: +([0-9]+).*/\1/p; s/^([0-9]+) inputs$/\1/p' "$log" | tail -n 1)
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
        printf 'ok    %-14s %10s inputs\n' "$target" "$tried"
    else
        failed=$((failed + 1))
        printf 'FAIL  %-14s %10s inputs\n' "$target" "$tried"
        grep -vE '^(INFO|#[0-9]+)' "$log" | head -n 60 | sed 's/^/      /'
    fi
}

passed=0 failed=0
targets=()
for program in "$build"/tests/fuzz/fuzz_*; do
    [ -x "$program" ] && [[ $program != *.* ]] && targets+=("${program##*/fuzz_}")
done
for ((k = 0; k < ${#targets[@]}; k += 2)); do
    pids=()
    for target in "${targets[@]:k:2}"; do
        fuzz "$target" >"$work/$target" 2>&1 &
        pids+=($!)
    done
    for ((j = 0; j < ${#pids[@]}; j++)); do
        wait "${pids[j]}"
        report "${targets[k + j]}" $?
    done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ] && [ $passed -gt 0 ]
