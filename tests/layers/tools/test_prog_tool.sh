#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collet-prog as a program: what its tables, traces and pictures say, and that large ones are cut.
cd "$(dirname "$0")/../../.." || exit 1
. tests/common/cases.sh

prog=${BUILD:-build}/bin/collet-prog
if [ ! -x "$prog" ]; then
    echo "$prog is not built"
    exit 77
fi

# Exactly this line is in what the tool prints for the arguments.
shows() { # line arguments…
    local line=$1 output
    shift
    output=$("$prog" "$@") && grep -qxF -- "$line" <<<"$output" || { head -20 <<<"$output" | cut -c 1-150; return 1; }
}

# Ends with 2, and the message names the argument.
refuses() { # pattern arguments…
    local pattern=$1 output
    shift
    output=$("$prog" "$@" 2>&1 >/dev/null)
    [ $? = 2 ] && grep -qE -- "$pattern" <<<"$output" || { echo "$output"; return 1; }
}

# No line of a thousand ranks is wider than a large window, and no output longer than anybody reads.
stays_small() { # arguments…
    local lines width
    read -r lines width < <("$prog" "$@" | awk '{ w = length > w ? length : w } END { print NR, w }')
    [ "$lines" -lt 1000 ] && [ "$width" -lt 1000 ] || { echo "$lines lines, up to $width wide"; return 1; }
}

# Programs written as text and read again are the same, and are verified.
text_is_the_programs() {
    local shape name text again
    text=$(mktemp) again=$(mktemp)
    for shape in "4 1" "8 2" "5 1"; do
        for name in $("$prog" --list | cut -d ' ' -f 1); do
            "$prog" --text --nodes "${shape#* }" "$name" "${shape% *}" >"$text" 2>/dev/null || continue
            "$prog" --edited "$text" --text --nodes "${shape#* }" --slots 4 "$name" "${shape% *}" >"$again" &&
                head -n 1 "$again" | grep -q '^verified: ' && sed 1d "$again" | cmp -s "$text" - ||
                { echo "$name $shape"; head -3 "$again"; rm -f "$text" "$again"; return 1; }
        done
    done
    rm -f "$text" "$again"
}

# What was changed is what the verifier looks at, and nonsense has its line in the message.
changed_text_is_verified() {
    local text output
    text=$(mktemp)
    "$prog" --text allreduce_ring 4 | sed '0,/<3 in2 >1/s//<3 in1 >1/' >"$text"
    output=$("$prog" --edited "$text" --check allreduce_ring 4)
    [ $? = 1 ] && grep -qF 'expected slice 1, got slice 2' <<<"$output" || { echo "$output"; rm -f "$text"; return 1; }
    sed -i '0,/<3 in1 >1/s//<9 >1/' "$text"
    output=$("$prog" --edited "$text" --check allreduce_ring 4)
    [ $? = 1 ] && grep -qF "line 5: '<9' is not a rank" <<<"$output" || { echo "$output"; rm -f "$text"; return 1; }
    rm -f "$text"
    refuses '--edited: cannot read /nowhere' --edited /nowhere --check allreduce_ring 4
}

cells_name_peers() {
    shows "   1   R+.S 1 <2 >1  R+.S 2 <0 >2  R+.S 0 <1 >0" --peers allreduce_ring 3 &&
        shows "   0   R+!S 0 <1-3 >1-3      R+!S 1 <0,2,3 >2,3,0  R+!S 2 <0,1,3 >3,0,1  R+!S 3 <0-2 >0-2" --peers allreduce_twoshot 4
}

# Doubling overwrites what it has sent: it copies. Bruck's steps read again what they have received: it lands in its time.
cells_tell_loans() {
    shows "   0   ..!L 0  R.EL 0  R.E. 0" --loans broadcast_chain 3 &&
        shows "   1   R.!.   1  R.!.   2  R.!.   3  R.!.   0" --loans allgather_bruck 4 &&
        shows "   0   ..!S 0  R.!S 0  R.!. 0" broadcast_chain 3 &&
        ! "$prog" --loans allreduce_doubling 4 | grep -q L
}

tables_are_cut() {
    stays_small allreduce_ring 1000 && shows "ranks 32-999 are not shown" allreduce_ring 1000 &&
        shows "steps 256-1998 are not shown" allreduce_ring 1000 && stays_small allreduce_tree 1000
}

# The last turn of every algorithm leaves each rank what the verifier, which goes on from there, accepts.
traces_end_right() {
    local sum="=r0+..+r3"
    shows "rank 1  1     -      -      -      -      <0 2:r0+r3" --trace allreduce_ring 4 || return 1
    [ "$("$prog" --trace allreduce_ring 4 | grep -c "^rank . .*  $sum  $sum  $sum  $sum  -$")" = 4 ] || return 1
    [ "$("$prog" --trace alltoall_direct 3 | tail -5 | grep -c "^rank .*  r0     r1     r2     -$")" = 3 ] || return 1
    for algorithm in $("$prog" --list | awk '{ print $1 }'); do
        shows "verified: $algorithm, 8 ranks on 2 nodes, root 0, 2 slots per connection" --nodes 2 --trace "$algorithm" 8 ||
            return 1
    done
    stays_small --trace allreduce_tree 1000 && shows "ranks 32-999 are not shown" --trace allreduce_tree 1000
}

failures_show_values() {
    local output
    output=$("$prog" --check --slots 1 allreduce_ring 3)
    [ $? = 1 ] && grep -qx "rank 1  -      -      -      <0 2:r0" <<<"$output" || { echo "$output"; return 1; }
}

# A tree of the tool's output in one line, without blanks.
tree() { "$prog" --chains "$@" | tr -d ' \n'; }

chains_have_forms() {
    shows "  0 > 1 > 2 > 3 > 0" --chains allreduce_ring 4 && shows "  0 > 1 > 2" --chains broadcast_chain 3 &&
        [ "$(tree allreduce_tree 4)" = "lane03<>1<>0<>2lane10<>2<>1<>3" ] &&
        [ "$(tree broadcast_tree 4 --root 1)" != "$(tree broadcast_tree 4)" ] &&
        shows "  each to each: 0,1,2,3" --chains allreduce_twoshot 4 && shows "  0 > 1 2" --chains allreduce_doubling 4 &&
        shows "lane 0, inside nodes" --chains --nodes 2 allreduce_hier 4 && shows "  1 > 3 > 1" --chains --nodes 2 allreduce_hier 4 &&
        shows "    < 2" --chains --nodes 4 allreduce_hiertree 8 && stays_small --chains allreduce_tree 1000 &&
        stays_small --chains allreduce_ring 1000
}

# Every connection once, both ways where both are used.
dot_is_a_graph() {
    shows "  subgraph cluster_1 { label=\"node 1\"; 2; 3; }" --dot --nodes 2 allreduce_ring 4 &&
        shows "  3 -> 0 [label=\"lane 0\"];" --dot allreduce_ring 4 &&
        [ "$("$prog" --dot allreduce_ring 4 | grep -c -e '->')" = 4 ] &&
        [ "$("$prog" --dot allreduce_twoshot 4 | grep -c -e '->')" = 24 ]
}

list_tells_order() {
    "$prog" --list | grep -q '^allreduce_oneshot .*; sums in rank order$' && ! "$prog" --list | grep -q '^allreduce_ring .*rank order'
}

# As the executors compute it: 262144 elements, 4 slices, 2 channels, chunks of 16384 elements.
geometry_has_numbers() {
    shows "slice    1  elements 65536-131071: 65536 elements, 262144 bytes" --geometry 262144 float &&
        shows "part     1  elements 98304-131071: 32768 elements, 131072 bytes" --geometry 262144 float &&
        shows "piece    1  elements 114688-131071: 16384 elements, 65536 bytes" --geometry 262144 float &&
        shows "piece    1  elements 106496-114687: 8192 elements, 16384 bytes" --geometry --chunk 16384 262144 half &&
        shows "piece    0  no elements" --geometry --ranks 4 --channels 1 1 float &&
        shows "piece    0  no elements" --geometry 0 half &&
        stays_small --geometry --ranks 1000 --channels 64 100000 float &&
        refuses "<type> is 'gold': it must be one of float double" --geometry 4 gold &&
        refuses "<count> or <type> is missing" --geometry 4
}

check geometry_is_a_picture_with_numbers geometry_has_numbers
check chains_show_rings_trees_and_crowds chains_have_forms
check the_list_says_which_algorithms_sum_in_rank_order list_tells_order
check dot_lists_every_connection dot_is_a_graph
check a_trace_ends_with_what_the_verifier_accepts traces_end_right
check a_failed_check_shows_what_is_held failures_show_values
# On a terminal a legend stands below the table; a pipe has the table alone.
people_get_a_legend() {
    local legend='^One row is one step: R receives, . reduces, ! stores to OUT, S sends'
    python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) != 0)' "$prog" allreduce_ring 4 </dev/null | tr -d '\r' | grep -q "$legend" &&
        ! "$prog" allreduce_ring 4 | grep "$legend"
}

! command -v python3 >/dev/null || check people_get_a_legend people_get_a_legend
check the_cells_of_a_table_name_peers cells_name_peers
check the_cells_of_a_table_tell_loans cells_tell_loans
check tables_of_a_thousand_ranks_are_cut_and_say_so tables_are_cut
check programs_as_text_are_the_programs text_is_the_programs
check changed_text_is_verified changed_text_is_verified
finish
