#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the libraries show to the world: the functions that collet.h declares, all of them and nothing else. And what an
# installation holds: enough to build a C and a C++ program with it.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}
lib=$build/lib
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

declared() {
    ${CC:-gcc} -E -P include/collet.h | tr '\n' ' ' | tr ';' '\n' |
        sed -nE 's/.*visibility\("default"\).*[ *](collet_[a-z0-9_]+) *\(.*/\1/p' | sort
}

same_names() { # prints what is only in one of two lists
    diff "$1" "$2" | sed -n -e "s/^</only in $(basename "$1"):/p" -e "s/^>/only in $(basename "$2"):/p" | grep . && return 1
    return 0
}

shared_library_exports_what_the_header_declares() {
    nm -D --defined-only --format=posix "$lib/libcollet.so.0" | cut -d' ' -f1 | sort >"$work/libcollet.so"
    same_names "$work/collet.h" "$work/libcollet.so"
}

static_library_exports_what_the_header_declares() {
    nm -g --defined-only --format=posix "$lib/libcollet.a" | awk 'NF > 1 { print $1 }' | sort >"$work/libcollet.a"
    same_names "$work/collet.h" "$work/libcollet.a"
}

header_declares_something() { [ "$(wc -l <"$work/collet.h")" -ge 10 ]; }

shared_library_has_its_soname() {
    objdump -p "$lib/libcollet.so.0" | grep -E 'SONAME +libcollet\.so\.0$'
}

shared_library_needs_no_executable_stack() {
    objdump -p "$lib/libcollet.so.0" | grep -A1 STACK | grep -E 'flags rw-$'
}

# With the kernels for every architecture in it.
shared_library_is_small() {
    strip -o "$work/stripped.so" "$lib/libcollet.so.0"
    local bytes
    bytes=$(stat -c %s "$work/stripped.so")
    [ "$bytes" -lt 12000000 ] || { echo "$bytes bytes"; return 1; }
}

shared_library_needs_no_driver() {
    ! objdump -p "$lib/libcollet.so.0" | grep -E 'NEEDED +libcuda'
}

cat >"$work/user.c" <<'PROGRAM'
#include <collet.h>
#include <stdio.h>
int main(void) {
    int version = 0;
    enum collet_result result = collet_get_version(&version);
    printf("%d %d\n", (int)result, version == COLLET_VERSION);
    return result != COLLET_SUCCESS || version != COLLET_VERSION;
}
PROGRAM

installs() {
    make -s install BUILD="$build" PREFIX=/usr DESTDIR="$work/root" >/dev/null &&
        [ "$(stat -c %a "$work/root/usr/lib/libcollet.so.0")" = 755 ] && [ -x "$work/root/usr/bin/all_reduce_perf" ]
}

pkg() { PKG_CONFIG_PATH=$work/root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root pkg-config "$@" collet; }

# shellcheck disable=SC2046 # lists of words
builds_with_shared_library() {
    "$@" -pedantic -Wall -Wextra -Werror $(pkg --cflags) "$work/user.c" -o "$work/user" $(pkg --libs) || return 1
    LD_LIBRARY_PATH=$work/root/usr/lib "$work/user"
}

# What the sysroot of this test has is collet, not CUDA.
# shellcheck disable=SC2046
builds_with_static_library() {
    gcc $(pkg --cflags) "$work/user.c" -o "$work/user" -Wl,-Bstatic -lcollet -Wl,-Bdynamic \
        $(pkg --static --libs | sed "s|$work/root\(/[^ ]*libcudart_static\.a\)|\1|") &&
        ! ldd "$work/user" | grep libcollet && "$work/user"
}

# As where the packages that collet is built with are not installed: a user of the shared library needs none of them.
pkg_config_asks_for_nothing_else() {
    local flags
    flags=$(PKG_CONFIG_LIBDIR=$work/root/usr/lib/pkgconfig pkg-config --cflags --libs collet) || return 1
    [ "${flags% }" = "-lcollet" ] || { echo "$flags"; return 1; }
}

uninstalls() {
    make -s uninstall BUILD="$build" PREFIX=/usr DESTDIR="$work/root" >/dev/null
    [ -z "$(find "$work/root" -type f -o -type l)" ] || { find "$work/root" -type f -o -type l; return 1; }
}

declared >"$work/collet.h"
check the_header_declares_functions header_declares_something
check the_shared_library_exports_what_the_header_declares shared_library_exports_what_the_header_declares
check the_static_library_exports_what_the_header_declares static_library_exports_what_the_header_declares
check the_shared_library_has_its_soname shared_library_has_its_soname
check the_shared_library_needs_no_executable_stack shared_library_needs_no_executable_stack
check the_shared_library_stripped_is_below_12_MB shared_library_is_small
check the_shared_library_needs_no_driver_to_be_loaded shared_library_needs_no_driver
check make_install_installs installs
check a_c99_program_builds_with_what_is_installed builds_with_shared_library gcc -std=c99
check a_cxx_program_builds_with_what_is_installed builds_with_shared_library g++ -x c++ -std=c++17
check a_program_links_statically_with_what_is_installed builds_with_static_library
check pkg_config_asks_for_collet_alone pkg_config_asks_for_nothing_else
check make_uninstall_leaves_nothing uninstalls
finish
