#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Python package, from the checkout: its own cases (cases.py) with the interpreter's standard library alone, and with
# numpy and torch where they are installed.
cd "$(dirname "$0")/../.." || exit 1

python=$(command -v python3) || { echo "python3 is not installed"; exit 77; }
[ -e "${BUILD:-build}/lib/libcollet.so" ] || { echo "libcollet.so is not built in ${BUILD:-build}"; exit 77; }
LIBCOLLET_PATH=$PWD/${BUILD:-build}/lib/libcollet.so PYTHONPATH=$PWD/integrations/python PYTHONDONTWRITEBYTECODE=1 \
    exec "$python" tests/python/cases.py
