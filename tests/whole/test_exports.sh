#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What the libraries show to the world: the functions that collet.h declares, all of them and nothing else. And what
# programs that were compiled before may rely on. tests/whole/test_install.sh looks at an installation.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}
lib=$build/lib
soname=$(objdump -p "$lib/libcollet.so" | sed -n 's/^ *SONAME *//p')
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
    nm -D --defined-only --format=posix "$lib/libcollet.so" | cut -d' ' -f1 | sort >"$work/libcollet.so"
    same_names "$work/collet.h" "$work/libcollet.so"
}

static_library_exports_what_the_header_declares() {
    nm -g --defined-only --format=posix "$lib/libcollet.a" | awk 'NF > 1 { print $1 }' | sort >"$work/libcollet.a"
    same_names "$work/collet.h" "$work/libcollet.a"
}

header_declares_something() { [ "$(wc -l <"$work/collet.h")" -ge 10 ]; }

shared_library_needs_no_executable_stack() {
    objdump -p "$lib/libcollet.so" | grep -A1 STACK | grep -E 'flags rw-$'
}

# With the kernels for every architecture in it.
shared_library_is_small() {
    strip -o "$work/stripped.so" "$lib/libcollet.so"
    local bytes
    bytes=$(stat -c %s "$work/stripped.so")
    [ "$bytes" -lt 12000000 ] || { echo "$bytes bytes"; return 1; }
}

shared_library_needs_no_driver() {
    ! objdump -p "$lib/libcollet.so" | grep -E 'NEEDED +libcuda'
}

# The rule of CONTRIBUTING.md: all of 1.x have one SONAME; before 1.0 each 0.x has its own.
soname_follows_the_version() {
    local major minor
    major=$(sed -n 's/^#define COLLET_MAJOR //p' include/collet.h)
    minor=$(sed -n 's/^#define COLLET_MINOR //p' include/collet.h)
    [ "$soname" = "libcollet.so.$([ "$major" = 0 ] && echo "0.$minor" || echo "$major")" ] || { echo "SONAME $soname"; return 1; }
}

promises_broken() { # header: the lines of the record that are no longer true of it
    scripts/abi.sh "$1" | grep -Fxvf - "tests/whole/abi/$soname"
}

promises_are_kept() {
    [ -s "tests/whole/abi/$soname" ] || { echo "no record: scripts/abi.sh > tests/whole/abi/$soname"; return 1; }
    ! promises_broken include/collet.h || { echo "a program compiled before would break: this needs another SONAME"; return 1; }
}

# A field in the middle of a struct, another value, another argument.
broken_promises_are_noticed() {
    local edit
    for edit in 's/^    int min_channels;/    int added;\n&/' 's/COLLET_PROD = 1/COLLET_PROD = 9/' 's/collet_group_start(void)/collet_group_start(int x)/'; do
        sed "$edit" include/collet.h >"$work/changed.h"
        promises_broken "$work/changed.h" >/dev/null || { echo "$edit was not noticed"; return 1; }
    done
}

additions_break_nothing() {
    sed -e 's/^    const char \*name;.*/&\n    int added;/' -e 's/^COLLET_API.*collet_group_start.*/COLLET_API int collet_added(void);\n&/' \
        include/collet.h >"$work/added.h"
    ! cmp -s "$work/added.h" include/collet.h && ! promises_broken "$work/added.h"
}

declared >"$work/collet.h"
check the_header_declares_functions header_declares_something
check the_shared_library_exports_what_the_header_declares shared_library_exports_what_the_header_declares
check the_static_library_exports_what_the_header_declares static_library_exports_what_the_header_declares
check the_soname_follows_the_version soname_follows_the_version
check what_programs_rely_on_is_as_it_was_when_the_soname_began promises_are_kept
check a_change_that_breaks_programs_is_noticed broken_promises_are_noticed
check an_addition_breaks_no_program additions_break_nothing
check the_shared_library_needs_no_executable_stack shared_library_needs_no_executable_stack
check the_shared_library_stripped_is_below_12_MB shared_library_is_small
check the_shared_library_needs_no_driver_to_be_loaded shared_library_needs_no_driver
finish
