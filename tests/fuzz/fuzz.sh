#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# fuzz.sh AMOUNT [TARGET…]: tries the corpus of every target (or of these), then fuzzes it; two targets at a time. AMOUNT is
#   SECONDS  for so long, with inputs that are new each time
#   again    the same inputs each time, as many as inputs.txt says
#   0        the corpus only
# An input that breaks something is kept in $BUILD/found: mend the library, and put the input into the corpus.
set -u
cd "$(dirname "$0")/../.." || exit 1

build=${BUILD:-build-asan} amount=${1:-again}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$build/found"

inputs_of() { awk -v target="$1" '$1 == target { print $2; found = 1 } END { exit !found }' tests/fuzz/inputs.txt; }

# What a run of new inputs has found (grown) is where the next one begins.
fuzz() {
    local target=$1 corpus=tests/fuzz/corpus/$1 grown=$build/corpus/$1 inputs
    local -a files=("$corpus"/*) much
    export COLLET_DEBUG= ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
    case $amount in
    0)
        "$build/tests/fuzz/fuzz_$target" "${files[@]}"
        return
        ;;
    again)
        inputs=$(inputs_of "$target") || { echo "$target has no line in tests/fuzz/inputs.txt"; return 1; }
        grown=$work/grown-$target much=(-seed=1 -runs="$inputs")
        ;;
    *) much=(-max_total_time="$amount") ;;
    esac
    mkdir -p "$grown"
    "$build/tests/fuzz/fuzz_$target" "${much[@]}" -timeout=60 -rss_limit_mb=4000 -print_final_stats=1 -verbosity=1 \
        -artifact_prefix="$build/found/$target-" "$grown" "$corpus"
}

report() {
    local target=$1 status=$2 log=$work/$1 tried
    tried=$(sed -nE 's/^stat::number_of_executed_units: +([0-9]+).*/\1/p; s/^([0-9]+) inputs$/\1/p' "$log" | tail -n 1)
    inputs=$((inputs + ${tried:-0}))
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
        printf 'ok    %-14s %10s inputs\n' "$target" "$tried"
    else
        failed=$((failed + 1))
        printf 'FAIL  %-14s %10s inputs\n' "$target" "$tried"
        grep -vE '^(INFO|#[0-9]+)' "$log" | head -n 60 | sed 's/^/      /'
    fi
}

passed=0 failed=0 inputs=0
targets=("${@:2}")
[ $# -gt 1 ] || for program in "$build"/tests/fuzz/fuzz_*; do
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
echo "$passed passed, $failed failed, $inputs inputs"
[ $failed = 0 ] && [ $passed -gt 0 ]
