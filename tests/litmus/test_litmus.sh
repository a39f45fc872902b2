#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Litmus tests of how slots, lines and words are handed over on GPUs (patterns.txt), and of the checker itself (model.txt). Every
# access of GPUs that the files port.h have must be in one of them.
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "needs python3"; exit 77; }
exec python3 tests/litmus/check.py tests/litmus/model.txt tests/litmus/patterns.txt src/fifo/port.h src/kernels/cuda/port.h
