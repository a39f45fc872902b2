#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# kernel.sh DIR: puts a kernel that has software RDMA into DIR: boot/vmlinuz-VERSION and lib/modules/VERSION.
#
# It is Debian's: downloaded and unpacked, not installed, so that it takes no rights and changes nothing outside DIR. Once
# it is there nothing is done. Fails with one line that says what is missing where it cannot be had.
set -u
PATH=$PATH:/usr/sbin:/sbin

dir=$1
package_pattern='^linux-image-6\.1\.0-[0-9]+-amd64$' # the newest of them

cannot() {
    echo "no kernel for the virtual hosts: $*; or unpack one: dpkg-deb -x linux-image-6.1*-amd64.deb $dir"
    exit 1
}

ls "$dir"/lib/modules/*/modules.dep >/dev/null 2>&1 && exit 0
ls "$dir"/boot/vmlinuz-* >/dev/null 2>&1 && depmod -b "$dir" "$(ls "$dir/lib/modules")" && exit 0 # unpacked by hand
command -v apt-get >/dev/null || cannot "apt-get is not there to download one"
package=$(apt-cache search --names-only "$package_pattern" | cut -d' ' -f1 | sort -V | tail -n 1)
[ -n "$package" ] || cannot "apt knows no linux-image-6.1*-amd64"
[ "${COLLET_NO_INSTALL:-0}" != 1 ] || cannot "$package is not there (COLLET_NO_INSTALL=1)"

echo "fabric: unpacking $package in $dir" >&2
new=$dir.new
rm -rf "$new"
mkdir -p "$new" "$(dirname "$dir")"
(cd "$new" && apt-get -qq download "$package" >log 2>&1) || cannot "$package cannot be downloaded"
dpkg-deb -x "$new"/*.deb "$new/all"
rm -f "$new"/*.deb
depmod -b "$new/all" "$(ls "$new/all/lib/modules")" || cannot "$package cannot be unpacked"
rm -rf "$dir"
mv "$new/all" "$dir"
rm -rf "$new"
