#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# after-install.sh LIBDIR SONAME: what `make install` does last, where it has installed for this machine. It tells the loader, if
# it may, and prints the lines that a user's shell needs, if it needs any:
#
#   export PKG_CONFIG_PATH=…    if pkg-config does not look there by itself
#   export LD_LIBRARY_PATH=…    if the loader does not, either
#
# LDCONFIG names another program, for tests.
set -u
libdir=$1 soname=$2
PATH=$PATH:/usr/sbin:/sbin
ldconfig=${LDCONFIG:-ldconfig}

# /lib may be a link to /usr/lib.
has() { xargs -r realpath -q | grep -qxF "$1"; } # the list on standard input this folder?
loader_looks_there() { $ldconfig -N -v 2>/dev/null | sed -n 's|^\(/[^:]*\):.*|\1|p' | has "$libdir"; }
loader_finds() { $ldconfig -p 2>/dev/null | sed -n "s|^\s*$soname .* => \(.*\)/[^/]*|\1|p" | has "$libdir"; }
pkg_config_finds() { pkg-config --variable pc_path pkg-config 2>/dev/null | tr : '\n' | has "$libdir/pkgconfig"; }

libdir=$(realpath "$libdir") lines=()
if [ "$(id -u)" = 0 ] && loader_looks_there; then
    $ldconfig
fi
pkg_config_finds || lines+=("export PKG_CONFIG_PATH=$libdir/pkgconfig\${PKG_CONFIG_PATH:+:\$PKG_CONFIG_PATH}")
loader_finds || lines+=("export LD_LIBRARY_PATH=$libdir\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}")
[ ${#lines[@]} = 0 ] || printf '%s\n' 'to build and to run programs with it:' "${lines[@]/#/    }"
