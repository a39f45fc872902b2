# SPDX-License-Identifier: Apache-2.0
"""Builds collet_torch against the torch of this interpreter, so pip must not build it in an environment of its own:

    pip install --no-build-isolation ./integrations/torch

    collet_torch/__init__.py
    collet_torch/_backend.so          looks for the library in its own folder ($ORIGIN)
    collet_torch/libcollet.so.0.1     a copy of what `make libs` has built, or of the library in COLLET_LIBDIR

So the installed package needs neither the checkout nor a variable. pyproject.toml says the rest.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import setup

try:
    from torch.utils.cpp_extension import BuildExtension, CppExtension
except ImportError as error:
    sys.exit(f"collet_torch is compiled for the torch that is installed ({error}): install torch, then use "
             "pip install --no-build-isolation")

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(os.environ.get("COLLET_LIBDIR", CHECKOUT / "build" / "lib")).resolve()
LIBRARY = FOLDER / "libcollet.so"
if not LIBRARY.exists():
    sys.exit(f"there is no {LIBRARY}: run `make libs`, or name the folder of the library in COLLET_LIBDIR")


def version():
    """That of the C library."""
    return ".".join(re.findall(r"^#define COLLET_(?:MAJOR|MINOR|PATCH) (\d+)", (CHECKOUT / "include" / "collet.h").read_text(), re.M))


def name_for_the_loader():
    dynamic = subprocess.check_output(["readelf", "-d", str(LIBRARY)], text=True, env={**os.environ, "LC_ALL": "C"})
    return re.search(r"\(SONAME\).*\[(.+)\]", dynamic)[1]


class BuildWithLibrary(BuildExtension):
    def run(self):
        super().run()
        copy = pathlib.Path(self.get_ext_fullpath("collet_torch._backend")).with_name(name_for_the_loader())
        copy.unlink(missing_ok=True)
        shutil.copyfile(LIBRARY, copy)


setup(
    version=version(),
    ext_modules=[
        CppExtension(
            "collet_torch._backend",
            ["collet_torch/backend.cpp"],
            include_dirs=[str(CHECKOUT / "include")],
            library_dirs=[str(FOLDER)],
            runtime_library_dirs=["$ORIGIN"],
            libraries=["collet"],
            extra_compile_args=["-O1", "-g0", "-Wall"],
        )
    ],
    cmdclass={"build_ext": BuildWithLibrary},
)
