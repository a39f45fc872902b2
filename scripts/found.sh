#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# found.sh CC CXX NVCC CODE: what the first `make` in a folder says: what it has found, and what it leaves out. NVCC is empty if
# there is none, or with CUDA=0. CODE: for which GPUs there will be kernels.
cc=$1 cxx=$2 nvcc=$3 code=$4
PATH=$PATH:/usr/sbin:/sbin

row() { printf '  %-9s %s\n' "$1" "$2"; }
have() { command -v "$1" >/dev/null; }

echo 'collet is built with:'
row compiler "$($cc --version 2>/dev/null | head -n 1)"
row topology "hwloc $(pkg-config --modversion hwloc), libxml2 $(pkg-config --modversion libxml-2.0)"
if [ -n "$nvcc" ]; then
    row GPUs "kernels for $code, by $nvcc"
else
    row GPUs 'left out: no nvcc, or CUDA=0 (NVCC=/path/to/nvcc names one)'
fi
if ldconfig -p 2>/dev/null | grep -q 'libibverbs\.so\.1'; then
    row RDMA 'yes; libibverbs.so.1 is opened when it is needed'
else
    row RDMA 'yes, but this machine has no libibverbs.so.1: here tcp goes between hosts'
fi
have "$cxx" || row C++ "left out: examples in C++, as $cxx is not here"
have python3 || row Python 'left out of make install: collet-report and collet-trace, as python3 is not here'
