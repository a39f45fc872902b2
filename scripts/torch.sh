#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# torch.sh build|demo|bench|instructions|run FILE …: collet as a backend of PyTorch, built in $BUILD/torch and run from there.
# PYTHON names an interpreter that has torch. TORCH=pypi takes PyPI's newest release instead, in an environment of its own in $BUILD/torch-pypi
# (0.5 GB to download for torch and 2 GB for what it asks for, 5.4 GB installed); TORCH=2.8.0 that release. Exits 77 where there
# is none. TORCH_HOMES=FOLDER: in that folder, not in $BUILD.
#
# torch.sh python: prints the interpreter, and builds nothing.
#
# DOCS=1 torch.sh bench: puts the tables into docs/pytorch.md, too.
#
# torch.sh instructions: whose instructions a warm all_reduce of 1 KB consists of. Needs valgrind; a few minutes.
#
# torch.sh torchcomms: builds the backend for torchcomms, $BUILD/torch/libcollet_torchcomms.so, and its test beside it. TORCHCOMMS names a
# checkout of github.com/meta-pytorch/torchcomms. Exits 77 without it.
#
# torch.sh headers: prints the folder of the headers of PyPI's newest torch, without installing it.
set -eu -o pipefail
cd "$(dirname "$0")/.."
BUILD=$(realpath "${BUILD:-build}")

# The smallest package that has all headers is that for macOS: 140 MB.
headers() {
    local into=$BUILD/torch-headers
    if [ ! -d "$into/torch/include" ]; then
        mkdir -p "$into"
        timeout 60 python3 -m pip download -q --no-deps --only-binary :all: --platform macosx_14_0_arm64 --python-version 3.12 \
            --dest "$into" torch >"$into/log" 2>&1 || { echo "torch: PyPI cannot be reached, or has no such package" >&2 && exit 77; }
        python3 -c 'import sys, zipfile
package = zipfile.ZipFile(sys.argv[1])
package.extractall(sys.argv[2], [name for name in package.namelist() if name.startswith("torch/include/")])' "$into"/*.whl "$into"
        rm -f "$into"/*.whl
    fi
    echo "$into/torch/include"
}

# An environment with a release from PyPI. Releases up to 2.2 need numpy 1, and a part of setuptools that newer ones do not have.
install_release() {
    local release=torch==$TORCH beside=(numpy setuptools)
    [ "$TORCH" != pypi ] || release=torch
    [[ $TORCH != 1.* && $TORCH != 2.[0-2].* ]] || beside=('numpy<2' 'setuptools<70')
    "$python" -m venv "$home/python" && "$home/python/bin/pip" install -q "$release" "${beside[@]}" pybind11 ninja &&
        touch "$home/installed"
}

[ "${1:-}" != headers ] || { headers && exit; }
home=$BUILD/torch
if [ -n "${TORCH:-}" ]; then
    home=${TORCH_HOMES:-$BUILD}/torch-$TORCH
    python=${PYTHON:-python3}
    [ -e "$home/installed" ] || install_release >&2 || exit 77
    PYTHON=$home/python/bin/python3
fi
for python in ${PYTHON:-python3 /usr/bin/python3}; do
    ! "$python" -c 'import torch.distributed' 2>/dev/null || break
    python=
done
if [ -z "$python" ]; then
    echo "torch: skipped: no Python here has torch (Debian: python3-torch libtorch-dev pybind11-dev; or PYTHON=)"
    exit 77
fi

# Compiled again only if the source, the header or torch is newer.
build() {
    local built
    built=$(find "$home" -name '_backend*.so' 2>/dev/null | head -n 1)
    cp -f integrations/torch/collet_torch/*.py "$home/collet_torch/" 2>/dev/null || true
    local torch
    torch=$("$python" -c 'import torch; print(torch.__file__)')
    local source is_new=$built
    for source in integrations/torch/{setup.py,collet_torch/{backend.cpp,shared.hpp}} include/collet.h "$torch"; do
        [ "$built" -nt "$source" ] || is_new=
    done
    [ -z "$is_new" ] || return 0
    # Its tools put one word in the place of a compiler: two ("ccache gcc") become a command that cannot be.
    local compiler
    for compiler in CC CXX; do
        [[ ${!compiler:-} != *\ * ]] || unset "$compiler"
    done
    echo "torch: building collet_torch for torch of $torch (about a minute)"
    (cd integrations/torch &&
        COLLET_LIBDIR=$BUILD/lib "$python" setup.py -q build --build-base "$home/temp" --build-lib "$home") \
        >"$home/log" 2>&1 || { cat "$home/log" && exit 1; }
    local copy # of the library: here it is the newest one
    for copy in "$home"/collet_torch/libcollet.so.*; do
        ln -sf "$BUILD/lib/${copy##*/}" "$copy"
    done
}

bench() {
    "$python" -c 'import os, time, torch
print(time.strftime("Of %Y-%m-%d"), f"with torch {torch.__version__}, on a machine with {os.cpu_count()} CPUs.")'
    for transport in shm tcp; do
        echo
        COLLET_TRANSPORT=$transport "$python" -m collet.run -n "${N:-2}" integrations/torch/examples/bench.py
    done
}

# Rank 0 is counted. Rank 1 is not slowed down by callgrind, so rank 0 hardly ever waits.
instructions() {
    local work=$home/instructions
    local counter=(valgrind -q --tool=callgrind --instr-atstart=no "--callgrind-out-file=$work/counted")
    [ -e /usr/include/valgrind/callgrind.h ] || { echo "torch: skipped: valgrind is not installed" && exit 77; }
    mkdir -p "$work"
    gcc -shared -fPIC -x c - -o "$work/warm.so" <<'LIBRARY'
#include <valgrind/callgrind.h>
void warm_calls(void (*call)(void), int n) {
    CALLGRIND_START_INSTRUMENTATION;
    while (n-- > 0)
        call();
    CALLGRIND_STOP_INSTRUMENTATION;
}
LIBRARY
    MASTER_PORT=$("$python" -c 'import collet.run; print(collet.run.free_port())')
    export MASTER_PORT MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 WARM=$work/warm.so
    RANK=1 "$python" tests/torch/instructions.py &
    RANK=0 "${counter[@]}" "$python" tests/torch/instructions.py
    wait
    callgrind_annotate --show-percs=no --threshold=100 --context=0 --auto=no "$work/counted" >"$work/functions"
    # Functions that were compiled into others have no name of a library, but a path of their source.
    awk '/^ *[0-9,]+ .*:/ {
            gsub(",", "", $1)
            whose = "libc, libstdc++ and the loader"
            if ($NF ~ /python|_ctypes|libffi/) whose = "Python"
            if ($NF ~ /libtorch|libc10/) whose = "torch"
            if ($0 ~ /libcollet|\/src\/[a-z]+\//) whose = "libcollet"
            if ($NF ~ /_backend/) whose = "collet_torch"
            sum[whose] += $1; all += $1
        }
        END { for (whose in sum) printf "| %s | %d |\n", whose, sum[whose] / 200; printf "| together | %d |\n", all / 200 }' \
        "$work/functions" | sort
}

put_into_docs() { # the tables of a file
    local page=docs/pytorch.md
    sed -i -e '/^<!-- bench-torch -->$/,/^<!-- end -->$/ { /^<!--/!d; }' -e "/^<!-- bench-torch -->\$/r $1" "$page"
    echo "torch: the tables are in $page"
}

# What backends need of libtorchcomms is compiled where it lies, so that no more of torchcomms has to be built. A process that has
# loaded the whole of it, under the same name, uses that.
build_torchcomms() {
    local into=$home flags
    [ -e "${TORCHCOMMS:-}/comms/torchcomms/TorchCommBackend.hpp" ] ||
        { echo "torchcomms: skipped: TORCHCOMMS names no checkout of github.com/meta-pytorch/torchcomms" && exit 77; }
    mapfile -t flags < <("$python" -c 'import torch
from torch.utils import cpp_extension
for path in cpp_extension.include_paths(): print("-isystem"), print(path)
print("-D_GLIBCXX_USE_CXX11_ABI=%d" % torch._C._GLIBCXX_USE_CXX11_ABI)
for path in cpp_extension.library_paths(): print("-L" + path), print("-Wl,-rpath," + path)' 2>/dev/null)
    # shellcheck disable=SC2054 # the commas are the linker's
    flags=(-std=c++20 -O1 -fPIC -Wall -I"$TORCHCOMMS" "${flags[@]}" -L"$into" "-Wl,-rpath,$into" -Iinclude -L"$BUILD/lib"
        "-Wl,-rpath,$BUILD/lib")
    # torch 1.13 makes no empty pointer from nullptr.
    (cd "$TORCHCOMMS/comms/torchcomms" && sed 's/ : store(nullptr)//' TorchComm{,Options,Types}.cpp TorchWork.cpp utils/Utils.cpp) |
        g++ "${flags[@]}" -w -shared -Wl,-soname,libtorchcomms.so -x c++ - -o "$into/libtorchcomms.so" -ltorch_cpu -lc10
    g++ "${flags[@]}" -shared -fvisibility=hidden integrations/torchcomms/backend.cpp -o "$into/libcollet_torchcomms.so" \
        -ltorchcomms -lcollet -ltorch_cpu -lc10
    g++ "${flags[@]}" tests/torch/torchcomms.cpp -o "$into/test_torchcomms" -Wl,--allow-shlib-undefined -ltorchcomms -ltorch_cpu -lc10
}

[ "${1:-}" != python ] || { echo "$python" && exit; }
mkdir -p "$home"
if [ "${1:-}" = torchcomms ]; then
    build_torchcomms
    exit
fi
build
export PYTHONPATH=$home:$PWD/integrations/python LIBCOLLET_PATH=$BUILD/lib/libcollet.so
export OMP_NUM_THREADS=1
case ${1:-build} in
build) ;;
demo) "$python" -m collet.run -n "${N:-2}" integrations/torch/examples/ddp.py ;;
bench)
    bench | tee "$home/bench.md"
    [ -z "${DOCS:-}" ] || put_into_docs "$home/bench.md"
    ;;
instructions) instructions ;;
run) "$python" "${@:2}" ;;
*)
    echo "usage: scripts/torch.sh python|build|demo|bench|instructions|run FILE …" >&2
    exit 2
    ;;
esac
