#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
#
# The first process of a virtual host, number `host` (1 or 2) of the kernel's command line:
#
#   eth0  10.0.0.<host>   the network for everything that is not under test: where ranks meet and watch each other
#   eth1  10.0.1.<host>   rail 1, with the RDMA device rxe1
#   eth2  10.0.2.<host>   rail 2, with the RDMA device rxe2
#
# Then a loop of commands on each of its virtio-serial ports (host_commands.sh).
/bin/busybox mkdir -p /dev/shm
/bin/busybox mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin HOME=/tmp

mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
ln -s /proc/self/fd /dev/fd
while read -r module; do
    insmod "/modules/$module" || echo "init: no module $module"
done </modules/order
host=$(sed 's/.*\<host=//; s/ .*//' /proc/cmdline)

hostname "host$host"
printf '127.0.0.1 localhost\n10.0.0.1 host1\n10.0.0.2 host2\n' >/etc/hosts
ip link set lo up
for net in 0 1 2; do
    ip link set "eth$net" up mtu 9000
    ip addr add "10.0.$net.$host/24" dev "eth$net"
    [ $net = 0 ] || rdma link add "rxe$net" type rxe netdev "eth$net" || echo "init: no rxe$net"
done
ulimit -l unlimited
ulimit -n 65536

for port in /sys/class/virtio-ports/*; do
    name=$(cat "$port/name")
    setsid bash /commands "/dev/$(basename "$port")" "/tmp/$name.out" &
done
while :; do
    wait
    sleep 1
done
