#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collet-tune's command line. What it measures and fits: test_tuner_file.c, docs/tuning.md.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

tune=${BUILD:-build}/bin/collet-tune

refuses() { # pattern arguments…
    local pattern=$1 output
    shift
    output=$("$tune" "$@" 2>&1 >/dev/null)
    [ $? = 2 ] && grep -qE -- "$pattern" <<<"$output" || { echo "$output"; return 1; }
}

refuses_all() {
    refuses "--procs is '1'" --procs 1 && refuses "--procs is '2,x'" --procs 2,x &&
        refuses "--transport is 'pigeon'" --transport pigeon && refuses "--sizes is '9'" --sizes 9 &&
        refuses "--costs: .*none.tuning" --costs none.tuning && refuses "unrecognized option '--fast'" --fast &&
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

check bad_input_is_named_and_ends_with_2 refuses_all
check constants_that_are_printed_can_be_read constants_come_back
finish
