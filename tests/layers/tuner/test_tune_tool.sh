#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collet-tune's command line. What it measures and fits: test_tuner_file.c, docs/tuning.md.
cd "$(dirname "$0")/../../.." || exit 1
. tests/common/cases.sh

tune=${BUILD:-build}/bin/collet-tune

refuses() { # pattern arguments…
    local pattern=$1 output
    shift
    output=$("$tune" "$@" 2>&1 >/dev/null)
    [ $? = 2 ] && grep -qE -- "$pattern" <<<"$output" || { echo "$output"; return 1; }
}

refuses_all() {
    refuses "--output is '/nonexistent/x'" --quick --output /nonexistent/x && refuses "--procs is '1'" --procs 1 && refuses "--procs is '2,x'" --procs 2,x &&
        refuses "--transport is 'pigeon'" --transport pigeon && refuses "--sizes is '9'" --sizes 9 &&
        refuses "--costs: .*none.tuning" --costs none.tuning && refuses "unrecognized option '--fast'" --fast &&
        refuses "--seconds is '0'" --device --seconds 0 && refuses "left out without --device" --seconds 9 &&
        refuses "--transport is 'tcp'" --device --transport tcp && refuses "leave out --device" --device --regret &&
        refuses "option '--output' requires an argument" --output && refuses "an argument is 'file'" file
}

# What --print writes, --costs reads, and nothing is lost.
constants_come_back() {
    local file
    file=$(mktemp) || return 1
    "$tune" --print >"$file" && diff <("$tune" --print --costs "$file" | grep -v '^#') <(grep -v '^#' "$file")
    local status=$?
    rm -f "$file"
    return $status
}

files=$(mktemp -d) || exit 1
trap 'rm -rf "$files"' EXIT

# A file of samples of 2 CPUs: the lines of standard input.
samples() { # name
    { echo "collet-tune samples: 2 CPUs, shm"; cat; } >"$files/$1"
}

judge() { # names, with commas between
    COLLET_CPUS=2 "$tune" --regret --procs 2 --sizes 8:8 --samples "$files/${1//,/,$files/}" 2>&1
}

# One run saw near CPUs, the other far ones: a table for each. Slower than the best by more than 15 %: worse.
runs_are_judged_together() {
    samples near <<<$'2 8 near 0 1.0 oneshot LL\n2 8 near 0 1.0 oneshot LL128\n2 8 near 0 2.0 ring LL'
    samples far <<<$'2 8 far 0 1.3 oneshot LL\n2 8 far 0 1.3 oneshot LL128\n2 8 far 0 1.0 ring LL'
    local output
    output=$(judge near,far) && grep -q '^2 ranks, near: .* 1 of 1 sizes' <<<"$output" &&
        grep -q '^2 ranks, far: .* 0 of 1 sizes' <<<"$output" && grep -q '| 1.30 | 0.00 | worse |' <<<"$output"
}

misfits() { # pattern line
    samples misfit <<<"$2"
    ! judge misfit >"$files/output" && grep -qE "misfit, line 2: $1" "$files/output"
}

samples_that_do_not_fit_are_refused() {
    misfits "so many ranks" "3 8 near 0 1 ring LL" && misfits "this size" "2 32 near 0 1 ring LL" &&
        misfits "there is no such candidate" "2 8 near 0 1 pigeon" && misfits "near or far" "2 8 close 0 1 ring LL" &&
        misfits "there are more rounds" "2 8 near 99 1 ring LL" && misfits "ranks bytes .* are needed" "2 8 near"
}

# With a GPU it would measure, for minutes.
without_a_gpu_it_says_so() {
    local output
    output=$(CUDA_VISIBLE_DEVICES='' "$tune" --device --quick 2>&1 >/dev/null)
    [ $? = 1 ] && grep -q 'no CUDA device' <<<"$output" || { echo "$output"; return 1; }
}

check without_a_gpu_it_says_so without_a_gpu_it_says_so
check bad_input_is_named_and_ends_with_2 refuses_all
check samples_of_several_runs_are_judged_together runs_are_judged_together
check samples_that_do_not_fit_name_file_and_line samples_that_do_not_fit_are_refused
check constants_that_are_printed_can_be_read constants_come_back
finish
