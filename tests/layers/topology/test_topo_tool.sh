#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collet-topo as a program: what it takes, what it writes, how it ends.
cd "$(dirname "$0")/../../.." || exit 1
. tests/common/cases.sh

tool=${BUILD:-build}/bin/collet-topo
pairs=tests/layers/topology/topo/switched_pairs.xml
mesh=tests/layers/topology/topo/cube_mesh.xml
if [ ! -x "$tool" ]; then
    echo "$tool is not built"
    exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

shows() { # pattern arguments…
    local pattern=$1 output
    shift
    output=$("$tool" "$@") && grep -qE -- "$pattern" <<<"$output"
}

# Ends with 2, and its message names the argument.
refuses() { # pattern arguments…
    local pattern=$1 output
    shift
    output=$("$tool" "$@" 2>&1 >/dev/null)
    [ $? = 2 ] && grep -qE -- "$pattern" <<<"$output" || { echo "$output"; return 1; }
}

dump_is_read_again() {
    "$tool" --machine "$pairs" --dump "$scratch/once.xml" >"$scratch/once" &&
        "$tool" --machine "$scratch/once.xml" --dump "$scratch/twice.xml" >"$scratch/twice" &&
        cmp "$scratch/once.xml" "$scratch/twice.xml" && cmp "$scratch/once" "$scratch/twice"
}

refuses_all() {
    refuses "^collet-topo: none.xml: cannot be read: " --machine none.xml && refuses "^collet-topo: $0:1: " --machine "$0" &&
        refuses "--synthetic: .*\"2 cows\": at \"cows\" \(character 3\)" --synthetic "2 cows" &&
        refuses "--nodes is 'two'" --nodes two && refuses "--nodes is '0'" --nodes 0 &&
        refuses "--ranks is '-1'" --ranks -1 && refuses "option .--machine. requires an argument" --machine &&
        refuses "unrecognized option .--speed" --speed && refuses "give one of them" --machine a --synthetic b &&
        refuses "--nodes is '2', but" --nodes 2 --synthetic "2 node : 1 cpu" &&
        refuses "--dump: /nonexistent/x: .* cannot be written" --dump /nonexistent/x
}

# Whatever the input lacks: one line, with the file and the reason.
said_once() { # arguments
    local output
    output=$("$tool" "$@" 2>&1 >/dev/null)
    [ "$(wc -l <<<"$output")" = 1 ] && [[ $output = "collet-topo: "* ]] || { echo "$output"; return 1; }
}
reasons_are_said_once() {
    [ "$("$tool" --machine none.xml 2>&1)" = "collet-topo: none.xml: cannot be read: No such file or directory" ] &&
        said_once --machine / && said_once --machine "$0" && said_once --synthetic "2 cows" && said_once --dump /nonexistent/x
}
what_is_strange_is_still_said() { # a warning about a machine that can be used
    sed 's/ speed="100000"/ speed="100000000"/' "$mesh" >"$scratch/strange.xml"
    "$tool" --machine "$scratch/strange.xml" 2>&1 >/dev/null | grep -q "which no network card has"
}

check this_machine_is_shown shows "^  CPU 0"
check a_recorded_one_is_shown_on_two_hosts shows "^rings: 4 over 16 ranks on 2 hosts" --machine "$pairs" --nodes 2
check a_dgx_1v_uses_up_its_links shows "rings: 6 × 20.00 = 120.00 GB/s" --machine "$mesh"
check two_of_them_use_up_their_nics shows "rings: 4 × 12.50 = 50.00 GB/s" --machine "$mesh" --nodes 2
check an_imagined_one_is_shown shows "^  rings: 4 × 25.00 = 100.00 GB/s" --synthetic "2 node : 8 gpu nvswitch : 4 nic 200"
check the_link_that_binds_is_named shows "rings: bound by NET NIC nic0 ▶ NET" --synthetic "2 node : 2 gpu : 1 nic"
check ranks_without_gpus_are_as_many_as_asked shows "over 6 ranks" --synthetic "2 node : 2 cpu" --ranks 3
check dot_is_a_graph_and_nothing_else shows "^graph machine" --dot --synthetic "2 node : 1 gpu : 1 nic"
check a_dump_is_read_again_as_the_same dump_is_read_again
check a_reason_is_said_once reasons_are_said_once
check what_is_strange_about_a_machine_is_still_said what_is_strange_is_still_said
check bad_input_is_named_and_ends_with_2 refuses_all
finish
