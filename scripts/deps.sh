#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# deps.sh core|build|test|package|browser|site|fabric|fuzz|torch|plot|peers: makes sure that what building (or the core alone, or building and testing, or the
# tests of packages and manual pages, or of pages in a browser, or the documents as a site, or the two virtual hosts of
# `make test-fabric`, or libFuzzer, or the backend of PyTorch, or collet-plot, or scripts/peers.sh) needs is there, and installs
# what is not.
#
#   as root                  installs with apt-get
#   otherwise                says what it will run, then runs it through sudo
#   COLLET_NO_INSTALL=1      only says what is missing
#   not Debian or Ubuntu     only says what is missing, by the names it has there
#
# Silent and quick when nothing is missing. Exits 0 if nothing is missing in the end.
set -u

profile=${1:-build}
case $profile in
core | build | test | package | browser | fabric | fuzz | torch | plot | site | peers) ;;
*)
    echo "usage: scripts/deps.sh core|build|test|package|browser|fabric|fuzz|torch|plot|site|peers" >&2
    exit 2
    ;;
esac

# Each need: how to see that it is there, and the Debian package that brings it.
missing_packages() {
    case $profile in
    fabric) virtual_hosts_need ;;
    fuzz) fuzzing_needs ;;
    site) site_needs ;;
    plot) need "command -v gnuplot" gnuplot-nox ;;
    peers) peers_need ;;
    package) packaging_needs ;;
    browser) need "command -v chromium-headless-shell || command -v chromium || command -v google-chrome" chromium-headless-shell ;;
    torch) torch_needs ;;
    core) core_needs ;;
    *) building_needs ;;
    esac
}

core_needs() {
    need "command -v ${CC:-gcc}" gcc
    need "command -v ${LD:-ld} && command -v objcopy" binutils
    need "test -e /usr/include/stdio.h" libc6-dev
    need "command -v make" make
    need "command -v pkg-config" pkg-config
    need "pkg-config --exists libsodium" libsodium-dev
}

building_needs() {
    core_needs
    need "pkg-config --exists hwloc" libhwloc-dev
    need "pkg-config --exists libxml-2.0" libxml2-dev
    need "test -e /usr/include/infiniband/verbs.h" libibverbs-dev
    if command -v nvcc >/dev/null || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
        need "command -v ${CXX:-g++}" g++ # nvcc calls it
    fi
    [ "$profile" = test ] || return 0
    need "command -v g++" g++
    need "pkg-config --exists cmocka" libcmocka-dev
    need "command -v ip" iproute2
    need "command -v gdb" gdb
}

packaging_needs() {
    need "command -v cmake" cmake
    need "command -v groff" groff
    need "command -v man" man-db
    need "command -v dpkg-shlibdeps" dpkg-dev
}

peers_need() {
    need "python3 -m pip --version" python3-pip
    need "command -v xz" xz-utils
    need "command -v ${CC:-gcc}" gcc
    need "command -v strip" binutils
}

site_needs() {
    need "command -v sphinx-build" python3-sphinx
    need "/usr/bin/python3 -c 'import myst_parser'" python3-myst-parser
}

virtual_hosts_need() {
    local PATH=$PATH:/usr/sbin:/sbin
    need "command -v qemu-system-x86_64" qemu-system-x86
    need "command -v busybox" busybox-static
    need "command -v cpio" cpio
    need "command -v modprobe" kmod
    need "command -v ip && command -v tc && command -v rdma" iproute2
    need "command -v ibv_rc_pingpong" ibverbs-utils
    need "ls /usr/lib/*/libibverbs/librxe*.so" ibverbs-providers
    need "command -v ib_write_bw" perftest
    need "command -v strip" binutils
}

# Debian's PyTorch: about 70 MB to download, 400 MB installed. Any other that a Python finds will do as well.
torch_needs() {
    need "command -v g++" g++
    ! python3 -c 'import torch, numpy' 2>/dev/null || return 0
    need "/usr/bin/python3 -c 'import torch'" python3-torch
    need "/usr/bin/python3 -c 'import numpy'" python3-numpy
    need "/usr/bin/python3 -c 'import setuptools'" python3-setuptools
    need "test -e /usr/include/torch/extension.h" libtorch-dev
    need "ls /usr/include/python3*/Python.h" python3-dev
    need "test -e /usr/include/pybind11/pybind11.h" pybind11-dev
}

# clang brings libFuzzer, or suggests the package that has it.
fuzzing_needs() {
    need "echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | clang -x c -fsanitize=fuzzer - -o /dev/null" clang
}

need() {
    eval "$1" >/dev/null 2>&1 || echo "$2"
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update || echo "deps: apt-get update failed; trying with the package lists that are there" >&2
    apt-get -qq -y --no-install-recommends install "$@"
}

mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -gt 0 ] || exit 0

echo "deps: missing (names of Debian packages): ${missing[*]}" >&2
if [ "${COLLET_NO_INSTALL:-0}" = 1 ]; then
    echo "deps: install them, or run scripts/deps.sh $profile" >&2
    exit 1
fi
if ! command -v apt-get >/dev/null; then
    echo "deps: this is not a Debian system: install what corresponds to them, then try again" >&2
    exit 1
fi

if [ "$(id -u)" = 0 ]; then
    install_packages "${missing[@]}"
elif command -v sudo >/dev/null; then
    echo "deps: will run: sudo apt-get update && sudo apt-get install ${missing[*]}" >&2
    sudo bash -c "$(declare -f install_packages); install_packages ${missing[*]}"
else
    echo "deps: neither root nor sudo: ask an administrator for: apt-get install ${missing[*]}" >&2
    exit 1
fi

mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -gt 0 ] || exit 0
echo "deps: still missing: ${missing[*]}" >&2
exit 1
