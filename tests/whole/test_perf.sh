#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the perf programs print: a right row for every size, out of place and in place where the collective has that, and the
# columns of each flag. And what collet-plot makes of it.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

bin=${BUILD:-build}/bin
for program in barrier_perf hypercube_perf collet-plot; do
    [ -x "$bin/$program" ] || { echo "$program is not built in $bin"; exit 77; }
done
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
out=$scratch/out

run() { # program arguments…: its output in $out
    timeout 60 "$bin/$1" "${@:2}" -n 2 >"$out" 2>"$scratch/errors" || { echo "exit status $?"; cat "$out" "$scratch/errors"; return 1; }
}

rows() { grep -v '^#' "$out" | grep . ; }

# The columns 1 size, 2 count, 4 redop, 5 root, 9 #wrong, 13 #wrong in place of each row, one after another.
shows() { # expected
    [ "$(rows | awk '{ printf "%s%s %s %s %s %s %s", (NR > 1 ? ", " : ""), $1, $2, $4, $5, $9, $13 }')" = "$1" ] || { cat "$out"; return 1; }
}

# Those that nccl-tests has, by its names, on 4 ranks: sums are checked element by element.
every_program_of_nccl_tests_passes() {
    local name
    for name in all_gather all_reduce alltoall broadcast gather hypercube reduce reduce_scatter scatter sendrecv; do
        run "${name}_perf" --procs 4 -b 4096 -e 65536 -f 16 && grep -q '^# Out of bounds values : 0 OK' "$out" && [ "$(rows | wc -l)" = 2 ] ||
            { echo "$name"; cat "$out"; return 1; }
    done
    run alltoallv_perf --procs 4 -b 4096 -e 65536 -f 16 && grep -q '^# Out of bounds values : 0 OK' "$out" || { cat "$out"; return 1; }
}

# Blocks are whole multiples of 16 bytes, so a row of 1000 bytes on 3 ranks has 3·80 elements of 4 bytes.
ranks_on_host_memory_name_the_cpu() {
    run all_reduce_perf -t 2 -b 8 -e 8 && [ "$(grep -cE '^#  Rank  [01] .* device -1 \[0000:00:00\] [^ ]' "$out")" = 2 ] || { head -8 "$out"; return 1; }
}
gathers_to_every_root() {
    run gather_perf --procs 3 -b 1000 -e 1000 -r -1 && shows "960 80 none 0 0 0, 960 80 none 1 0 0, 960 80 none 2 0 0"
}
scatters_from_every_root() {
    run scatter_perf --procs 3 -b 1000 -e 1000 -r -1 && shows "960 80 none 0 0 0, 960 80 none 1 0 0, 960 80 none 2 0 0"
}

# 3 ranks: blocks of 0, 1 and 2 units. 4 ranks: 6 units in all.
blocks_differ() {
    run alltoallv_perf --procs 3 -b 1000 -e 100000 -f 100 && shows "960 240 none -1 0 N/A, 99984 24996 none -1 0 N/A" &&
        run alltoallv_perf -t 2 -g 2 -b 1000 -e 1000 -d int8 && shows "960 960 none -1 0 N/A" &&
        run alltoallv_perf -b 1000 -e 1000 && shows "0 0 none -1 0 N/A"
}
# How the calls of such a run are done, as the ranks' logs say.
plans_of() { # collective
    COLLET_DEBUG=INFO COLLET_DEBUG_SUBSYS=PLAN run "$1_perf" --procs 3 -b 96 -e 6M -f 256 && grep -o "PLAN $1 .*" "$scratch/errors" | sort -u
}
# Ranks that are not of a pair do not know its counts, and yet all plan alike: there is one plan, whatever the counts. Counts
# that all know make several.
plans_do_not_know_counts_of_pairs() {
    local plans others
    plans=$(plans_of alltoallv) && others=$(plans_of alltoall) &&
        [ "$(wc -l <<<"$plans")" = 1 ] && [ "$(wc -l <<<"$others")" -gt 1 ] || { echo "$plans"; echo "$others"; return 1; }
}
ranks_have_blocks_of_their_own_lengths() {
    run all_gatherv_perf --procs 3 -b 1000 -e 100000 -f 100 && shows "960 240 none -1 0 N/A, 99984 24996 none -1 0 N/A" &&
        run all_gatherv_perf -b 1000 -e 1000 && shows "0 0 none -1 0 N/A" &&
        run reduce_scatterv_perf --procs 3 -b 1000 -e 1000 -o all && shows "960 240 sum -1 0 N/A, 960 240 prod -1 0 N/A, 960 240 max -1 0 N/A, 960 240 min -1 0 N/A, 960 240 avg -1 0 N/A, 960 240 mulsum -1 0 N/A" &&
        run reduce_scatterv_perf -t 2 -g 2 -b 1000 -e 1000 -d int8 && shows "960 960 sum -1 0 N/A"
}

# Whatever COLLET_DEBUG is: who sets a variable wants to know that it is not followed.
says_which_name_it_cannot_follow() {
    COLLET_ALGO=hier run all_reduce_perf --procs 2 -b 8 -e 8 && grep -q 'COLLET_ALGO names hier, which takes' "$scratch/errors" "$out" ||
        { echo "nothing is said of hier"; cat "$scratch/errors"; return 1; }
}

# Only blocks that travel count: 3 of 4.
bandwidth_is_of_what_travels() {
    rows | awk '{ want = 0.75 * $1 / $6 / 1e3; if ($7 < want * 0.9 - 0.01 || $7 > want * 1.1 + 0.01 || $7 != $8) { print; exit 1 } }'
}
crosses_a_cube() {
    run hypercube_perf --procs 4 -b 4096 -e 65536 -f 16 && shows "4096 256 none -1 0 0, 65536 4096 none -1 0 0" &&
        bandwidth_is_of_what_travels && run hypercube_perf -t 2 -b 64 -e 64 && shows "64 8 none -1 0 0"
}

refuses() { # words program arguments…
    local output
    output=$("$bin/$2" "${@:3}" 2>&1 >/dev/null)
    [ $? = 2 ] && [ "$output" = "$1" ] || { echo "$output"; return 1; }
}
is_no_cube() {
    refuses "hypercube_perf: the number of ranks must be a power of two" hypercube_perf --procs 3 -b 8 -e 8 &&
        refuses "hypercube_perf: its phases come one after the other, which no group allows: leave out -g and -m" hypercube_perf -g 2
}

# Puts and gets, checked element by element.
goes_one_sided() {
    local name
    for name in put get; do
        run "${name}_perf" --procs 3 -b 4096 -e 4M -f 1024 && shows "4096 1024 none -1 0 N/A, 4194304 1048576 none -1 0 N/A" &&
            COLLET_TRANSPORT=tcp run "${name}_perf" --procs 2 -b 4096 -e 4M -f 1024 && shows "4096 1024 none -1 0 N/A, 4194304 1048576 none -1 0 N/A" &&
            run "${name}_perf" -t 2 -b 64 -e 64 && shows "64 16 none -1 0 N/A" &&
            refuses "${name}_perf: a thread has one rank here: puts and gets are not part of a group (-g 1)" "${name}_perf" -g 2 || return 1
    done
}

# A graph is of calls in streams, and its iterations are not timed one by one.
host_memory_has_no_graphs() {
    refuses "-G 2: needs a GPU; calls on host memory cannot be captured" all_reduce_perf --host 1 -b 8 -e 8 -G 2 &&
        refuses "-G 2: needs a GPU; calls on host memory cannot be captured" all_reduce_perf --host 1 --procs 2 -b 8 -e 8 -G 2 &&
        refuses "-G 1: a graph holds all iterations, and nothing waits between them: leave out -I and -z" all_reduce_perf -G 1 -I 1
}

meets_once() { run barrier_perf --procs 3 -d all && shows "0 0 none -1 0 N/A" && rows | grep -q ' none '; }

# The same number as in the words of --plan.
predicts() {
    run all_reduce_perf --procs 2 -b 64 -e 64K -f 32 --predict 1 --plan 1 || return
    grep -q '^# *size .*#wrong  predict' "$out" && rows | awk '
        { said = $0; sub(/.*predicted /, "", said); sub(/ .*/, "", said); rows++; if ($14 + 0 != said + 0 || said + 0 <= 0) wrong = 1 }
        END { exit wrong || rows != 3 }' || { cat "$out"; return 1; }
}

messages_have_no_prediction() { run sendrecv_perf --procs 2 -b 64 -e 64 --predict 1 && rows | grep -qE 'N/A +N/A$' || { cat "$out"; return 1; }; }

registers() {
    run all_reduce_perf --procs 2 -b 8 -e 4M -f 700 -R 1 && grep -q '^# Local Register Enabled' "$out" &&
        [ "$(rows | awk '$9 == 0 && $13 == 0' | wc -l)" = 3 ] && run all_gather_perf -t 3 -b 1000 -e 1000 -u 3 -R 1 &&
        shows "960 80 none -1 0 0" && refuses "-R 3: must be 0 to 2" all_reduce_perf -R 3
}

# A thread makes the windows of both of its ranks at once.
makes_windows() {
    run all_reduce_perf --procs 2 -g 2 -b 8 -e 4M -f 700 -R 2 -J "$scratch/result.json" &&
        grep -q '^# Symmetric Register Enabled' "$out" && grep -qE '"local_register": *2' "$scratch/result.json" &&
        [ "$(rows | awk '$9 == 0 && $13 == 0' | wc -l)" = 3 ] || { cat "$out"; return 1; }
}

first_call_has_a_time() {
    run reduce_perf --procs 2 -b 8 -e 8 -J "$scratch/result.json" && grep -qE '^# First call +: [0-9]+ us' "$out" &&
        grep -qE '"first_call_us": *[0-9.]*[1-9]' "$scratch/result.json" || { cat "$out"; return 1; }
}

# ---- collet-plot: a table of two programs, as they print it ----

table() {
    cat <<'END'
# Collective test starting: all_reduce_perf
#  Rank  0 Group  0 Pid 1 on h device -1 [0000:00:00] `touch pwned`
#  Rank  1 Group  0 Pid 2 on h device -1 [0000:00:00] CPU
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong  predict
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)             (us)
           0             0     float     sum      -1     1.00    0.00    0.00       0     1.00    0.00    0.00       0     0.10
        1024           256     float     sum      -1     2.50    0.00    0.00       0     9.00    0.00    0.00       0     2.00
     1048576        262144     float     sum      -1   250.00    0.00    0.00       0     9.00    0.00    0.00       0      N/A
# Collective test starting: reduce_perf
#  Rank  0 Group  0 Pid 1 on h device -1 [0000:00:00] CPU
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
        1024           256      half    `max`       0     7.00    0.00    0.00       0     9.00    0.00    0.00       0
END
}

draws_dots_and_curves() {
    local script
    script=$(table | "$bin/collet-plot" --script --output 'a"b.svg') && diff <(sed '/^set/d' <<<"$script") - <<'EXPECTED'
$series0 << END
1024 2.5 2
1048576 250 0
END
$series1 << END
1024 7 0
END
plot $series0 using 1:2 with points pointtype 7 linecolor 1 title "all_reduce_perf, 2 ranks, float sum", $series0 using 1:($3 > 0 ? $3 : NaN) with lines linecolor 1 title 'predicted', $series1 using 1:2 with points pointtype 7 linecolor 2 title "reduce_perf, 1 ranks, half  max  from 0"
EXPECTED
}

plot_refuses_what_it_cannot_draw() {
    refuses "collet-plot: no rows of a perf program with at least one byte" collet-plot /dev/null &&
        ! "$bin/collet-plot" "$scratch/none" 2>"$scratch/errors" && grep -q "FILE is '$scratch/none'" "$scratch/errors" || { cat "$scratch/errors"; return 1; }
}

# With no directory to look in, the shell that collet-plot starts finds no gnuplot.
names_the_package() {
    ! table | PATH=$scratch "$(realpath "$bin")/collet-plot" 2>"$scratch/errors" && grep -q 'apt-get install gnuplot-nox' "$scratch/errors" ||
        { cat "$scratch/errors"; return 1; }
}

makes_an_svg() {
    table | "$bin/collet-plot" --output "$scratch/plot.svg" && grep -q '<svg' "$scratch/plot.svg" && grep -q 'all_reduce_perf, 2 ranks' "$scratch/plot.svg"
}

check every_program_of_nccl_tests_passes_on_host_memory every_program_of_nccl_tests_passes
check ranks_on_host_memory_have_no_gpu_and_name_the_cpu ranks_on_host_memory_name_the_cpu
check gather_perf_has_a_row_for_each_root gathers_to_every_root
check scatter_perf_has_a_row_for_each_root scatters_from_every_root
check alltoallv_perf_sends_blocks_of_different_lengths blocks_differ
check every_alltoallv_has_one_plan_whatever_its_counts plans_do_not_know_counts_of_pairs
check all_gatherv_and_reduce_scatterv_perf_have_blocks_of_different_lengths ranks_have_blocks_of_their_own_lengths
check an_algorithm_that_takes_other_ranks_is_said_not_to_be_used says_which_name_it_cannot_follow
check hypercube_perf_counts_the_blocks_that_travel crosses_a_cube
check hypercube_perf_refuses_ranks_that_make_no_cube is_no_cube
check put_perf_and_get_perf_go_one_sided goes_one_sided
check barrier_perf_has_one_row_without_bytes meets_once
check graphs_are_refused_on_host_memory host_memory_has_no_graphs
check predict_adds_the_time_that_the_plan_names predicts
check messages_have_no_prediction messages_have_no_prediction
check registered_buffers_give_the_same_results registers
check buffers_in_windows_give_the_same_results makes_windows
check the_first_call_has_a_time_of_its_own first_call_has_a_time
check collet_plot_draws_a_dot_for_each_row_and_a_curve_of_predictions draws_dots_and_curves
check collet_plot_refuses_what_it_cannot_draw plot_refuses_what_it_cannot_draw
check without_gnuplot_collet_plot_names_the_package names_the_package
if command -v gnuplot >/dev/null; then
    check collet_plot_makes_an_svg makes_an_svg
else
    skipped "collet_plot_makes_an_svg: gnuplot is not installed"
fi
finish
