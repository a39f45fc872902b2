#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What `make install` and `make deb` install: enough to build programs in C and C++ with pkg-config alone and with CMake alone, and
# to read about every call and tool with man. And that uninstalling leaves nothing.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
version=$(sed -n 's/^#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.)
abi=$(objdump -p "$build/lib/libcollet.so" | sed -n 's/^ *SONAME *libcollet\.so\.//p')

# As the build was made: what is installed is not compiled again for GPUs.
cuda=0
[ "$(cut -c1-4 "$build/flags")" != CUDA ] || cuda=auto

# A case needs a program that tests can do without.
have() { command -v "$1" >/dev/null || { skipped "$2: $1 is not here (scripts/deps.sh package)"; return 1; }; }

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
    flock "$build/flags" make -s install CUDA=$cuda BUILD="$build" PREFIX=/usr DESTDIR="$root" >/dev/null &&
        [ "$(stat -c %a "$root/usr/lib/libcollet.so.$version")" = 755 ] && [ -x "$root/usr/bin/all_reduce_perf" ] &&
        [ -x "$root/usr/lib/collet/libnccl.so.2" ] && [ -e "$root/usr/include/collet/compat/nccl.h" ]
}

# Debug information stays in the build, and perf programs have no library of their own.
# Five tools have the whole library in them, and perf programs the CUDA runtime: kernels for GPUs make the sum larger.
is_small() {
    local bytes most=40
    [ -e "${BUILD:-build}/obj/src/kernels/cuda/exec_cuda.o" ] && most=64
    bytes=$(du -sb "$root" | cut -f1)
    [ "$bytes" -le $((most << 20)) ] || { find "$root" -type f -size +1M -exec ls -s {} +; return 1; }
}

# From their own folder: no variable says where the library is.
perf_programs_find_the_library() {
    local program
    for program in "$root"/usr/bin/*_perf; do
        objdump -p "$program" | grep -q "NEEDED *libcollet.so.$abi\$" || { echo "$program has a library of its own"; return 1; }
    done
    env -u LD_LIBRARY_PATH "$root/usr/bin/all_reduce_perf" --procs 2 -b 8 -e 8 -n 1
}

# What is said after installing, with a loader that looks into these folders and has found the library there or not.
said_after_installing() { # folder-of-the-loader found-there
    printf '#!/bin/bash\ncase $1 in\n-N) echo "%s: (from x)" ;;\n-p) %s && echo "	libcollet.so.%s (libc6) => %s/libcollet.so.%s" ;;\n*) : >%s/told ;;\nesac\n' \
        "$1" "$2" "$abi" "$root/usr/lib" "$abi" "$work" >"$work/ldconfig" && chmod +x "$work/ldconfig" && rm -f "$work/told"
    LDCONFIG=$work/ldconfig packaging/after-install.sh "$root/usr/lib" "libcollet.so.$abi"
}
says_what_the_shell_needs() {
    local said
    said=$(said_after_installing /elsewhere false) && [ ! -e "$work/told" ] && said=$said$'\n'"PATHS=\$PKG_CONFIG_PATH,\$LD_LIBRARY_PATH" &&
        [ "$(env -u PKG_CONFIG_PATH LD_LIBRARY_PATH=/x bash -c "$(sed 1d <<<"$said"); echo \$PATHS")" = "$root/usr/lib/pkgconfig,$root/usr/lib:/x" ] ||
        { echo "$said"; return 1; }
}
# As root, the loader is told of a library in its folders. Then no line about it is needed.
tells_the_loader() {
    local said
    said=$(said_after_installing "$root/usr/lib" true) && ! grep LD_LIBRARY_PATH <<<"$said" && { [ "$(id -u)" != 0 ] || [ -e "$work/told" ]; }
}

# libcollet.so, for linking ▶ libcollet.so.<SONAME>, for running ▶ the file, named by its version
links_lead_to_the_version() {
    [ "$(readlink "$root/usr/lib/libcollet.so")" = "libcollet.so.$abi" ] &&
        [ "$(readlink "$root/usr/lib/libcollet.so.$abi")" = "libcollet.so.$version" ]
}

# The examples of plugins, against the headers that are installed, and nothing else.
plugins_build() {
    local source
    for source in examples/plugins/*.c; do
        gcc -shared -fPIC -Wall -Wextra -Werror -I"$root/usr/include/collet/compat" "$source" -o "$work/plugin.so" && nm -D "$work/plugin.so" | grep -q ' D nccl\| R nccl' ||
            { echo "$source"; return 1; }
    done
}

pkg() { PKG_CONFIG_PATH=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root pkg-config "$@" collet; }

# shellcheck disable=SC2046 # lists of words
builds_with_shared_library() {
    "$@" -pedantic -Wall -Wextra -Werror $(pkg --cflags) "$work/user.c" -o "$work/user" $(pkg --libs) || return 1
    LD_LIBRARY_PATH=$root/usr/lib "$work/user" && objdump -p "$work/user" | grep -q "NEEDED *libcollet.so.$abi\$"
}

# What the sysroot of this test has is collet, not CUDA. No file of the machine that built it is named.
static_libs() { pkg --static --libs | sed "s|-L$root\(/[^ ]*cuda\)|-L\1|g"; }
# shellcheck disable=SC2046
builds_with_static_library() {
    ! static_libs | grep -E '(^| )/' &&
        gcc $(pkg --cflags) "$work/user.c" -o "$work/user" -Wl,-Bstatic -lcollet -Wl,-Bdynamic $(static_libs) &&
        ! ldd "$work/user" | grep libcollet && "$work/user"
}

# A copy that lies in no checkout and has no library in it.
python_finds_the_installed_library() {
    mkdir "$work/python" && cp -r integrations/python/collet "$work/python" &&
        (cd "$work" && LD_LIBRARY_PATH=$root/usr/lib PYTHONPATH=$work/python PYTHONDONTWRITEBYTECODE=1 python3 -m collet.info | grep "^library *libcollet.so.$abi\$")
}

# As where the packages that collet is built with are not installed: a user of the shared library needs none of them.
pkg_config_asks_for_nothing_else() {
    local flags
    flags=$(PKG_CONFIG_LIBDIR=$root/usr/lib/pkgconfig pkg-config --cflags --libs collet) || return 1
    [ "${flags% }" = "-lcollet" ] || { echo "$flags"; return 1; }
}

examples=$root/usr/share/doc/collet/examples

every_example_is_built() { # folder; and the first of them runs
    local source
    for source in "$examples"/*.c "$examples"/*.cc; do
        [ ! -e "$source" ] || [ -x "$1/$(basename "${source%.*}")" ] || { echo "$(basename "$source") is not built"; return 1; }
    done
    LD_LIBRARY_PATH=$root/usr/lib "$1/hello_allreduce" | grep -q 'rank 0 of 1'
}

examples_build_with_pkg_config() {
    mkdir "$work/with-pkg" && PKG_CONFIG_PATH=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root \
        env -u MAKEFLAGS -u MFLAGS make -s -C "$examples" OUT="$work/with-pkg" CFLAGS="-O0 -Wall -Wextra -Werror" CXXFLAGS="-O0 -Wall -Wextra -Werror" &&
        every_example_is_built "$work/with-pkg"
}

# Without pkg-config and without a word about where what is, but for the prefix.
examples_build_with_cmake() {
    env -u MAKEFLAGS -u MFLAGS PKG_CONFIG=false cmake -S "$examples" -B "$work/with-cmake" -DCMAKE_PREFIX_PATH="$root/usr" -DCMAKE_BUILD_TYPE=Debug &&
        env -u MAKEFLAGS -u MFLAGS cmake --build "$work/with-cmake" && every_example_is_built "$work/with-cmake"
}

cmake_configures() { # a line of CMake…: in a project that finds the package; CMake's words if it does not
    rm -rf "$work/project" && mkdir "$work/project"
    cp "$work/user.c" "$work/project/"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(user C)' "$@" >"$work/project/CMakeLists.txt"
    cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$root/usr" 2>&1
}

cmake_links_the_static_library() {
    cmake_configures 'find_package(collet REQUIRED)' 'add_executable(user user.c)' 'target_link_libraries(user collet::static)' &&
        cmake --build "$work/project/build" && ! ldd "$work/project/build/user" | grep libcollet && "$work/project/build/user"
}

# This version is asked for, an older one of the same interface, a newer one, another interface.
cmake_looks_at_the_version() {
    cmake_configures "find_package(collet $version REQUIRED)" "find_package(collet $version EXACT REQUIRED)" "find_package(collet $abi REQUIRED)" || return 1
    ! cmake_configures "find_package(collet $version.1 REQUIRED)" && ! cmake_configures 'find_package(collet 99 REQUIRED)' &&
        ! cmake_configures 'find_package(collet 0.0.1 REQUIRED)'
}

page() { MANWIDTH=120 LC_ALL=C.UTF-8 man --warnings -P cat -M "$root/usr/share/man" "$@" 2>"$work/warnings" && ! grep . "$work/warnings"; }

calls() { nm -D --defined-only --format=posix "$root/usr/lib/libcollet.so" | cut -d' ' -f1 | grep '^collet_'; }

# Rendered together: starting man for each of them takes longer. Aliases name their page from the folder above.
renders() { ! (cd "$root/usr/share/man" && groff -K utf8 -man -ww -z man"$1"/* 2>&1 | grep .); }

every_call_has_a_page() {
    local call page
    for call in $(calls); do
        page=$root/usr/share/man/man3/$call.3
        [ -s "$page" ] || { echo "no page for $call"; return 1; }
        page=$root/usr/share/man/$(sed -n 's/^\.so //p' "$page" | grep . || echo "man3/$call.3")
        grep -q "$call(" "$page" || { echo "$page has no synopsis of $call"; return 1; }
    done
    renders 3
}

every_program_has_a_page() {
    local program
    for program in "$root"/usr/bin/*; do
        program=$(basename "$program")
        sed 's/\\//g' "$root/usr/share/man/man1/$program.1" | grep -q "^$program - [a-z]" || { echo "$program: no line that says what it does"; return 1; }
    done
    renders 1 && renders 7
}

# The page has the sentence, the prototype, the in-place rule and the rules that collectives share.
man_shows_a_call() {
    local text
    text=$(page collet_allreduce) || { cat "$work/warnings"; return 1; }
    for words in 'op over ranks of sendbuff' 'enum collet_result collet_allreduce(const void \*sendbuff,' 'In place: sendbuff == recvbuff' \
        'COMMON RULES' 'INVALID_ARGUMENT' 'collet_reducescatter(3)'; do
        grep -q "$words" <<<"$text" || { echo "not on the page: $words"; return 1; }
    done
    page 3 collet_recv | grep -q 'collet_recv(void \*recvbuff' && page 7 collet | grep -q 'COLLET_ERR_TIMEOUT = -6' &&
        page collet-prog | grep -q -- '--nodes N'
}

uninstalls() {
    make -s uninstall CUDA=$cuda BUILD="$build" PREFIX=/usr DESTDIR="$root" >/dev/null
    [ -z "$(find "$root" -type f -o -type l)" ] || { find "$root" -type f -o -type l; return 1; }
}


# Three packages go into a root of their own, and out of it.
debian() { PATH=$PATH:/usr/sbin:/sbin dpkg --root="$work/debian" --force-depends --force-not-root "$@" 2>&1; }

packages_are_made() {
    DPKG_DEB_COMPRESSOR_LEVEL=0 make -s deb CUDA=$cuda BUILD="$build" DEB_DIR="$work/deb" && for package in libcollet"$abi" libcollet-dev collet-tools; do
        ls "$work/deb/${package}_${version}_"*.deb || return 1
    done
}

packages_install() {
    mkdir -p "$work/debian/var/lib/dpkg/"{info,updates,triggers} && : >"$work/debian/var/lib/dpkg/status" &&
        debian -i "$work"/deb/*.deb && [ "$(debian -l | grep -c '^ii .*collet')" = 3 ]
}

# The program built before, which needs the library by its SONAME, runs with the library of the package.
packaged_library_runs_programs() {
    LD_LIBRARY_PATH=$(dirname "$work"/debian/usr/lib/*/libcollet.so."$abi") "$work/with-pkg/hello_allreduce" &&
        debian -s libcollet"$abi" | grep -q '^Depends: .*libhwloc' && debian -s collet-tools | grep -q "^Depends: .*libcollet$abi"
}

packages_leave_nothing() {
    debian -P collet-tools libcollet-dev libcollet"$abi" && ! find "$work/debian/usr" ! -type d | grep .
}

check make_install_installs installs
check what_is_installed_is_small is_small
check perf_programs_find_the_library_from_their_own_folder perf_programs_find_the_library
check after_installing_the_shell_is_told_what_it_needs says_what_the_shell_needs
check after_installing_the_loader_is_told_if_it_looks_there tells_the_loader
check plugins_build_with_what_is_installed plugins_build
check links_of_the_library_lead_to_its_version links_lead_to_the_version
check a_c99_program_builds_with_what_is_installed builds_with_shared_library gcc -std=c99
check a_cxx_program_builds_with_what_is_installed builds_with_shared_library g++ -x c++ -std=c++17
check a_program_links_statically_with_what_is_installed builds_with_static_library
check pkg_config_asks_for_collet_alone pkg_config_asks_for_nothing_else
! have python3 python_finds_the_installed_library || check python_finds_the_installed_library python_finds_the_installed_library
check every_example_builds_with_pkg_config_alone examples_build_with_pkg_config
if have cmake every_example_builds_with_cmake_alone; then
    check every_example_builds_with_cmake_alone examples_build_with_cmake
    check cmake_links_the_static_library cmake_links_the_static_library
    check cmake_accepts_what_keeps_the_interface_only cmake_looks_at_the_version
fi
if have groff every_public_call_has_a_page; then
    check every_public_call_has_a_page every_call_has_a_page
    check every_program_has_a_page every_program_has_a_page
fi
if have man man_shows_a_call_a_tool_and_the_overview; then
    check man_shows_a_call_a_tool_and_the_overview man_shows_a_call
fi
if have dpkg-shlibdeps debian_packages_come_and_go; then
    check make_deb_makes_three_packages packages_are_made
    check the_packages_install packages_install
    check a_program_runs_with_the_packaged_library packaged_library_runs_programs
    check the_packages_leave_nothing packages_leave_nothing
fi
check make_uninstall_leaves_nothing uninstalls
finish
