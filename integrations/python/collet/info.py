# SPDX-License-Identifier: Apache-2.0
"""What this package found:  python -m collet.info"""
from __future__ import annotations

import sys

from ._buffers import TYPES
from ._library import library, version
from .communicator import OPS


def main() -> int:
    print("collet     " + ".".join(map(str, version())))
    print(f"library    {library._name}")
    print(f"Python     {sys.version.split()[0]}")
    print("types      " + " ".join(TYPES))
    print("ops        " + " ".join(OPS))
    for name in ("numpy", "torch"):
        try:
            print(f"{name:<10} {__import__(name).__version__}")
        except ImportError:
            print(f"{name:<10} -")
    return 0


if __name__ == "__main__":
    sys.exit(main())
