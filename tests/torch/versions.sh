#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# make test-torch-versions: do the backends run on the releases of torch that people have? Each release comes from PyPI into an
# environment of its own, build-torch/torch-<release>: 2 to 3 GB to download, 5 to 8 GB installed. Environments are kept. A run that was
# stopped goes on with what it lacks. No GPU is needed. Prints a table of the cases that passed; DOCS=1 puts it into docs/pytorch.md, too.
#
#    TORCH="2.6.0 newest"    these releases
#
# Exits 77 where PyPI cannot be reached and nothing is there yet.
cd "$(dirname "$0")/../.." || exit 1
BUILD=$(realpath "${BUILD:-build}")
export BUILD TORCH_HOMES=$PWD/build-torch PYTHONFAULTHANDLER=1
mkdir -p "$TORCH_HOMES"

newest() { python3 -m pip --disable-pip-version-check index versions torch 2>/dev/null | sed -nE '1s/.*\((.*)\)/\1/p'; }

# "11 passed, 1 skipped", or "failed": what a program of 3 ranks says of its cases. $1: its log; the rest: its command.
verdict() {
    local log=$1 passed
    shift
    if "$@" >"$log" 2>&1 && passed=$(sed -nE 's/^([0-9]+ passed), 0 failed(.*)$/\1\2/p' "$log") && [ -n "$passed" ]; then
        echo "${passed%, 0 skipped}"
    else
        echo "failed ($log)"
    fi
}

in_python() { PYTHONPATH=integrations/python LIBCOLLET_PATH=$BUILD/lib/libcollet.so OMP_NUM_THREADS=1 "$@"; }

row_of() { # of a release
    local home=$TORCH_HOMES/torch-$1 python
    export TORCH=$1
    python=$(scripts/torch.sh python) || return 77
    echo "| $1 | $("$python" -c 'import platform; print(platform.python_version())') |" \
        "$(verdict "$home/c10d.log" in_python "$python" -m collet.run -n 3 tests/torch/python_backend.py) |" \
        "$(verdict "$home/cases.log" scripts/torch.sh run -m collet.run -n 3 tests/torch/cases.py) |"
}

table=$TORCH_HOMES/table.md
printf 'Of %s, on host memory:\n\n| torch | Python | `collet.c10d` | `collet_torch` |\n|---|---|--:|--:|\n' "$(date +%F)" | tee "$table"
for release in ${TORCH:-2.0.1 2.6.0 2.11.0 newest}; do
    [ "$release" != newest ] || release=$(newest)
    [ -z "$release" ] || row_of "$release" | tee -a "$table"
done
rows=$(grep -c '^| [0-9]' "$table")
[ "$rows" -gt 0 ] || { echo "torch: skipped: PyPI cannot be reached" && exit 77; }
[ -z "${DOCS:-}" ] || sed -i -e '/^<!-- torch-versions -->$/,/^<!-- end -->$/ { /^<!--/!d; }' \
    -e "/^<!-- torch-versions -->\$/r $table" docs/pytorch.md
failed=$(grep -c 'failed (' "$table")
echo "$((rows - failed)) passed, $failed failed"
[ "$failed" = 0 ]
