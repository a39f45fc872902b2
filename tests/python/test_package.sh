#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The Python package, from the checkout: its own cases (cases.py) with the interpreter's standard library alone, and with
# numpy and torch where an interpreter has them.
cd "$(dirname "$0")/../.." || exit 1

command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }
has_all() { "$1" -c 'import importlib.util, sys; sys.exit(not (importlib.util.find_spec("numpy") and importlib.util.find_spec("torch")))'; }
python=python3
has_all python3 || ! has_all /usr/bin/python3 2>/dev/null || python=/usr/bin/python3
[ -e "${BUILD:-build}/lib/libcollet.so" ] || { echo "libcollet.so is not built in ${BUILD:-build}"; exit 77; }
LIBCOLLET_PATH=$PWD/${BUILD:-build}/lib/libcollet.so PYTHONPATH=$PWD/integrations/python PYTHONDONTWRITEBYTECODE=1 \
    exec "$python" tests/python/cases.py
