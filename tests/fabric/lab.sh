# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Two virtual hosts with software RDMA, and commands for them. To be sourced by a bash script, which then has:
#
#   lab_needs DIR                gets a kernel into DIR, or says in one line what is missing on this machine
#   lab_start DIR BIN            boots both hosts with the programs in BIN; all files are made in DIR
#   on HOST COMMAND              runs it there: prints its output, returns its exit status
#   tell PORT COMMAND, answer PORT    the two halves of that, for commands that run on both hosts at once
#   pull_cable HOST RAIL, plug_cable HOST RAIL
#   kill_host HOST               like a power cut; start_host HOST boots it again
#   lab_stop
#
#   this script ──FIFO 1.in──▶  ┌── host 1, qemu ──┐   datagrams   ┌── host 2, qemu ──┐
#               ◀─FIFO 1.out──  │ eth0, eth1, eth2 │◀─────────────▶│ eth0, eth1, eth2 │     one pair of Unix sockets
#                               └──────────────────┘   a network   └──────────────────┘     for each of the 3 networks
#
# A host has two ports, "1" and "1.side": what is told to one does not wait for what the other is doing. Hosts are
# children of this script and the kernel kills them when it ends, however it does.

limit=60 # seconds that a command may take
lab_scripts=$(realpath "$(dirname "${BASH_SOURCE[0]}")")

lab_needs() {
    local why
    [ "$(uname -m)" = x86_64 ] || { echo "the virtual hosts are x86_64, this machine is not"; return 1; }
    why=$(COLLET_NO_INSTALL=1 "$lab_scripts/../../scripts/deps.sh" fabric 2>&1) || { echo "${why%%$'\n'*}"; return 1; }
    mkdir -p "$1"
    "$lab_scripts/kernel.sh" "$1/kernel"
}

lab_start() {
    local dir bin=$2
    dir=$(realpath "$1")
    "$lab_scripts/build_image.sh" "$dir/kernel" "$bin" "$dir/image" || return
    lab_kernel=$(ls "$dir"/kernel/boot/vmlinuz-*) lab_image=$dir/image
    lab_dir=$(mktemp -d "$dir/run.XXXXXX")
    trap lab_stop EXIT
    trap 'exit 1' INT TERM HUP
    start_host 1 && start_host 2 && wait_host 1 && wait_host 2
}

lab_stop() {
    kill_host 1
    kill_host 2
    rm -rf "${lab_dir:?}"
}

# ------------------------------------------------------------------------------------------------------------- one host

start_host() {
    local host=$1 other=$((3 - $1)) net port arguments=()
    for net in 0 1 2; do
        arguments+=(
            -netdev "dgram,id=net$net,local.type=unix,local.path=$host.net$net,remote.type=unix,remote.path=$other.net$net"
            -device "virtio-net-pci,netdev=net$net,mac=52:54:00:00:0$net:0$host")
    done
    arguments+=(-device virtio-serial)
    for port in "$host" "$host.side"; do
        lab_pipe "$port"
        arguments+=(-chardev "pipe,id=port$port,path=$port" -device "virtserialport,chardev=port$port,name=$port")
    done
    lab_pipe "$host.qmp"
    arguments+=(-chardev "pipe,id=qmp,path=$host.qmp" -mon "chardev=qmp,mode=control")
    rm -f "$lab_dir/$host".net?
    # Without no_timer_check the kernel panics if the emulated timer is late, as it is where the machine is busy.
    (
        cd "$lab_dir" || exit
        exec setsid setpriv --pdeathsig KILL qemu-system-x86_64 -nodefaults -no-user-config -display none \
            -M q35 -accel tcg,thread=multi -cpu max -smp 1 -m 1024 -no-reboot -serial "file:$host.console" \
            -kernel "$lab_kernel" -initrd "$lab_image" -append "console=ttyS0 quiet panic=-1 no_timer_check host=$host" \
            "${arguments[@]}"
    ) &
    echo $! >"$lab_dir/$host.pid"
    disown $!
}

# wait_host HOST: until it takes commands.
wait_host() {
    sleep 0.2
    if ! kill -0 "$(cat "$lab_dir/$1.pid")" || ! limit=90 on "$1" true; then
        echo "host $1 does not come up; its console:"
        tail -n 20 "$lab_dir/$1.console"
        return 1
    fi
    qmp "$1" '{"execute": "qmp_capabilities"}'
}

kill_host() {
    local pid
    pid=$(cat "$lab_dir/$1.pid" 2>/dev/null) || return 0
    rm -f "$lab_dir/$1.pid"
    kill -KILL "$pid" 2>/dev/null
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.05
    done
}

# ------------------------------------------------------------------------------------------------------------- commands

# A new pair of FIFOs; this script keeps both open in both directions, so that nobody waits in open() or sees an end.
declare -A lab_in lab_out
lab_pipe() {
    local in out
    rm -f "$lab_dir/$1".{in,out}
    mkfifo "$lab_dir/$1".{in,out}
    [ -z "${lab_in[$1]:-}" ] || eval "exec ${lab_in[$1]}>&- ${lab_out[$1]}>&-"
    exec {in}<>"$lab_dir/$1.in" {out}<>"$lab_dir/$1.out"
    lab_in[$1]=$in lab_out[$1]=$out
}

tell() {
    local token=$RANDOM$RANDOM
    echo "$token" >"$lab_dir/$1.token"
    echo "$token $limit ${*:2}" >&"${lab_in[$1]}"
}

# What was printed since the last `tell`; a host that does not answer in time makes it fail with 124.
answer() {
    local line token deadline=$((SECONDS + limit + 5)) blank=
    token=$(cat "$lab_dir/$1.token")
    while IFS= read -r -t $((deadline - SECONDS > 0 ? deadline - SECONDS : 1)) -u "${lab_out[$1]}" line; do
        case $line in
        "=== $token "*) return "${line##* }" ;;
        "=== "*) blank= ;; # the end of an answer that nobody waited for
        '') blank=$blank$'\n' ;;
        *)
            printf '%s%s\n' "$blank" "$line"
            blank=
            ;;
        esac
    done
    echo "host ${1%.*} does not answer"
    return 124
}

on() {
    tell "$@"
    answer "$1"
}

# --------------------------------------------------------------------------------------------------------------- cables

# qmp HOST COMMAND: to QEMU itself.
qmp() {
    local line
    echo "$2" >&"${lab_in[$1.qmp]}"
    while IFS= read -r -t 10 -u "${lab_out[$1.qmp]}" line; do
        case $line in
        *'"return"'*) return 0 ;;
        *'"error"'*) break ;;
        esac
    done
    echo "host $1: $2: ${line:-no answer}"
    return 1
}

# A cable is pulled out of one host: no carrier there, silence on the other side.
pull_cable() {
    qmp "$1" "{\"execute\": \"set_link\", \"arguments\": {\"name\": \"net$2\", \"up\": false}}"
}

plug_cable() {
    qmp "$1" "{\"execute\": \"set_link\", \"arguments\": {\"name\": \"net$2\", \"up\": true}}"
}
