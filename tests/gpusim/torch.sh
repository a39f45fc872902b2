#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# PyTorch's own NCCL backend over our libnccl.so.2 on the simulated GPU machine: the checks of tests/gpu/accept_torch.py that need
# no kernel of torch, and its CUDA graphs. torch_shim.c says what is simulated how.
#
#   SIM=build/gpusim tests/gpusim/torch.sh
#
# Needs a torch of PyPI for the same CUDA as nvcc's, 2.11 or later; PYTHON names a Python that has it (scripts/torch.sh with
# TORCH=pypi makes one). Skipped without.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

sim=$PWD/${SIM:-build/gpusim}
nvcc=${NVCC:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
cuda=$(dirname "$(dirname "$(realpath "$nvcc")")")

for python in ${PYTHON:-python3 "$(dirname "$sim")"/torch-*/python/bin/python3}; do
    library=$("$python" -c 'import os, torch; print(os.path.dirname(torch.__file__) + "/lib/libtorch_cuda.so")' 2>/dev/null)
    runtime=$(readelf -d "$library" 2>/dev/null | grep -oE 'libcudart\.so\.[0-9]+')
    [ -z "$runtime" ] || [ ! -e "$sim/lib/$runtime" ] || break
    runtime=
done
if [ -z "${runtime:-}" ]; then
    skipped "PyTorch on simulated GPUs: no Python here has a torch for CUDA, of the version of nvcc (PYTHON=, or TORCH=pypi scripts/torch.sh build)"
    finish
fi

shim=$sim/lib/libcuda.so.1
gcc -std=gnu11 -O1 -Wall -Wextra -Werror -shared -fPIC -isystem "$cuda/include" -Wl,-soname,libcuda.so.1 tests/gpusim/torch_shim.c \
    -o "$shim" -ldl || exit 1

checks() { # part seconds
    LD_PRELOAD=$shim:$sim/lib/$runtime GPUSIM_GPUS=${GPUSIM_GPUS:-1} timeout $(($2 + 20)) "$python" tests/gpu/accept_torch.py \
        --no-kernels --nccl "$sim/lib/libnccl.so.2" --collet-torch "$sim/none" --seconds "$2" --only "$1"
}

check calls_of_2_processes_are_right checks nccl-2 240
check calls_of_4_processes_are_right checks nccl-4 240
check graphs_of_torch_are_right checks graphs 300
finish
