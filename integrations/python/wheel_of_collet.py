# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel that `pip install` unpacks. pip calls these functions by name (PEP 517; build_editable: PEP 660).

    collet/*.py ───────────────┐
                               ├──▶ collet-0.1.0-py3-none-linux_x86_64.whl
    build/lib/libcollet.so.0.1 ┘

So the installed package has the library in it, and needs neither the checkout nor a variable. Where nothing was built, the
wheel is without a library, and the package opens the one that is installed. COLLET_LIBDIR names another folder of the library.
"""
import base64
import hashlib
import os
import pathlib
import re
import sysconfig
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]

# torchcomms asks for an entry of this name before it opens the library of TORCHCOMMS_BACKEND_LIB_PATH_COLLET.
ENTRY_POINTS = "[torchcomms.backends]\ncollet = collet\n"
METADATA = """Metadata-Version: 2.1
Name: collet
Version: {version}
Summary: Collective communication among processes: allreduce and friends on any buffer
License: Apache-2.0
Requires-Python: >=3.9
"""


def version():
    """That of the C library."""
    numbers = re.findall(r"^#define COLLET_(?:MAJOR|MINOR|PATCH) (\d+)", (CHECKOUT / "include" / "collet.h").read_text(), re.M)
    return ".".join(numbers)


def built_library():
    """None where there is none."""
    folder = pathlib.Path(os.environ.get("COLLET_LIBDIR", CHECKOUT / "build" / "lib"))
    library = folder / "libcollet.so"
    return library.read_bytes() if library.exists() else None


def package_files():
    sources = [path for path in (HERE / "collet").iterdir() if path.suffix in (".py", ".typed")]
    files = {f"collet/{path.name}": path.read_bytes() for path in sources}
    library = built_library()
    if library is not None:
        files["collet/libcollet.so"] = library
    return files


def line_of(name, content):
    """Of RECORD, the list of all files."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def write_wheel(folder, files):
    """Returns the wheel's name."""
    has_library = "collet/libcollet.so" in files
    platform = re.sub(r"\W", "_", sysconfig.get_platform()) if has_library else "any"
    info = f"collet-{version()}.dist-info"
    tag = f"py3-none-{platform}"
    files = {name: content if isinstance(content, bytes) else content.encode() for name, content in {
        **files,
        f"{info}/METADATA": METADATA.format(version=version()),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: collet\nRoot-Is-Purelib: {str(not has_library).lower()}\nTag: {tag}\n",
        f"{info}/entry_points.txt": ENTRY_POINTS,
    }.items()}
    files[f"{info}/RECORD"] = ("".join(line_of(*file) for file in files.items()) + f"{info}/RECORD,,\n").encode()
    name = f"collet-{version()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in files.items():
            wheel.writestr(*file)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, package_files())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """pip install -e: the package stays where it is, in the checkout."""
    return write_wheel(wheel_directory, {"collet.pth": f"{HERE}\n"})
