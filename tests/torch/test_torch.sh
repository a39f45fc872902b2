#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collet as a backend of PyTorch: its own cases (cases.py), the backend in pure Python, then PyTorch's distributed tests (upstream.py). TEST_TORCH names some
# of those, or is "all", which takes minutes; by default a part of them runs. TORCH_HEADERS names the folder torch/include of
# another release (unpacked from its wheel): with these the C++ file is checked, too, but not linked.
cd "$(dirname "$0")/../.." || exit 1

scripts/torch.sh build || exit $?
failed=0
scripts/torch.sh run -m collet.run -n 3 tests/torch/cases.py || failed=1
scripts/torch.sh run -m collet.run -n 3 tests/torch/python_backend.py || failed=1
case ${TEST_TORCH:-some} in
all) names=() ;;
some) mapfile -t names <tests/torch/upstream_some.txt ;;
*) read -ra names <<<"$TEST_TORCH" ;;
esac
scripts/torch.sh run tests/torch/upstream.py "${names[@]}" || failed=1
if [ -d "${TORCH_HEADERS:-}" ]; then
    python_headers=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
    g++ -std=c++20 -fsyntax-only -w -DTORCH_EXTENSION_NAME=_backend -DTORCH_API_INCLUDE_EXTENSION_H -Iinclude -isystem "$TORCH_HEADERS" \
        -isystem "$TORCH_HEADERS/torch/csrc/api/include" -isystem "$python_headers" integrations/torch/collet_torch/backend.cpp || failed=1
fi
exit $failed
