#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# collet as a backend of PyTorch: its own cases (cases.py), the backend in pure Python, then PyTorch's distributed tests (upstream.py). TEST_TORCH names some
# of those, or is "all", which takes minutes; by default a part of them runs.
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
exit $failed
