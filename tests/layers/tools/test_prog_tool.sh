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

# What all ranks read or write, in lines: own memory, payload, headers, loans, tails, heads; then all, and bytes.
lines_of() { # reads|writes arguments…
    "$prog" --lines "${@:2}" | awk -v does="$1" '$1 == "all" { everyone = 1 } everyone && $(NF - 8) == does { $1 = $1; print }' |
        sed -E 's/^(all ranks )?(reads|writes) //'
}

moves() { # wanted reads|writes arguments…
    local got
    got=$(lines_of "${@:2}")
    [ "$got" = "$1" ] || { echo "${*:2}: $got, and not $1"; return 1; }
}

# Each number is worked out by hand from what the algorithms and protocols say. A producer looks at each head once in 8 messages.
lines_are_counted() {
    # A broadcast of 8 bytes to 15 others, in LL: IN of the root and OUT of 16 ranks have a line each. The root writes one line, with
    # its flags; 15 read it, and write a head each. 15 heads / 8 = 1.9 are read.
    moves "1 15 0 0 0 1.9 17.9 128" reads --bytes 8 --proto LL broadcast_direct 16 &&
        moves "16 1 0 0 0 15 32 136" writes --bytes 8 --proto LL broadcast_direct 16 &&
        # Between pairs the root writes 15 lines.
        COLLET_FANS=0 moves "16 15 0 0 0 15 46 248" writes --bytes 8 --proto LL broadcast_direct 16 &&
        # An allreduce of 8 bytes, one-shot: 16 ranks write a line each, and read the 15 others. Each reads IN twice: to send, to sum.
        moves "16 16 0 0 0 240 272 256" writes --bytes 8 --proto LL allreduce_oneshot 16 &&
        moves "32 240 0 0 0 30 302 2176" reads --bytes 8 --proto LL allreduce_oneshot 16 &&
        # Doubling: each of 16 ranks writes and reads one line on each of 4 levels. It reads IN for its first message and its first sum, and
        # OUT for three more sums; four sums go to OUT.
        moves "64 64 0 0 0 64 192 1024" writes --bytes 8 --proto LL allreduce_doubling 16 &&
        moves "80 64 0 0 0 8 152 1152" reads --bytes 8 --proto LL allreduce_doubling 16 &&
        # An allgather of 16 blocks of 4 KB = 64 lines: each is written to OUT of 16 ranks, and once for 15 readers.
        moves "16384 1024 16 0 16 240 17680 1114112" writes --bytes 64K allgather_direct 16 &&
        moves "1024 15360 240 0 240 30 16894 1048576" reads --bytes 64K allgather_direct 16 &&
        # Two-shot, 64 KB = 16 slices of 64 lines. Written: 15 slices to their owners and one result, by each of 16 ranks; with them go 16
        # headers and tails. Read: 15 slices and 15 results. OUT has 1024 lines; IN is read whole, 15 slices to send and one to sum.
        moves "16384 16384 256 0 256 480 33760 2097152" writes --bytes 64K allreduce_twoshot 16 &&
        moves "16384 30720 480 0 480 60 48124 3014656" reads --bytes 64K allreduce_twoshot 16 &&
        # With registered buffers nothing is put into slots, and only the own slice is read here. Each of the 15 slices that a rank reads is
        # claimed. Each producer looks at all heads of its 30 readers, because its loans must be over.
        moves "16384 0 256 240 256 480 17616 1048576" writes --registered --bytes 64K allreduce_twoshot 16 &&
        moves "1024 30720 480 0 480 480 33184 2031616" reads --registered --bytes 64K allreduce_twoshot 16 &&
        # Each block of an alltoall has one reader: 4 ranks write 3 blocks of 16 lines each.
        moves "256 192 12 0 12 12 484 28672" writes --bytes 4K alltoall_direct 4
}

rows_of_messages_are_counted() {
    shows "in a row: 1 message, 1 line: of each its reader fetches a line with its flag" --lines --bytes 8 --proto LL allreduce_oneshot 16 &&
        shows "in a row: 4 messages, 4 lines: of each its reader fetches a line with its flag" --lines --bytes 8 --proto LL allreduce_doubling 16 &&
        shows "in a row: 2 messages, 6 lines: of each its reader fetches tail, header, data" --lines allreduce_twoshot 16 &&
        shows "in a row: 30 messages, 90 lines: of each its reader fetches tail, header, data" --lines allreduce_ring 16
}

lines_refuse() {
    refuses "--nodes is '2': it must be left out" --lines --nodes 2 allreduce_ring 4 &&
        refuses "<ranks> with --lines is '257': it must be a whole number from 1 to 256" --lines allreduce_ring 257 &&
        refuses "--bytes is '8': it must be a multiple of 64" --lines --bytes 8 allgather_direct 16 &&
        refuses "--bytes is 'many': it must be a size" --lines --bytes many allreduce_ring 4 &&
        refuses "--bytes is '8': it must be left out" --lines --bytes 8 barrier_oneshot 4 &&
        refuses "--proto is 'LL129': .*did you mean LL128" --lines --proto LL129 allreduce_ring 4 &&
        refuses "--chunk is '8192': it must be a whole number from 4 to 4096" --lines --proto LL --chunk 8192 allreduce_ring 4 &&
        refuses "--type is 'gold'" --lines --type gold allreduce_ring 4 && COLLET_FANS=some refuses "COLLET_FANS" --lines allreduce_ring 4
}

check geometry_is_a_picture_with_numbers geometry_has_numbers
check lines_are_what_is_worked_out_by_hand lines_are_counted
check messages_in_a_row_are_counted rows_of_messages_are_counted
check lines_name_the_argument_that_is_wrong lines_refuse
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
