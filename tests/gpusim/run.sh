#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The library on the simulated GPU machine: its contract, gpu-accept and its program on one GPU and on several, processes that are
# shown one GPU each, parts of a GPU, links of several kinds, the perf programs, and overlap. `make test-gpu-sim` builds what it runs.
#
#   SIM=build/gpusim tests/gpusim/run.sh
#   SIM=build/gpusim tests/gpusim/run.sh full     every perf program, on 1, 2, 4 and 8 GPUs
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

sim=${SIM:-build/gpusim}
seed=${GPUSIM_SEED:-1}
limit=170 # seconds per case; eight GPUs take their time
[ "${1:-}" != full ] || limit=1700
# What the compiler read for the kernels (-MMD).
sources() { cat "${sim%/*}"/obj/src/kernels/exec_cuda*.d | tr -s ' \\' '\n' | grep -v ':' | sort -u; }
# Of all kernels, or of those that `make sass-lint` has looked at, if no kernel has changed since; else as many as a launch allows.
for file in "$sim/registers" "${sim%/*}/sass/registers"; do
    [ -f "$file" ] || continue
    newer=$(find $(sources) tests/gpu/sass.cu -newer "$file" -print -quit)
    if [ -z "$newer" ]; then
        export GPUSIM_REGISTERS=${GPUSIM_REGISTERS:-$file}
    else
        echo "$file is not used: $newer is newer"
    fi
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

accept() {
    local gpus=$1
    shift
    GPUSIM_GPUS=$gpus timeout $limit "$sim/test_accept" --slow --seed "$seed" "$@"
}

keeps_its_contract() { timeout $limit "$sim/test_$1"; }
teams_of_gpus_share_one_address() { timeout $limit "$sim/test_multicast"; }
mutations_fail() { BUILD=${sim%/*} timeout 300 "${sim%/*}/tests/gpusim/test_exec" 2 0; }
calls_per_collective() { timeout $limit "$sim/bench_calls" check; }
perf_on() { # GPUS PROGRAM option…
    local gpus=$1 program=$2
    shift 2
    GPUSIM_GPUS=$gpus timeout $limit "$sim/${program}_perf" -t "$gpus" -b 8 -e 4K -f 8 -n 2 -w 1 "$@"
}
# With windows, on two GPUs that NVLink joins; and on one GPU, in graphs. Every element is checked.
onesided_perf() {
    COLLET_TOPO_FILE=tests/gpusim/nvlink.xml GPUSIM_GPUS=2 timeout $limit "$sim/${1}_perf" --procs 2 -b 8 -e 64K -f 64 -n 2 -w 1 -R 2 &&
        GPUSIM_GPUS=1 timeout $limit "$sim/${1}_perf" -t 2 -b 8 -e 4K -f 64 -n 2 -G 3 -R 2
}
# Kernels do not get counts of blocks: what needs them is refused in words.
counts_are_refused_on() {
    ! perf_on "$@" >"$work/refused" 2>&1 && grep -q 'unsupported: .* is for communicators of host memory' "$work/refused" || { cat "$work/refused"; return 1; }
}
perf_over() { ( export GPUSIM_LINKS=$1 ${2:+COLLET_TOPO_FILE="$2"} && perf_on 4 all_reduce -f 64 ); }
overlap_on() { GPUSIM_GPUS=$1 timeout $limit "$sim/overlap" "$1" 256 1; }
messages_on_2() { GPUSIM_GPUS=2 timeout $limit "$sim/sendrecv_perf" -t 2 -b 1K -e 64K -f 64 -n 1 -w 1; }
# Both ranks are of one thread, which makes their windows in one group.
messages_in_windows_on_2() { GPUSIM_GPUS=2 timeout $limit "$sim/sendrecv_perf" -g 2 -b 1K -e 4K -f 4 -n 1 -w 1 -R 2; }
# Three ranks of one thread on two GPUs.
perf_names_gpus() {
    GPUSIM_GPUS=2 timeout $limit "$sim/all_reduce_perf" -g 3 -b 8 -e 8 -n 1 -w 0 -J "$work/perf.json" >"$work/perf" &&
        grep -qE '^#  Rank  1 .* device  1 \[0000:11:00\] Simulated GPU GPU-73696d20-6770-7520-3031-2f3030000000$' "$work/perf" &&
        grep -qE '^#  Rank  2 .* device  0 \[0000:10:00\] Simulated GPU GPU-73696d20-6770-7520-3030-2f3030000000$' "$work/perf" &&
        [ "$(grep -oE '"device_info": "Simulated GPU","device_uuid": "GPU-[0-9a-f-]+"' "$work/perf.json" | grep -c '303[01]-2f3030000000"$')" = 3 ] || { cat "$work"/perf*; return 1; }
}
perf_of_threads_in_graphs() { GPUSIM_GPUS=1 timeout $limit "$sim/all_reduce_perf" -t 2 -b 8 -e 4K -f 64 -n 2 -G 3; }
perf_of_processes_in_graphs() { GPUSIM_GPUS=1 timeout $limit "$sim/all_reduce_perf" --procs 2 -b 8 -e 4K -f 64 -n 2 -G 3; }
accept_device_on_2() { accept 2 device; }
accept_memory_on_2() { accept 2 memory; }
accept_windows_on_2() { COLLET_TOPO_FILE=tests/gpusim/nvlink.xml accept 2 windows; }
accept_rankgraphs_on() { CUDA_DEVICE_MAX_CONNECTIONS=32 accept "$1" rankgraphs; }
accept_abort_on_2() { accept 2 abort; }
accept_small_on_2() { accept 2 small; }
accept_lines_on_2() {
    COLLET_TOPO_FILE=tests/gpusim/nvlink.xml accept 2 small128 >"$work/lines" && ! grep 'on one GPU alone' "$work/lines" || { cat "$work/lines"; return 1; }
}

# The acceptance as it runs where a GPU is: the bundle's own folder, with the programs that run here, in an empty environment.
whole_acceptance() {
    mkdir -p "$work"/build/{tests/gpu,lib} && cp "$sim"/{one_program,beside} "$work/build/tests/gpu/" && cp "$sim/lib/libnccl.so.2" "$work/build/lib/" || return 1
    BUILD=$work/build scripts/gpu-accept-bundle.sh && mv "$work/build/gpu-accept-bundle" "$work/bundle" && rm -r "$work/build" || return 1
    (cd / && env -i PATH=/usr/bin:/bin GPUSIM_GPUS=1 ACCEPT_SLOW=1 timeout 600 "$work/bundle/scripts/gpu-accept.sh" 600)
}
report() { cat "$work/bundle/build/gpu-accept/report.txt"; }
report_says() { report | grep -qxE "$1" || { report; return 1; }; }
every_part_passes() {
    local parts others
    parts=$(report | sed '1,/^=== summary/d')
    others='^(sanitizer|latency, nvidia|processes, with MPS).* not run: |^(PyTorch|CuPy|JAX) .* skipped$'
    echo "$parts"
    [ "$(grep -c ' passed$' <<<"$parts")" = 21 ] && ! grep -vE "$others| passed\$" <<<"$parts"
}
# Nine columns, and rows of every part that measures.
figures_are_in_a_file() {
    local file=$work/bundle/build/gpu-accept/results.tsv part
    ! awk -F'\t' 'NF != 9' "$file" | grep . || return 1
    for part in modes limits sweep beside; do grep -qP "^$part\t" "$file" || { cat "$file"; return 1; }; done
}

# Two threads wait for the whole GPU between calls, as nccl-tests does. No kernel of one of them waits there for a call of the other one:
# whoever calls last launches for both.
whole_gpu_waits_get_through() {
    GPUSIM_GPUS=1 timeout $limit "$sim/beside" --library "$sim/lib/libnccl.so.2" --name collet --slow "$1" >"$work/memset" 2>&1
    [ "$(grep -c ' passes$' "$work/memset")" = 2 ] || { cat "$work/memset"; return 1; }
}

for part in runtime waits captures driver processes; do
    check "cuda_keeps_its_contract_in_test_$part" keeps_its_contract $part
done
check each_call_of_cuda_has_a_row_and_cases env CASES= tests/gpusim/calls.sh
check teams_of_gpus_share_one_address teams_of_gpus_share_one_address
check each_mutation_of_the_kernels_fails_under_a_seed mutations_fail
for name in streams_of_two_threads_with_one_handle_keep_the_order_of_calls \
    a_stream_with_the_handle_of_one_that_is_gone_keeps_the_order_of_calls \
    streams_of_two_threads_in_one_capture_keep_the_order_of_calls streams_with_one_handle_in_one_capture_keep_the_order_of_calls \
    a_stream_is_captured_again \
    a_communicator_ends_while_a_kernel_of_another_waits \
    a_communicator_of_two_processes_ends_while_a_kernel_of_another_waits \
    a_window_ends_while_a_kernel_of_another_communicator_waits what_a_graph_might_wait_for_is_unmapped_behind_its_communicator \
    a_death_ends_kernels_while_every_call_of_the_driver_waits an_abort_comes_through_while_every_call_of_the_driver_waits \
    a_process_that_ends_with_communicators_says_nothing a_rank_waits_for_its_gpu_before_its_call \
    a_rank_that_waits_for_its_gpu_before_its_message_is_named \
    a_reset_of_the_gpu_fails_its_communicators a_new_communicator_works_behind_a_reset \
    communicators_from_before_a_reset_end_before_new_ones processes_that_are_shown_one_gpu_each_use_nvlink parts_of_one_gpu_share_memory_of_the_host \
    memory_by_a_handle_outlives_its_communicator a_producer_polls_memory_of_its_own_gpu \
    a_producer_polls_memory_of_its_own_gpu_also_between_processes memory_of_heads_is_kept_until_all_have_come \
    windows_are_lent_between_processes_by_handle \
    windows_are_lent_between_processes_by_descriptor windows_are_lent_between_processes_that_are_shown_one_gpu_each \
    windows_of_gpus_that_pci_joins_are_not_lent a_window_that_may_not_be_read_fails_the_call \
    one_shot_in_place_lends_nothing copy_engines_fill_windows_without_a_kernel kernels_fill_windows_where_streams_write_no_words an_abort_comes_through_to_a_stream_that_waits_for_a_rank \
    a_window_that_may_not_be_written_fails_the_call switches_sum_windows_of_two_processes \
    switches_sum_windows_of_four_threads switches_sum_windows_of_sixteen_threads \
    switches_are_chosen_where_a_window_lets_them what_no_switch_can_do_lanes_do a_rank_that_cannot_leaves_all_without_a_team \
    without_a_fence_of_teams_sums_are_old without_the_signal_that_slices_are_there_sums_are_wrong \
    without_the_signal_that_sums_are_there_sums_are_wrong lines_are_for_gpus_that_store_them_whole \
    pieces_of_a_transfer_lie_in_every_way_to_each_other a_transfer_that_cannot_be_is_refused \
    a_message_has_a_channel_per_16_kib_up_to_the_limit no_collective_is_the_first_use_of_a_kernel \
    ranks_beyond_the_limit_of_peers_are_reached \
    a_call_of_processes_that_take_turns_has_few_switches processes_under_mps_share_a_gpu; do
    check "$name" timeout $limit "$sim/test_gpus" "$name"
done
for name in the_zero_policy_of_a_communicator_needs_no_kernel the_default_policy_launches_kernels the_environment_overrides_the_policy \
    other_memory_is_an_empty_window windows_are_left_one_by_one what_is_put_is_in_the_window_behind_its_signal \
    graphs_with_signals_are_replayed bad_signals_are_named; do
    check "$name" timeout $limit "$sim/test_nccl" "$name"
done
every_case_is_named_here() {
    local program name missing=0
    for program in test_gpus test_nccl; do
        for name in $("$sim/$program" --list); do
            grep -qw "$name" tests/gpusim/run.sh || { echo "$program $name"; missing=1; }
        done
    done
    return $missing
}
check every_case_is_named_here every_case_is_named_here
check a_collective_takes_one_launch_and_four_calls_or_five_and_copies calls_per_collective
for gpus in 1 2 4; do
    check "all_reduce_perf_runs_on_${gpus}_gpus" perf_on $gpus all_reduce
    check "overlap_runs_on_${gpus}_gpus" overlap_on $gpus
done
for program in put get; do
    check "${program}s_by_processes_and_in_graphs" onesided_perf $program
done
check sums_of_4_gpus_that_pci_joins perf_over PCI ''
check sums_of_4_gpus_that_nothing_joins perf_over none ''
check sums_of_2_pairs_of_gpus_as_a_topology_file_joins_them perf_over tests/gpusim/pairs.xml tests/gpusim/pairs.xml
threads_share_a_gpu() { timeout $limit "$sim/test_threads"; }
# One block per multiprocessor at most, and not one to spare.
on_16_multiprocessors() { GPUSIM_GPUS=1 GPUSIM_SMS=16 timeout $limit "$sim/all_reduce_perf" -t 8 -b 8 -e 512K -f 65536 -n 1 -w 0; }
check ranks_of_2_to_16_threads_share_a_gpu_with_eight_queues_beside_busy_streams threads_share_a_gpu
on_8_queues() { GPUSIM_GPUS=1 timeout $limit "$sim/all_reduce_perf" -t "$1" -b 8 -e 8 -n 1 -w 0; }
# More ranks than queues are warned of. Their calls go together, whoever made the ranks: so they end.
calls_of_12_threads() { GPUSIM_GPUS=1 GPUSIM_SMS=132 timeout $limit "$sim/$1_perf" -t 12 -b 8 -e 8 -n 1 -w 0 >"$work/queues" 2>&1; }
more_ranks_than_queues_are_warned_of() {
    for name in sendrecv all_reduce; do
        calls_of_12_threads $name && grep -q '9 ranks of this process share GPU 0, whose streams share 8 queues' "$work/queues" || { cat "$work/queues"; return 1; }
        CUDA_DEVICE_MAX_CONNECTIONS=32 calls_of_12_threads $name && ! grep 'queues' "$work/queues" || { cat "$work/queues"; return 1; }
    done
}
check more_ranks_than_queues_are_warned_of more_ranks_than_queues_are_warned_of
check sums_of_7_threads_on_a_gpu on_8_queues 7
check sums_of_8_threads_on_a_gpu on_8_queues 8
check ranks_of_8_threads_share_a_gpu_of_16_multiprocessors on_16_multiprocessors
check messages_of_several_lengths_arrive messages_on_2
check messages_arrive_in_windows messages_in_windows_on_2
check sums_of_2_gpus_are_right_in_windows perf_on 2 all_reduce -f 64 -R 2
for name in each_wrong_element_is_counted every_element_of_a_large_buffer_is_looked_at host_and_gpu_agree_on_every_type_and_operator \
    a_kernel_that_overlooks_something_is_found_out what_is_read_is_what_the_stream_wrote a_kernel_that_waits_does_not_keep_another_rank_from_filling; do
    check "$name" timeout $limit "$sim/test_perf" "$name"
done
check perf_programs_name_gpus perf_names_gpus
check graphs_of_2_threads_are_launched_again perf_on 2 all_reduce -f 64 -G 3
check graphs_of_3_ranks_of_a_thread_are_launched_again perf_on 1 all_reduce -g 3 -f 64 -G 3 -o avg
check graphs_of_2_threads_on_one_gpu_are_launched_again perf_of_threads_in_graphs
check graphs_of_2_processes_on_one_gpu_are_launched_again perf_of_processes_in_graphs
check perf_fills_and_checks_every_type_and_operator perf_on 1 all_reduce -g 3 -b 200 -e 200 -n 1 -w 0 -d all -o all
check the_acceptance_leaves_the_current_gpu_alone accept_device_on_2
check the_acceptance_uses_every_kind_of_memory_of_2_gpus accept_memory_on_2
check the_acceptance_fills_windows_of_2_gpus accept_windows_on_2
check the_acceptance_aborts_a_hung_rank accept_abort_on_2
check the_whole_acceptance_passes_on_1_gpu_from_its_bundle whole_acceptance
check its_report_says_what_can_be_done_here report_says '  can     graphs'
check its_report_says_what_cannot_be_done_here report_says '  cannot  LL128 between GPUs 0 and 1: there is one GPU'
check every_part_of_it_passes_but_those_of_a_sanitizer every_part_passes
check its_figures_are_in_a_file figures_are_in_a_file
check its_tuning_file_has_constants_of_gpus report_says 'gpu\.block +[0-9.]+ +ns'
check the_acceptance_runs_all_collectives_on_2_gpus accept_small_on_2
check the_acceptance_runs_all_collectives_in_LL128_between_2_gpus accept_lines_on_2
for gpus in 1 2; do
    check "the_acceptance_passes_with_a_graph_of_each_rank_on_${gpus}_gpus" accept_rankgraphs_on $gpus
done
check threads_that_wait_for_the_whole_gpu_between_calls_get_through whole_gpu_waits_get_through memset
check threads_that_wait_for_the_whole_gpu_between_messages_get_through whole_gpu_waits_get_through messages
for part in streams processes graphs; do
    check "the_acceptance_passes_with_${part}_on_2_gpus" accept 2 $part
done
# Under 20 seeds the sums are right, and under 19 of them at least a mutation of test_gpus.c is found.
under_20_seeds() {
    local name=$1 least=$2 passed=0 k
    for k in {1..20}; do
        GPUSIM_SEED=$k timeout $limit "$sim/test_gpus" "$name" >"$work/seed" 2>&1 && passed=$((passed + 1)) || tail -n 5 "$work/seed"
    done
    echo "$name: $passed of 20 seeds"
    [ $passed -ge "$least" ]
}

if [ "${1:-}" = full ]; then
    for name in switches_sum_windows_of_two_processes switches_sum_windows_of_four_threads; do
        check "${name}_under_20_seeds" under_20_seeds $name 20
    done
    for name in without_a_fence_of_teams_sums_are_old without_the_signal_that_slices_are_there_sums_are_wrong \
        without_the_signal_that_sums_are_there_sums_are_wrong; do
        check "${name}_under_20_seeds" under_20_seeds $name 19
    done
    check all_reduce_perf_runs_on_8_gpus perf_on 8 all_reduce
    check overlap_runs_on_8_gpus overlap_on 8
    for gpus in 4 8; do
        check "the_acceptance_leaves_the_current_gpu_alone_of_${gpus}" accept $gpus device
        check "the_acceptance_replays_graphs_on_${gpus}_gpus" accept $gpus graphs
    done
    for gpus in 1 2 4 8; do
        for program in "$sim"/*_perf; do
            program=${program##*/} program=${program%_perf}
            case $program in
            all_reduce) ;;
            all_gatherv | alltoallv | reduce_scatterv) check "${program}_perf_is_refused_on_${gpus}_gpus" counts_are_refused_on $gpus "$program" ;;
            *) check "${program}_perf_runs_on_${gpus}_gpus" perf_on $gpus "$program" ;;
            esac
        done
    done
fi
finish
