#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every call of CUDA that the library makes has a row in docs/gpu.md, and the row names cases of the simulated machine. What does the
# library call? Its objects tell: symbols that they leave to the runtime, and names that it asks the driver for.
#
#   SIM=build/gpusim tests/gpusim/calls.sh
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

sim=${SIM:-build/gpusim}
objects=${sim%/*}/obj/src
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What stubs of nvcc call begins with two underscores, and is no call of ours.
asked_of_the_runtime() { nm -u "$@" | grep -oE '\<cuda[A-Z]\w+$'; }
asked_of_the_driver() { readelf -p .rodata -p .rodata.str1.1 -p .rodata.str1.8 "$@" 2>/dev/null | grep -oE '\] +cu[A-Z][A-Za-z0-9]+$' | tr -d '] '; }
find_calls() {
    mapfile -t files < <(find "$objects" -name '*.o')
    { asked_of_the_runtime "${files[@]}"; asked_of_the_driver "${files[@]}"; } | sort -u >"$work/calls"
}
calls_of_the_library() { cat "$work/calls"; }

rows() { sed -n '/<!-- calls of CUDA -->/,/^$/p' docs/gpu.md | grep '^| `'; }
calls_with_a_row() { rows | cut -d'|' -f2 | grep -oE '\w+' | sort; }
cases_of_rows() { rows | sed 's/ *|$//; s/.*|//' | grep -oE '\w+' | sort -u; }
rows_without_a_case() { rows | grep -vE '\| `[a-z_0-9`, ]+` \|$'; }
cases_there_are() { for program in runtime waits captures driver processes gpus multicast nccl; do "$sim/test_$program" --list; done | sort; }

# In a build with CUDA 12.4 one function has another name.
of_another_version() { grep -vxE 'cudaGetDriverEntryPoint(ByVersion)?'; }

each_call_has_one_row() { diff <(calls_of_the_library | of_another_version) <(calls_with_a_row | of_another_version); }
each_row_names_cases() { [ "$(rows | wc -l)" -gt 0 ] && ! rows_without_a_case | grep .; }
the_cases_exist() { ! comm -23 <(cases_of_rows) <(cases_there_are) | grep .; }

calls_are_found() { grep -qx cudaLaunchKernel "$work/calls" && grep -qx cuMemMap "$work/calls"; }
a_row_is_missed() {
    rows() { sed -n '/<!-- calls of CUDA -->/,/^$/p' docs/gpu.md | grep '^| `' | grep -v cudaLaunchKernel; }
    ! each_call_has_one_row >"$work/missed" && grep -q '< cudaLaunchKernel' "$work/missed"
}
a_case_is_missed() {
    cases_of_rows() { echo there_is_no_such_case; }
    ! the_cases_exist >"$work/missed" && grep -q there_is_no_such_case "$work/missed"
}

find_calls
check the_calls_of_the_library_are_found calls_are_found
check each_call_of_cuda_has_one_row_in_the_docs each_call_has_one_row
check each_row_names_cases_of_the_simulated_machine each_row_names_cases
check these_cases_exist the_cases_exist
check a_call_without_a_row_is_found a_row_is_missed
check a_row_without_a_case_is_found a_case_is_missed
finish
