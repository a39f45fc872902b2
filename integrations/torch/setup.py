# SPDX-License-Identifier: Apache-2.0
"""Builds collet_torch against the torch of this interpreter, and against libcollet of this checkout or of the system.

    pip install --no-build-isolation ./integrations/torch
"""
import os
import pathlib

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("COLLET_LIBDIR", CHECKOUT / "build" / "lib")).resolve()

setup(
    name="collet-torch",
    version="0.1.0",
    packages=["collet_torch"],
    ext_modules=[
        CppExtension(
            "collet_torch._backend",
            ["collet_torch/backend.cpp"],
            include_dirs=[str(CHECKOUT / "include")],
            library_dirs=[str(LIBRARY)],
            runtime_library_dirs=[str(LIBRARY)],
            libraries=["collet"],
            extra_compile_args=["-O1", "-g0", "-Wall"],
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
