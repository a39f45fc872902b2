#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Does the simulated machine execute what ships? The PTX that it takes out of the library's fatbins (objects.c, module.c) is compared,
# byte for byte, with what NVIDIA's cuobjdump takes out of them. Without cuobjdump, a small object is compared with one that nvcc has
# not compressed, and with what nvcc wrote before it took comments and blanks away.
#
#   SIM=build/gpusim tests/gpusim/same_ptx.sh
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

sim=${SIM:-build/gpusim}
nvcc=$(command -v "${NVCC:-nvcc}" || echo /usr/local/cuda/bin/nvcc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ptx_of() { mkdir -p "$2" && "$sim/print_ptx" "$1" "$2"; }
as_cuobjdump_shows() {
    ptx_of "$library" "$work/ours" && mkdir "$work/shown" && (cd "$work/shown" && "$cuobjdump" -xptx all "$library") || return 1
    diff <(contents "$work/ours") <(contents "$work/shown")
}
contents() { sha256sum "$1"/*.ptx | cut -d' ' -f1 | sort; } # in no order: that of the files is each tool's affair

compile() { "$nvcc" -std=c++17 -O3 -arch=compute_90 "$@" tests/gpusim/kernels.cu; }
as_not_compressed() {
    compile -c -o "$work/packed.o" && compile -no-compress -c -o "$work/plain.o" || return 1
    grep -q '\.entry' "$work/plain.o" && ! grep -q '\.entry' "$work/packed.o" || { echo 'the one is packed, or the other is not'; return 1; }
    ptx_of "$work/packed.o" "$work/packed" && ptx_of "$work/plain.o" "$work/plain" && cmp "$work/packed/0.ptx" "$work/plain/0.ptx"
}
as_nvcc_wrote() { compile -ptx -o "$work/wrote.ptx" && diff <(words "$work/wrote.ptx") <(words "$work/packed/0.ptx"); }
words() { sed 's|//.*||' "$1" | tr -s '[:space:]' '\n' | sed '/^$/d'; }

library=$(realpath "${sim%/*}/lib/libcollet.so")
if cuobjdump=$(tests/common/cuda_tool.sh cuobjdump "$(realpath "${sim%/*}")"); then
    check the_ptx_of_the_library_is_what_cuobjdump_shows as_cuobjdump_shows
else
    skipped "what cuobjdump shows of the library: $cuobjdump"
fi
check ptx_is_the_same_compressed_and_not as_not_compressed
check ptx_is_what_nvcc_wrote_but_for_comments_and_blanks as_nvcc_wrote
finish
