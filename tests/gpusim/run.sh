#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The library on the simulated GPU machine: its contract, gpu-accept's program on one GPU and on several, processes that are
# shown one GPU each, parts of a GPU, and the perf programs. `make test-gpu-sim` builds what it runs.
#
#   SIM=build/gpusim tests/gpusim/run.sh
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

sim=${SIM:-build/gpusim}
seed=${GPUSIM_SEED:-1}

accept() {
    local gpus=$1
    shift
    GPUSIM_GPUS=$gpus timeout 170 "$sim/test_accept" --slow --seed "$seed" "$@"
}

the_runtime_keeps_cudas_contract() { timeout 170 "$sim/test_runtime"; }
calls_per_collective() { timeout 170 "$sim/bench_calls" check; }
perf_on() { GPUSIM_GPUS=$1 timeout 170 "$sim/all_reduce_perf" -t "$1" -b 8 -e 4K -f 8 -n 2 -w 1; }
messages_on_2() { GPUSIM_GPUS=2 timeout 170 "$sim/sendrecv_perf" -t 2 -b 1K -e 64K -f 64 -n 1 -w 1; }
accept_device_on_2() { accept 2 device; }
accept_memory_on_2() { accept 2 memory; }
accept_streams_on_1() { accept 1 streams; }
accept_graphs_on_1() { accept 1 graphs; }
accept_abort_on_2() { accept 2 abort; }
accept_small_on_1() { accept 1 small small128; }
accept_small_on_2() { accept 2 small; }

check the_runtime_keeps_cudas_contract the_runtime_keeps_cudas_contract
for name in streams_of_two_threads_with_one_handle_keep_the_order_of_calls \
    a_stream_with_the_handle_of_one_that_is_gone_keeps_the_order_of_calls \
    a_communicator_ends_while_a_kernel_of_another_waits an_abort_comes_through_while_every_call_of_the_driver_waits \
    processes_that_are_shown_one_gpu_each_use_nvlink parts_of_one_gpu_share_memory_of_the_host \
    memory_by_a_handle_outlives_its_communicator; do
    check "$name" timeout 170 "$sim/test_gpus" "$name"
done
check a_collective_takes_one_launch_and_four_calls calls_per_collective
check all_reduce_perf_runs_on_2_gpus perf_on 2
check all_reduce_perf_runs_on_4_gpus perf_on 4
check messages_of_one_channel_and_of_four_arrive messages_on_2
check the_acceptance_leaves_the_current_gpu_alone accept_device_on_2
check the_acceptance_uses_every_kind_of_memory_of_2_gpus accept_memory_on_2
check the_acceptance_keeps_order_in_many_streams accept_streams_on_1
check the_acceptance_replays_graphs accept_graphs_on_1
check the_acceptance_aborts_a_hung_rank accept_abort_on_2
check the_acceptance_runs_all_collectives_on_1_gpu accept_small_on_1
check the_acceptance_runs_all_collectives_on_2_gpus accept_small_on_2
finish
