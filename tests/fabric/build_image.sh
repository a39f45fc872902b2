#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# build_image.sh KERNEL BIN IMAGE: what a virtual host has for a file system, as the initramfs that its kernel unpacks.
#
#   /init                  host_init.sh
#   /bin                   busybox and a link for each of its commands (made by /init)
#   /usr/bin               real programs, which go before busybox's; run_ranks.sh; what is in BIN: collet's programs
#   /lib /lib64 /usr/lib   the libraries that ldd names, and the provider that libibverbs loads for rxe
#   /modules               kernel modules, and in `order` their names so that each comes after what it needs
set -eu
PATH=/usr/bin:/bin:/usr/sbin:/sbin:$PATH # the system's own come first: the timeout of tests needs files that no guest has

kernel=$1 bin=$2 image=$3
here=$(dirname "$0")
system_programs="bash timeout ip tc rdma ibv_devinfo ibv_rc_pingpong ib_write_bw ib_write_lat"
modules="virtio_pci virtio_net virtio_console crc32_generic ib_uverbs rdma_rxe sch_netem"

root=$image.root
rm -rf "$root"
mkdir -p "$root"/{bin,dev,proc,sys,tmp,etc,modules,usr/bin,usr/lib}

add_libraries_of() {
    ldd "$1" 2>/dev/null | grep -oE '/[^ ]+' | grep -v '/\.\./' | xargs -r cp -Lu --parents -t "$root"
}

for program in $system_programs; do
    cp -L "$(command -v "$program")" "$root/usr/bin/"
    add_libraries_of "$root/usr/bin/$program"
done
for program in "$bin"/*; do
    ! grep -qI . "$program" || continue # a script: there is no Python in the guests
    strip -o "$root/usr/bin/$(basename "$program")" "$program"
    add_libraries_of "$program"
done
cp "$bin"/../lib/libcollet.so.* "$root/usr/lib/" # perf programs look for it in ../lib
add_libraries_of "$bin/../lib/libcollet.so"
for provider in /usr/lib/*/libibverbs/librxe*.so /etc/libibverbs.d/rxe.driver; do
    cp -Lu --parents -t "$root" "$provider"
done
add_libraries_of "$(ls /usr/lib/*/libibverbs/librxe*.so)"
cp "$here/run_ranks.sh" "$root/usr/bin/run_ranks"
cp -L "$(command -v busybox)" "$root/bin/busybox"
ln -s /usr/bin/bash "$root/bin/bash"
cp "$here/host_init.sh" "$root/init"
cp "$here/host_commands.sh" "$root/commands"

version=$(ls "$kernel/lib/modules")
for module in $modules; do
    modprobe -d "$kernel" -S "$version" --show-depends "$module"
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
    cp "$file" "$root/modules/"
    basename "$file" >>"$root/modules/order"
done

(cd "$root" && find . | cpio -o -H newc --owner=0:0 --quiet) >"$image.new"
mv "$image.new" "$image"
rm -rf "$root"
