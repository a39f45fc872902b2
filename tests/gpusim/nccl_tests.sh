#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# nccl-tests, as their authors have them, on the simulated GPU machine: built by their own Makefile with our nccl.h, linked with
# our libnccl.so.2 and the simulated runtime, which is a libcudart.so here. NCCL_TESTS=folder names their sources.
#
#   SIM=build/gpusim tests/gpusim/nccl_tests.sh          each program once, and each way to run them
#   SIM=build/gpusim tests/gpusim/nccl_tests.sh all      all types and operators, on 1 to 4 GPUs
#   SIM=build/gpusim tests/gpusim/nccl_tests.sh host     on host memory only
#
# On host memory (COLLET_DEVICE=host) the simulated GPUs run no kernel of collet. They run those of nccl-tests, which fill the buffers
# and check the results.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

sim=$PWD/${SIM:-build/gpusim}
built=$sim/nccl-tests
libraries=$sim/lib
host_libraries=$(dirname "$sim")/lib:$sim/lib
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
cuda=$(dirname "$(dirname "$(realpath "$nvcc")")")
mpi_home=${MPI_HOME:-$(mpicc --showme:libdirs 2>/dev/null | sed 's|/lib$||')}
programs=(all_gather all_reduce alltoall alltoallv broadcast gather hypercube reduce reduce_scatter scatter sendrecv)

if ! [ -d "${NCCL_TESTS:-/nowhere}/src" ] || ! [ -x "$nvcc" ]; then
    skipped "nccl-tests: NCCL_TESTS does not name their sources, or there is no nvcc"
    finish
fi

# FOLDER, PROGRAMS, options of their Makefile. PTX of the lowest architecture is what the machine executes.
build() {
    local folder=$1 list=$2 arch
    shift 2
    arch=$("$nvcc" --list-gpu-arch | sed 's/compute_//' | sort -n | awk '$1 >= 70' | head -n 1)
    mkdir -p "$sim/nccl-home/include" "$sim/nccl-home/lib" "$sim/nccl-tests-sources" || return 1
    cp -u include/compat/*.h "$sim/nccl-home/include/"
    ln -sf "$(ls "$sim/lib/libnccl.so.2" "$(dirname "$sim")/lib/libnccl.so.2" 2>/dev/null | head -n 1)" "$sim/nccl-home/lib/libnccl.so"
    cp -ru "$NCCL_TESTS/." "$sim/nccl-tests-sources/"
    make -C "$sim/nccl-tests-sources/src" -j2 build BUILDDIR="$folder" NVCC="$nvcc" CUDA_HOME="$cuda" \
        CUDA_LIB="$sim/lib" NCCL_HOME="$sim/nccl-home" NVCC_GENCODE="-gencode=arch=compute_$arch,code=compute_$arch" BIN_FILES_LIST="$list" "$@" \
        >"$sim/nccl-tests.log" 2>&1 || { tail -n 20 "$sim/nccl-tests.log"; return 1; }
}
# The slow part of the build is the same with MPI and without.
build_with_mpi() {
    mkdir -p "$built-mpi/verifiable" && cp -pu "$built"/verifiable/verifiable.o "$built-mpi/verifiable/" || return 1
    build "$built-mpi" "$1" MPI=1 MPI_HOME="$mpi_home"
}
links_ours() { ! LD_LIBRARY_PATH=$libraries ldd "$built/all_reduce_perf" | grep -E 'libnccl|libcudart' | grep -vE "=> (${libraries//:/|})/"; }

# GPUS PROGRAM option…: the program's own check must find nothing wrong.
run() {
    local gpus=$1 program=$2
    shift 2
    GPUSIM_GPUS=$gpus LD_LIBRARY_PATH=$libraries timeout "${limit:-170}" "$built/${program}_perf" -n 1 -w 0 "$@" >"$sim/nccl-tests.out" 2>&1 &&
        grep -q '^# Out of bounds values : 0 OK' "$sim/nccl-tests.out" || { tail -n 40 "$sim/nccl-tests.out"; return 1; }
}
run_processes() {
    local gpus=$1 program=$2
    shift 2
    GPUSIM_GPUS=$gpus LD_LIBRARY_PATH=$libraries OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        timeout 170 mpirun --oversubscribe -n "$gpus" "$built-mpi/${program}_perf" -n 1 -w 0 "$@" >"$sim/nccl-tests.out" 2>&1 &&
        grep -q '^# Out of bounds values : 0 OK' "$sim/nccl-tests.out" || { tail -n 40 "$sim/nccl-tests.out"; return 1; }
}

# How: run or run_processes. Two GPUs, options.
each_program() {
    local how=$1
    shift
    for program in "${programs[@]}"; do "$how" 2 "$program" "$@" -b 256 -e 256 -c 1 || { echo "$program"; return 1; }; done
}
# With -g, one thread calls for all its GPUs in one group. The phases of a hypercube come one after the other, which no group allows.
types_and_operators() {
    local gpus=-g
    [ "$2" != hypercube ] || gpus=-t
    limit=3000 run "$1" "$2" "$gpus" "$1" -b 512 -e 512 -d all -o all
}

# ---- on host memory ----

# There a call has done its work when it returns, and has no stream. So the runtime has one stream, NULL, whose copies are done at once.
# Buffers are memory of collet; the simulated GPUs may touch what is registered with them.
cat >"$sim/host_memory.c" <<'LIBRARY'
#include <nccl.h>
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) { *stream = NULL; return (void)flags, cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return (void)stream, cudaSuccess; }
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return (void)stream, cudaMemcpy(to, from, bytes, kind);
}
ncclResult_t ncclMemAlloc(void **memory, size_t bytes) {
    ncclResult_t result = pncclMemAlloc(memory, bytes);
    return result != ncclSuccess || cudaHostRegister(*memory, bytes, 0) == cudaSuccess ? result : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void *memory) {
    return cudaHostUnregister(memory) == cudaSuccess ? pncclMemFree(memory) : ncclUnhandledCudaError;
}
LIBRARY
cat >"$sim/wrong_sum.c" <<'LIBRARY'
#include <nccl.h>
ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    ncclResult_t result = pncclAllReduce(in, out, count, type, op, comm, stream);
    ((char *)out)[3] ^= 0x10;
    return result;
}
LIBRARY
preloads_are_built() {
    local name
    for name in host_memory wrong_sum; do
        gcc -shared -fPIC -Wall -Wextra -Werror -Iinclude/compat -I"$cuda/include" "$sim/$name.c" -o "$sim/$name.so" || return 1
    done
}
preloads=$sim/host_memory.so
on_host() { COLLET_DEVICE=host LD_PRELOAD="$preloads" libraries=$host_libraries "$@"; }

programs_on_host() { # RANKS how
    local ranks=$1
    shift
    for program in "${programs[@]}"; do
        [ "$program $ranks" = 'hypercube 3' ] || on_host run "$ranks" "$program" "$@" -b 1K -e 1K -c 1 || return 1
    done
}
wrong_sums_are_found() {
    local preloads="$preloads $sim/wrong_sum.so"
    ! on_host run 2 all_reduce -t 2 -b 1K -e 1K -c 1 >/dev/null && grep '^# Out of bounds values : [1-9][0-9]* FAILED' "$sim/nccl-tests.out"
}

on_host_memory() {
    libraries=$host_libraries check they_use_our_library_for_hosts_and_the_simulated_runtime links_ours
    check preloads_for_host_memory_are_built preloads_are_built
    for ranks in 2 3 4; do
        check "each_program_finds_nothing_wrong_on_host_memory_of_${ranks}_threads" programs_on_host $ranks -t $ranks
    done
    check one_thread_with_several_ranks_on_host_memory programs_on_host 3 -g 3
    check larger_sums_on_host_memory on_host run 2 all_reduce -t 2 -b 8 -e 128K -f 128
    check all_types_and_operators_on_host_memory on_host run 2 all_reduce -t 2 -b 512 -e 512 -d all -o all
    check a_wrong_sum_would_be_found wrong_sums_are_found
}
on_host_memory_in_processes() {
    for ranks in 2 4; do
        check "${ranks}_processes_on_host_memory_sum" on_host run_processes $ranks all_reduce -b 8 -e 2K -f 16
        check "${ranks}_processes_on_host_memory_send_and_receive" on_host run_processes $ranks sendrecv -b 1K -e 1K
    done
}

check nccl_tests_are_built build "$built" "${programs[*]}"
if [ "${1:-}" != host ]; then
    check they_use_our_library_and_the_simulated_runtime links_ours
    check each_program_finds_nothing_wrong_on_2_gpus each_program run -g 2
    check threads_with_a_gpu_each run 2 all_reduce -t 2 -b 8 -e 2K -f 16
    check a_thread_with_several_gpus run 4 all_reduce -g 4 -b 8 -e 2K -f 16
    check threads_with_several_gpus_each run 4 all_reduce -t 2 -g 2 -b 1K -e 1K
    check graphs_are_replayed run 2 all_reduce -g 2 -b 1K -e 1K -G 2
    check buffers_are_registered run 2 all_gather -g 2 -b 1K -e 1K -R 1
    check buffers_at_odd_places run 2 reduce_scatter -g 2 -b 1K -e 1K -u 1
fi
on_host_memory
if [ -n "$mpi_home" ] && command -v mpirun >/dev/null; then
    with_mpi=(all_reduce sendrecv)
    [ "${1:-}" != all ] || with_mpi=("${programs[@]}")
    check they_are_built_with_MPI build_with_mpi "${with_mpi[*]}"
    if [ "${1:-}" != host ]; then
        check processes_with_a_gpu_each run_processes 2 all_reduce -b 8 -e 2K -f 16
        check processes_send_and_receive run_processes 3 sendrecv -b 1K -e 1K
    fi
    [ "${1:-}" != all ] || check each_program_finds_nothing_wrong_in_2_processes each_program run_processes
    on_host_memory_in_processes
else
    skipped "nccl-tests in processes: MPI is not here"
fi
if [ "${1:-}" = all ]; then
    check each_program_finds_nothing_wrong_in_2_threads each_program run -t 2
    check each_program_finds_nothing_wrong_in_graphs each_program run -g 2 -G 2
    check a_thread_with_eight_gpus run 8 all_reduce -g 8 -b 8 -e 2K -f 16
    check eight_threads_with_a_gpu_each run 8 all_gather -t 8 -b 256 -e 2K -f 8
    for gpus in 1 2 3 4; do
        for program in all_reduce reduce_scatter reduce; do
            check "${program}_of_all_types_and_operators_on_$gpus" types_and_operators $gpus $program
        done
        for program in all_gather alltoall alltoallv broadcast gather hypercube scatter sendrecv; do
            [ "$program $gpus" = 'hypercube 3' ] || check "${program}_of_all_types_on_$gpus" types_and_operators $gpus $program
        done
    done
fi
finish
