#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# torch.sh build|demo|bench|run FILE …: collet as a backend of PyTorch, built in $BUILD/torch and run from there. PYTHON names an
# interpreter that has torch. Exits 77 where there is none.
set -eu -o pipefail
cd "$(dirname "$0")/.."
BUILD=$(realpath "${BUILD:-build}")

for python in ${PYTHON:-python3 /usr/bin/python3}; do
    ! "$python" -c 'import torch.distributed' 2>/dev/null || break
    python=
done
if [ -z "$python" ]; then
    echo "torch: skipped: no Python here has torch (Debian: python3-torch libtorch-dev pybind11-dev; or PYTHON=)"
    exit 77
fi

# Compiled again only if the source, the header or torch is newer.
build() {
    local built
    built=$(find "$BUILD/torch" -name '_backend*.so' 2>/dev/null | head -n 1)
    cp -f integrations/torch/collet_torch/*.py "$BUILD/torch/collet_torch/" 2>/dev/null || true
    local torch
    torch=$("$python" -c 'import torch; print(torch.__file__)')
    if [ -n "$built" ] && [ "$built" -nt integrations/torch/collet_torch/backend.cpp ] &&
        [ "$built" -nt include/collet.h ] && [ "$built" -nt "$torch" ]; then
        return
    fi
    echo "torch: building collet_torch for torch of $torch (about a minute)"
    (cd integrations/torch &&
        COLLET_LIBDIR=$BUILD/lib "$python" setup.py -q build --build-base "$BUILD/torch/temp" --build-lib "$BUILD/torch") \
        >"$BUILD/torch.log" 2>&1 || { cat "$BUILD/torch.log" && exit 1; }
}

mkdir -p "$BUILD/torch"
build
export PYTHONPATH=$BUILD/torch:$PWD/integrations/python LIBCOLLET_PATH=$BUILD/lib/libcollet.so
export OMP_NUM_THREADS=1
case ${1:-build} in
build) ;;
demo) "$python" -m collet.run -n "${N:-2}" integrations/torch/examples/ddp.py ;;
bench)
    for transport in shm tcp; do
        printf '\ncollet over %s, gloo over TCP\n\n' "$transport"
        COLLET_TRANSPORT=$transport "$python" -m collet.run -n "${N:-2}" integrations/torch/examples/bench.py
    done
    ;;
run) "$python" "${@:2}" ;;
*)
    echo "usage: scripts/torch.sh build|demo|bench|run FILE …" >&2
    exit 2
    ;;
esac
