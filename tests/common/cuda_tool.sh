#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# cuda_tool.sh NAME FOLDER: where NVIDIA's nvdisasm or cuobjdump is: in PATH, beside nvcc, or by pip, which puts it into FOLDER. It
# prints the path; without one, it says so, and exits with 77.
set -u
name=$1 folder=$2/tools

said() { [ -x "$1" ] && echo "$1" && exit 0; }
by_pip() { find "$folder" -path "*/bin/$name" -print -quit 2>/dev/null; }

nvcc=$(command -v "${NVCC:-nvcc}" || echo /usr/local/cuda/bin/nvcc)
said "$(command -v "$name")"
said "$(dirname "$(realpath "$nvcc")")/$name"
[ -n "$(by_pip)" ] || timeout 120 python3 -m pip install -q --target "$folder" "nvidia-cuda-$name" >/dev/null 2>&1
[ -z "$(by_pip)" ] || chmod +x "$(by_pip)"
said "$(by_pip)"
echo "there is no $name, and pip does not get it"
exit 77
