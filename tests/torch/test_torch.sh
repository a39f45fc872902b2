#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collet as a backend of PyTorch: its own cases (cases.py), the backend in pure Python, what the acceptance on GPUs can check on the
# CPU (tests/gpu/accept_torch.py), then PyTorch's distributed tests (upstream.py). TEST_TORCH names some of those, or is "all", which
# takes minutes; by default a part of them runs. TORCH=pypi runs all that on PyPI's newest release. Without it, the C++ file is at
# least compiled, not linked, with the headers of that release.
cd "$(dirname "$0")/../.." || exit 1

scripts/torch.sh build || exit $?
export PYTHONFAULTHANDLER=1 # a rank that crashes says where
failed=0
scripts/torch.sh run -m collet.run -n 3 tests/torch/cases.py || exit 1
scripts/torch.sh run -m collet.run -n 3 tests/torch/python_backend.py || exit 1
scripts/torch.sh run tests/gpu/accept_torch.py --cpu --seconds 100 || exit 1
case ${TEST_TORCH:-some} in
all) names=() ;;
some) mapfile -t names <tests/torch/upstream_some.txt ;;
*) read -ra names <<<"$TEST_TORCH" ;;
esac
scripts/torch.sh run tests/torch/upstream.py "${names[@]}" || failed=1

check_syntax() { # of the C++ file, with the headers of another release
    local python_headers
    python_headers=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
    g++ -std=c++20 -fsyntax-only -w -DTORCH_EXTENSION_NAME=_backend -DTORCH_API_INCLUDE_EXTENSION_H -Iinclude -isystem "$1" \
        -isystem "$1/torch/csrc/api/include" -isystem "$python_headers" integrations/torch/collet_torch/backend.cpp
}

if [ -z "${TORCH:-}" ] && headers=$(scripts/torch.sh headers); then
    if check_syntax "$headers"; then
        echo "ok    the_backend_compiles_with_the_headers_of_torch_$(sed -nE 's/^#define TORCH_VERSION_(MAJOR|MINOR) //p' \
            "$headers/torch/headeronly/version.h" | paste -sd.)"
    else
        failed=1
    fi
fi
exit $failed
