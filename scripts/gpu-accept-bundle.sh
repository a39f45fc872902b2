#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# gpu-accept-bundle.sh: a folder with all that gpu-accept.sh needs, for a machine with a GPU and no compiler:
#
#   $BUILD/gpu-accept-bundle/scripts/gpu-accept.sh                run it there; the folder may lie anywhere
#                            build/tests/gpu                      the programs, as one, stripped; and parts in Python
#                            build/lib/libnccl.so.2               collet in NCCL's place
#                            build/needed                         the shared libraries they need, for those the machine lacks
#
# Programs by themselves would each bring all kernels along. The C library is not among the libraries, nor the driver: the other machine's
# must not be older than the last line says. A runtime of CUDA 13 needs a driver R580; for drivers of CUDA 12 the bundle is built by an nvcc
# of CUDA 12:
#
#   make gpu-accept-bundle NVCC=/usr/local/cuda-12/bin/nvcc
set -eu
cd "$(dirname "$0")/.."

build=${BUILD:-build}
bundle=$build/gpu-accept-bundle
rm -rf "$bundle"
mkdir -p "$bundle/scripts" "$bundle/tests/gpu" "$bundle/build/needed"
cp scripts/gpu-accept.sh "$bundle/scripts/"
# What measures MPI libraries beside collet on the same machine; they themselves are an archive of their own.
cp scripts/bench-peers.sh "$bundle/scripts/"
mkdir -p "$bundle/bench"
cp bench/table.py "$bundle/bench/"
find tests/gpu -name 'accept_*.py' -exec cp {} "$bundle/tests/gpu/" \;

# Tables of ICU, 30 MB: libxml2 looks at them for encodings that no file of ours has. A library that is as good as empty takes their place.
without_tables() { # LIBRARY
    local name=${1##*/}
    local version=${name#libicudata.so.}
    echo "const char icudt${version%%.*}_dat[64] = {0};" | "${CC:-gcc}" -x c -shared -fPIC -Wl,-soname,"$name" -o "$bundle/build/needed/$name" -
}

for program in tests/gpu/one_program tests/gpu/beside lib/libnccl.so.2; do
    [ -f "$build/$program" ] || continue
    mkdir -p "$bundle/build/${program%/*}"
    strip --strip-unneeded -o "$bundle/build/$program" "$build/$program"
    ldd "$build/$program"
done | sed -nE 's|.* => (/[^ ]+) .*|\1|p' | sort -u | while read -r library; do
    case ${library##*/} in
    libicudata.so.*) without_tables "$library" ;;
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
