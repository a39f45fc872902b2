#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh MAKE [FOLDER]: puts what `make install` installs into three Debian packages, in build/deb unless FOLDER is given.
#
#   libcollet0.1    the library that programs run with; one package per SONAME, so that two may be installed side by side
#   libcollet-dev   what building with it needs: header, links, pkg-config, CMake, manual pages of the calls, examples
#   collet-tools    collet-info, all_reduce_perf … with their manual pages; collet/libnccl.so.2
#
# The packages depend on what dpkg-shlibdeps finds in the programs. DEBFULLNAME and DEBEMAIL name the one who packs.
set -eu -o pipefail
cd "$(dirname "$0")/.."
make=$1
out=${2:-${BUILD:-build}/deb}

for tool in dpkg-deb dpkg-shlibdeps dpkg-architecture; do
    command -v $tool >/dev/null || { echo "make deb: $tool is missing: apt-get install dpkg-dev" >&2; exit 1; }
done

version=$(sed -n 's/^#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.)
arch=$(dpkg-architecture -qDEB_HOST_ARCH)
libdir=usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
all=$work/all
$make -s install DESTDIR="$all" PREFIX=/usr LIBDIR="/$libdir" DOCDIR=/usr/share/doc/libcollet-dev >/dev/null

soname=$(objdump -p "$all/$libdir/libcollet.so" | sed -n 's/ *SONAME *//p')
library=libcollet${soname#libcollet.so.}
find "$all/usr/bin" -type f ! -exec grep -qI . {} \; -exec strip --strip-unneeded {} + # programs in Python are text
strip --strip-unneeded "$all/$libdir/libcollet.so.$version" "$all/$libdir"/collet/libnccl*.so*
find "$all/usr/share/man" -type f -exec gzip -9n {} +

take() { # package path…: moves paths of the whole installation, which are patterns, into a package
    local package=$1 path
    shift
    mkdir -p "$work/$package/DEBIAN"
    (cd "$all" && for path in $*; do echo "$path"; done) | while read -r path; do
        mkdir -p "$work/$package/$(dirname "$path")"
        mv "$all/$path" "$work/$package/$path"
    done
}

# What the programs in a package need from other packages: "libc6 (>= 2.34), libhwloc15 (>= 2.9.0) …"
needs_of() {
    local package=$1
    mkdir -p "$work/debian"
    printf 'Source: collet\n\nPackage: %s\nArchitecture: any\n' "$package" >"$work/debian/control"
    (cd "$work" && find "$package" -type f \( -path '*/bin/*' -o -name '*.so.*' \) ! -exec grep -qI . {} \; -print0 |
        xargs -0 dpkg-shlibdeps -S"$library" -O) |
        sed -n 's/^shlibs:Depends=//p'
}

pack() { # package section depends suggests multi-arch summary
    local root=$work/$1
    install -D -m 644 LICENSE "$root/usr/share/doc/$1/copyright"
    gzip -9nc CHANGELOG.md >"$root/usr/share/doc/$1/changelog.gz"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    cat >"$root/DEBIAN/control" <<CONTROL
Package: $1
Source: collet
Version: $version
Architecture: $arch
Multi-Arch: $5
Maintainer: ${DEBFULLNAME:-collet} <${DEBEMAIL:-collet@localhost}>
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $3
Suggests: $4
Section: $2
Priority: optional
Description: $6
 collet moves and reduces data among processes, threads and GPUs: allreduce,
 allgather, reducescatter, alltoall, broadcast, reduce, gather, scatter,
 barrier, send and receive.
CONTROL
    dpkg-deb --root-owner-group --build "$root" "$out/$1_${version}_$arch.deb"
}

mkdir -p "$out"
take "$library" "$libdir/libcollet.so.*"
take libcollet-dev usr/include "$libdir/libcollet.so $libdir/libcollet.a $libdir/pkgconfig $libdir/cmake" \
    usr/share/man/man3 usr/share/man/man7 usr/share/doc/libcollet-dev
take collet-tools usr/bin usr/share/man/man1 "$libdir/collet"
left=$(find "$all" ! -type d)
[ -z "$left" ] || { echo "make deb: no package takes ${left//$all/}" >&2; exit 1; }

echo "libcollet ${soname#libcollet.so.} $library (>= $version)" >"$work/$library/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$work/$library/DEBIAN/triggers"
pack "$library" libs "$(needs_of "$library")" libibverbs1 same "collective communication: the library"
pack libcollet-dev libdevel "$library (= $version)" "pkg-config, cmake, libsodium-dev, libhwloc-dev, libxml2-dev" same \
    "collective communication: header, manual, examples"
pack collet-tools utils "$(needs_of collet-tools)" "libibverbs1, python3, gnuplot" foreign "collective communication: what measures and explains"
