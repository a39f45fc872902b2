#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# gpu-accept-bundle.sh: a folder with all that gpu-accept.sh needs, for a machine with a GPU and no compiler:
#
#   $BUILD/gpu-accept-bundle/scripts/gpu-accept.sh                run it there; the folder may lie anywhere
#                            build/bin  build/tests  …            the programs, stripped
#                            build/needed                         the shared libraries they need, for those the machine lacks
#
# The C library is not among them, nor the driver: the other machine's must not be older than the last line says. A runtime of
# CUDA 13 needs a driver R580; for drivers of CUDA 12 the bundle is built by an nvcc of CUDA 12:
#
#   make gpu-accept-bundle NVCC=/usr/local/cuda-12/bin/nvcc
set -eu
cd "$(dirname "$0")/.."

build=${BUILD:-build}
bundle=$build/gpu-accept-bundle
rm -rf "$bundle"
mkdir -p "$bundle/scripts" "$bundle/build/needed"
cp scripts/gpu-accept.sh "$bundle/scripts/"

programs=(tests/gpu/test_accept tests/unit/test_block bin/collet-info bin/collet-tune bin/all_reduce_perf bin/overlap)
for program in "${programs[@]}"; do
    [ -x "$build/$program" ] || continue
    mkdir -p "$bundle/build/${program%/*}"
    strip -o "$bundle/build/$program" "$build/$program"
    ldd "$build/$program"
done | sed -nE 's|.* => (/[^ ]+) .*|\1|p' | sort -u | while read -r library; do
    case ${library##*/} in
    ld-linux* | libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.*) ;;
    *) cp -L "$library" "$bundle/build/needed/" ;;
    esac
done

newest=$(find "$bundle/build" -type f ! -name 'libstdc++*' ! -name 'libgcc_s*' -exec objdump -T {} + 2>/dev/null | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -n 1)
case ${CUDA_MAJOR:-} in
12) driver=525.60.13 ;;
13) driver=580.65.06 ;;
*) driver="of CUDA ${CUDA_MAJOR:-?}" ;;
esac
echo "$bundle: $(du -sh "$bundle" | cut -f1), for machines with ${newest/_/ } and an NVIDIA driver $driver or later: scripts/gpu-accept.sh in it"
