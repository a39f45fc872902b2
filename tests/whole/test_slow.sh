#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Each bad case of docs/slow.md that this machine can make shows what the page says it shows.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

case_shows() { # case, words
    local said
    said=$(timeout 120 scripts/lab-slow.sh "$1" 2>&1) || { echo "$said"; return 1; }
    [[ $said == *"not on this machine"* || $said == *$2* ]] || { echo "$said"; return 1; }
    [[ $said != *"failed"* ]] || { echo "$said"; return 1; }
}
page_names_all_cases() {
    local name
    for name in $(sed -nE 's/^#   lab-slow.sh \[(.*) …\].*/\1/p' scripts/lab-slow.sh | tr '|' ' '); do
        grep -q "^The lab:.*\`$name\`" docs/slow.md || { echo "$name is not in docs/slow.md"; return 1; }
    done
}

check the_page_names_all_cases page_names_all_cases
check a_shared_cpu_is_shown case_shows one-cpu '1 CPUs allowed'
check far_cpus_are_explained case_shows far-cpus 'round trip'
check the_networks_of_a_connection_are_named case_shows wrong-nic 'over slow, fast'
check a_late_rank_is_named case_shows late 'rank 1 of 2 has not made it'
check a_throttled_rank_has_long_iterations case_shows throttled 'the longest'
check lost_packets_are_counted case_shows lossy 'TcpRetransSegs'
check calls_that_differ_are_named case_shows mismatch 'ranks 0,2 called allreduce'
finish
