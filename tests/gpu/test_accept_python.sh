#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Python parts of the acceptance (accept_*.py) where there is no GPU: they say that they do not apply, their checks pass on the
# CPU as far as the libraries are here, and a wrong result or a rank that hangs fails by name. accept_torch.py runs in
# tests/torch/test_torch.sh, which builds the backend first.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

export BUILD=${BUILD:-build}
[ -e "$BUILD/lib/libnccl.so.2" ] || { echo "$BUILD/lib/libnccl.so.2 is not built"; exit 77; }
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
nccl=(--nccl "$(realpath "$BUILD/lib/libnccl.so.2")")

python_with() { # module: the first Python that has it
    local python
    for python in ${PYTHON:-} python3 /usr/bin/python3 "$BUILD"/torch*/python/bin/python3; do
        "$python" -c "import $1" 2>/dev/null && echo "$python" && return
    done
}

# ends_with status text program arguments…: its exit status, and a text in what it prints.
ends_with() {
    local want=$1 text=$2 out status
    out=$(timeout 200 "${@:3}" 2>&1)
    status=$?
    [ "$status" = "$want" ] && grep -qF -- "$text" <<<"$out" || { echo "exit status $status"; echo "$out"; return 1; }
}

# A copy of CuPy's part that has another text in a place.
changed() { # sed program
    mkdir -p "$scratch/changed"
    cp tests/gpu/accept_ranks.py "$scratch/changed/"
    sed "$1" tests/gpu/accept_cupy.py >"$scratch/changed/accept_cupy.py"
    ! cmp -s tests/gpu/accept_cupy.py "$scratch/changed/accept_cupy.py"
}

none_applies_without_a_gpu() {
    local part
    for part in torch cupy jax; do
        ends_with 77 "not applicable: " "$numpy" tests/gpu/accept_$part.py "${nccl[@]}" || return 1
    done
}
cupys_part_passes_on_the_cpu() { ends_with 0 " 0 failed" "$numpy" tests/gpu/accept_cupy.py --cpu --seconds 150 "${nccl[@]}"; }
jaxs_part_passes_on_the_cpu() { ends_with 0 " 0 failed" "$jax" tests/gpu/accept_jax.py --cpu --seconds 150 "${nccl[@]}"; }
a_wrong_result_fails_by_name() {
    changed '/^def everybody/,/return/ s/% 3 + 1/% 3 + 2/' &&
        ends_with 1 "rank 1: all_gather FAILED" "$numpy" "$scratch/changed/accept_cupy.py" --cpu --seconds 150 "${nccl[@]}"
}
a_rank_that_hangs_fails_by_name() {
    changed 's/^def all_gather() -> None:/&\n    time.sleep(300 * HERE.rank)/' &&
        ends_with 1 "rank 1: all_gather: stopped, as the time is up" "$numpy" "$scratch/changed/accept_cupy.py" --cpu --seconds 20 \
            --only processes "${nccl[@]}"
}
a_rank_that_dies_fails_by_name() {
    changed 's/^def all_gather() -> None:/&\n    os._exit(7 * HERE.rank) if HERE.rank else None/' &&
        ends_with 1 "rank 1: all_gather: it ended with status 7" "$numpy" "$scratch/changed/accept_cupy.py" --cpu --seconds 60 \
            --only processes "${nccl[@]}"
}

numpy=$(python_with numpy) jax=$(python_with jax)
if [ -z "$numpy" ]; then
    echo "skipped: no Python here has numpy (Debian: python3-numpy)"
    exit 77
fi
[ -e /dev/nvidiactl ] || check none_applies_without_a_gpu none_applies_without_a_gpu
check cupys_part_passes_on_the_cpu cupys_part_passes_on_the_cpu
check a_wrong_result_fails_by_name a_wrong_result_fails_by_name
check a_rank_that_hangs_fails_by_name a_rank_that_hangs_fails_by_name
check a_rank_that_dies_fails_by_name a_rank_that_dies_fails_by_name
if [ -n "$jax" ]; then
    check jaxs_part_passes_on_the_cpu jaxs_part_passes_on_the_cpu
else
    skipped "jaxs_part_passes_on_the_cpu: no Python here has jax"
fi
finish
