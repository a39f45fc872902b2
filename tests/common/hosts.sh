# SPDX-License-Identifier: Apache-2.0
#
# For tests that are shell scripts: hosts out of network namespaces, in a lab that disappears by itself.
#
#    lab: namespaces of its own for processes, network, mounts, host names
#    ┌───────────────────────────────────────────────────────────────┐
#    │       bridge rail0                     bridge rail1           │
#    │     ┌──────┴──────┐                  ┌──────┴──────┐          │
#    │  h1 eth0       h2 eth0  …         h1 eth1       h2 eth1  …    │    host h has 10.77.<rail>.<h> and
#    └───────────────────────────────────────────────────────────────┘    fd77:<rail>::<h> on each rail
#
#    lab_enter "$@"          first: runs the script again inside; ends it as skipped where that is not permitted
#    lab_hosts 4 2           4 hosts on 2 rails
#    on_host 3 ip addr       runs a command on host 3; processes of a host share memory as on any host
#    lab_job 2 2 command…    the command as 2 ranks on each of hosts 1 and 2, with torchrun's variables
#
# The lab's first process is the script. When it ends, however it ends, the kernel ends all the others, and with them
# the namespaces. Files that need a place are in $lab, in memory.
#
# A host is told apart by COLLET_HOSTID: all of them are one machine, and ranks would find that they can share memory.

lab=/run/collet-lab
lab_port=29500

lab_skip() {
    echo "$1"
    exit 77
}

lab_enter() {
    local user
    if [ "${COLLET_LAB:-}" = inside ]; then
        lab_furnish
        return
    fi
    for tool in ip unshare nsenter; do
        command -v $tool >/dev/null || lab_skip "needs $tool (Debian packages iproute2, util-linux)"
    done
    for user in "" "--user --map-root-user"; do
        # shellcheck disable=SC2086 # two words or none
        if unshare $user --net --uts --mount --pid --fork --kill-child --mount-proc sh -c 'mount -t tmpfs lab /run &&
            ip link add rail type bridge && ip link add cable0 type veth peer name cable1' 2>/dev/null; then
            COLLET_LAB=inside exec unshare $user --net --uts --mount --pid --fork --kill-child --mount-proc "$0" "$@"
        fi
    done
    lab_skip "network namespaces with bridge and veth are not permitted here"
}

lab_furnish() {
    trap 'exit 143' TERM INT # the first process of a namespace gets no signal that it does not ask for
    mount -t tmpfs lab /run && mkdir -p $lab && ip link set lo up || exit 1
    unset COLLET_LAB
}

# ------------------------------------------------------------------------------------------------------------ hosts

# The address of host $1 on rail $2 (0), of IP version $3 (4).
lab_address() {
    if [ "${3:-4}" = 6 ]; then echo "fd77:${2:-0}::$1"; else echo "10.77.${2:-0}.$1"; fi
}

on_host() {
    local holder=$lab/h$1.pid
    shift
    nsenter --target "$(<"$holder")" --net --uts --mount -- env -C "$PWD" "$@"
}

lab_hosts() {
    local hosts=$1 rails=$2 host rail
    lab_forget_hosts
    for ((rail = 0; rail < rails; rail++)); do
        ip link add "rail$rail" type bridge && ip link set "rail$rail" up || return 1
    done
    echo "127.0.0.1 localhost" >$lab/hosts
    mount --bind $lab/hosts /etc/hosts || return 1
    for ((host = 1; host <= hosts; host++)); do
        echo "$(lab_address "$host") h$host" >>$lab/hosts
        lab_host "$host" "$rails" || return 1
    done
    lab_scripts
}

# For launchers: $lab/rsh HOST command… as rsh would do it, and $lab/rank command… for a process that they start.
lab_scripts() {
    cat >$lab/rsh <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
host=\$1
shift
exec nsenter --target "\$(cat $lab/\$host.pid)" --net --uts --mount -- env -C "$PWD" sh -c "\$*"
END
    cat >$lab/rank <<END
#!/bin/sh
COLLET_HOSTID=\$(hostname) exec "\$@"
END
    chmod +x $lab/rsh $lab/rank
}

# In a host's mount namespace: a sysfs of its own, which shows its interfaces, with the control groups that were in the old
# one. Where that is not permitted the old one stays.
lab_own_sysfs() {
    mkdir -p "$lab/cgroup" && mount --rbind /sys/fs/cgroup $lab/cgroup
    mount -t sysfs sysfs /sys && mount --rbind $lab/cgroup /sys/fs/cgroup
    umount --recursive $lab/cgroup
}

# One host: a process that keeps its namespaces, and its cables.
lab_host() {
    local host=$1 rails=$2 rail tries=0
    unshare --net --uts --mount bash -c "lab=$lab; $(declare -f lab_own_sysfs); lab_own_sysfs 2>/dev/null
        hostname h$host && ip link set lo up && touch $lab/h$host.ready && exec sleep 100000" &
    echo $! >"$lab/h$host.pid"
    disown
    until [ -e "$lab/h$host.ready" ]; do
        [ $((tries += 1)) -lt 500 ] || return 1
        sleep 0.02
    done
    for ((rail = 0; rail < rails; rail++)); do
        ip link add "h${host}r$rail" type veth peer name "eth$rail" netns "$(<"$lab/h$host.pid")" &&
            ip link set "h${host}r$rail" master "rail$rail" up && lab_plug "$host" "$rail" || return 1
    done
}

# Gives the interface of host $1 on rail $2, which is called eth$2 or $3, its addresses and sets it up.
lab_plug() {
    on_host "$1" ip -batch - <<END
address replace $(lab_address "$1" "$2")/24 dev ${3:-eth$2}
address replace $(lab_address "$1" "$2" 6)/64 dev ${3:-eth$2} nodad
link set ${3:-eth$2} up
END
}

lab_forget_hosts() {
    local file
    for file in $lab/h*.pid; do
        [ -e "$file" ] && kill "$(<"$file")"
    done
    for file in /sys/class/net/rail*; do
        ip link del "${file##*/}" 2>/dev/null
    done
    rm -f $lab/h*.pid $lab/h*.ready
    umount /etc/hosts 2>/dev/null
    return 0
}

# ------------------------------------------------------------------------------------------------------------- jobs

# lab_job HOSTS RANKS_PER_HOST command…: as torchrun would start it; true if every rank ended well. Then $lab/rank<r>.out
# is what they printed; where one failed, all of it is shown. $lab/rank<r>.status is how each of them ended.
lab_job() {
    local hosts=$1 per_host=$2 rank failed=0
    shift 2
    lab_start "$hosts" "$per_host" "$@"
    lab_wait $((hosts * per_host))
    for ((rank = 0; rank < hosts * per_host; rank++)); do
        [ "$(<"$lab/rank$rank.status")" = 0 ] || failed=1
    done
    [ $failed = 0 ] || lab_show $((hosts * per_host))
    return $failed
}

lab_start() {
    local hosts=$1 per_host=$2 rank
    shift 2
    lab_port=$((lab_port + 16))
    lab_pids=()
    rm -f $lab/rank*.out $lab/rank*.status
    for ((rank = 0; rank < hosts * per_host; rank++)); do
        lab_rank $((rank / per_host + 1)) "$rank" $((hosts * per_host)) "$per_host" "$@" &
        lab_pids+=($!)
    done
}

lab_rank() {
    local host=$1 rank=$2 nranks=$3 per_host=$4
    shift 4
    on_host "$host" env RANK="$rank" WORLD_SIZE="$nranks" LOCAL_RANK=$((rank % per_host)) \
        LOCAL_WORLD_SIZE="$per_host" MASTER_ADDR="${LAB_MASTER:-$(lab_address 1)}" MASTER_PORT=$lab_port \
        COLLET_HOSTID="h$host" timeout "${LAB_LIMIT:-60}" "$@" >"$lab/rank$rank.out" 2>&1
    echo $? >"$lab/rank$rank.status"
}

lab_wait() {
    wait "${lab_pids[@]}"
}

lab_show() {
    local rank
    for ((rank = 0; rank < $1; rank++)); do
        echo "--- rank $rank, exit status $(<"$lab/rank$rank.status")"
        tail -n 40 "$lab/rank$rank.out"
    done
}
