#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Data that a network changes, TCP's checksum notwithstanding: two hosts with a bridge between them that flips bits
# (bench/slow_link.c).
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
build=${BUILD:-build}
bridge=$build/bench/slow_link
perf=$build/bin/all_reduce_perf
out=$(mktemp)
trap 'rm -f "$out"' EXIT

[ -x "$bridge" ] || make -s --no-print-directory BUILD="$build" "$bridge"
"$bridge" --delay-ms 0 true 2>"$out" || { cat "$out"; exit 77; }

# The exit status of a job over the bridge: variables, then options of the bridge.
job() {
    local status=0
    timeout 100 env "$1" "$bridge" --delay-ms 0 "${@:2}" "$perf" -b 2M -e 2M -n 2 -w 1 -c 1 >"$out" 2>&1 || status=$?
    [ $status != 124 ] || cat "$out"
    return $status
}
says() { # a regular expression, how often
    [ "$(grep -cE "$1" "$out")" = "$2" ] || { echo "not $2 times: $1"; cat "$out"; return 1; }
}
way='from rank [01] \(host [^ ]*\) to rank [01] \(host [^ ]*\), by tcp, socket [0-9]+ of [0-9]+, 10\.77\.9\.[12]:[0-9]+ to 10\.77\.9\.[12]:[0-9]+ by slow: slot [0-9]+'

a_whole_network_changes_nothing() { job "$1" --flip 0 && says "Out of bounds values : 0 OK" 1; }
without_a_checksum_the_sums_are_wrong() { ! job COLLET_CHECKSUM=0 --flip 3 && says "Out of bounds values : [1-9].* FAILED" 1; }
both_ranks_name_the_link() { # knob, how it is found, where
    ! job "$1" --flip 3 && says "$3: .*data changed on the way $way, $2" 2
}

check with_checksums_a_whole_network_changes_nothing a_whole_network_changes_nothing COLLET_CHECKSUM=1
check with_self_tests_a_whole_network_changes_nothing a_whole_network_changes_nothing COLLET_SELFTEST=1
check without_a_checksum_the_sums_are_wrong without_a_checksum_the_sums_are_wrong
check a_checksum_names_the_link_on_both_ranks both_ranks_name_the_link COLLET_CHECKSUM=1 'its CRC32C differs' collet_allreduce
check a_self_test_names_the_link_while_the_communicator_is_created both_ranks_name_the_link COLLET_SELFTEST=1 \
    'byte [0-9]+ was sent as 0x[0-9a-f]+ and came as 0x' collet_comm_init_from_env
finish
