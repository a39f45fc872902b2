#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Settings of NCCL from documents and launch scripts (tests/nccl/settings.txt), each alone: a job starts, and its results are right. Before,
# creation failed: what is an error in a variable of collet's was one in a variable of NCCL's.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/users/users.sh

settings=tests/nccl/settings.txt

# One setting. Where none of this machine's interfaces is left, the job is refused, as NCCL refuses it.
try() { # VARIABLE=VALUE
    local output
    output=$(env "$1" timeout 60 "$job" 2>&1) && return
    case $1 in NCCL_SOCKET_*) grep -qE 'no network interface|COLLET_SOCKET_FAMILY' <<<"$output" && return ;; esac
    echo "$1"
    echo "$output"
    return 1
}
export -f try
export job

# Half of them in the background, since most of the time of a job is waiting.
try_all() {
    sed -nE 's/^(NCCL_[A-Z0-9_]+=.*[^ ]) +#.*/\1/p' "$settings" | xargs -d '\n' -P 2 -n 1 bash -c 'try "$1"' try
}

list_is_long() { [ "$(grep -c '^NCCL_' "$settings")" -ge 60 ] && ! grep -vE '^#|^NCCL_[A-Z0-9_]+=[^ ]*   # .+' "$settings"; }

# What is said: once by each of the two processes, and by none where nothing is lost.
says() { # VARIABLE=VALUE, how often, text
    env "$1" timeout 60 "$job" >"$work/output" 2>&1 && [ "$(grep -cF "collet WARN ENV $3" "$work/output")" = "$2" ] &&
        [ "$(grep -c WARN "$work/output")" = "$2" ] || { cat "$work/output"; return 1; }
}
losses_are_told() {
    says NCCL_IB_RETRY_CNT=15 2 'NCCL_IB_RETRY_CNT=15: 7 counts, which is the most here' &&
        says NCCL_IB_TIMEOUT=-3 2 'NCCL_IB_TIMEOUT=-3: 0 counts, which is the least here' &&
        says NCCL_IB_TC=many 2 'NCCL_IB_TC=many: it is no number, so the default counts' &&
        says NCCL_ALGO=CollnetDirect 2 'NCCL_ALGO=CollnetDirect: collet has no CollnetDirect; where nothing else is named, it chooses freely' &&
        says 'NCCL_ALGO=ring,nvlstree;allreduce:tree' 2 'NCCL_ALGO=ring,nvlstree;allreduce:tree: collet has no nvlstree; the rest counts' &&
        says NCCL_ALGO=ring,rong 2 'NCCL_ALGO=ring,rong: collet has no rong; the rest counts' &&
        says NCCL_ALGO=^ring,tree 2 'NCCL_ALGO=^ring,tree: it keeps broadcast:tree,reduce:tree, which any number of ranks can use' &&
        says NCCL_PROTO='LL;allreduce:Simple,LL256' 2 'NCCL_PROTO=LL;allreduce:Simple,LL256: collet has no LL256; the rest counts' &&
        says NCCL_PROTO='LL;nobody:Simple' 2 'NCCL_PROTO=LL;nobody:Simple: collet has no nobody; the rest counts' &&
        says NCCL_IB_HCA='=mlx5_0:1:0:1' 2 'NCCL_IB_HCA==mlx5_0:1:0:1: rails and planes count for nothing' &&
        says NCCL_NET_GDR_LEVEL=FAR 2 'NCCL_NET_GDR_LEVEL=FAR: it is neither LOC' &&
        says NCCL_TOPO_FILE=/nowhere.xml 2 'NCCL_TOPO_FILE=/nowhere.xml: the file cannot be read' &&
        says NCCL_NET='AWS Libfabric' 2 'NCCL_NET=AWS Libfabric: collet has the networks Socket and IB'
}
what_is_meant_is_silent() {
    says NCCL_ALGO=^NVLS,NVLSTree 0 '' && says NCCL_NET_GDR_LEVEL=5 0 '' && says NCCL_PROTO=^LL128 0 '' && says 'NCCL_PROTO=^LL128;allreduce:LL;reduce:^LL' 0 '' && says NCCL_IB_HCA=^mlx5_3 0 '' &&
        says NCCL_DEBUG=ABORT 0 '' && says NCCL_P2P_LEVEL=NVL 0 ''
}

# What NCCL refuses is refused; and collet's own names are read as strictly as ever.
is_refused() { # VARIABLE=VALUE, text
    ! env "$1" timeout 60 "$job" >"$work/output" 2>&1 && grep -qF "$2" "$work/output" || { cat "$work/output"; return 1; }
}
nonsense_is_refused() {
    is_refused NCCL_ALGO=rong 'names "rong"' && is_refused NCCL_PROTO=LL256 'names "LL256"' && is_refused NCCL_PROTO=^LL,LL128,Simple 'leaves no protocol' &&
        is_refused NCCL_PROTO=allreduce:LL256 'names "allreduce:LL256"' && is_refused 'NCCL_PROTO=LL;allreduce:^LL,LL128,Simple' 'names "LL;allreduce:^LL"'
}
own_names_are_strict() {
    is_refused COLLET_IB_RETRY_CNT=15 'COLLET_IB_RETRY_CNT=15: expected a whole number from -1 to 7' &&
        is_refused COLLET_NET_GDR_LEVEL=5 'COLLET_NET_GDR_LEVEL=5: expected' && is_refused COLLET_ALGO=CollnetDirect 'names "CollnetDirect"' &&
        is_refused COLLET_ALGO='ring;allreduce:tree' 'names "ring;allreduce:tree"' && is_refused COLLET_PROTO=allredcue:LL 'names "allredcue:LL"' &&
        is_refused COLLET_PROTO=send:LL 'names "send:LL"'
}

# The choices that the log tells of.
chooses() { # VARIABLE=VALUE, what the allreduces of the job, or another collective, may be done by
    env "$1" NCCL_DEBUG=INFO timeout 60 "$job" >"$work/output" 2>&1 && grep -qE "PLAN ${3:-allreduce} up to" "$work/output" &&
        ! grep "PLAN ${3:-allreduce} up to" "$work/output" | grep -vE "ranks: ($2), " || { cat "$work/output"; return 1; }
}
choices_are_obeyed() {
    chooses NCCL_ALGO=allreduce:tree tree && chooses 'NCCL_ALGO=ring;allreduce:tree' tree && chooses 'NCCL_ALGO=tree;broadcast:ring' tree &&
        chooses 'NCCL_ALGO=allreduce:Ring' ring && chooses 'NCCL_ALGO=^doubling,oneshot,twoshot,halving,tree' ring &&
        chooses COLLET_ALGO=allreduce:tree,broadcast:direct tree && chooses COLLET_ALGO=^doubling,oneshot,twoshot,halving,allreduce:tree ring &&
        chooses COLLET_ALGO=ring,tree,^allreduce:ring tree
}
# Each protocol is one that the tuner would not take for all sizes.
protocols_are_obeyed() {
    chooses NCCL_PROTO=allreduce:LL '[a-z]+, LL' && chooses 'NCCL_PROTO=LL;allreduce:Simple' '[a-z]+, Simple' && chooses NCCL_PROTO='ll;AllReduce:simple' '[a-z]+, LL' broadcast &&
        chooses 'NCCL_PROTO=^LL;allreduce:LL' '[a-z]+, LL' && chooses 'NCCL_PROTO=^LL,LL128;allreduce:LL' '[a-z]+, Simple' allgather &&
        chooses 'NCCL_PROTO=allreduce:^Simple,LL128' '[a-z]+, LL' && chooses COLLET_PROTO=LL,allreduce:Simple '[a-z]+, Simple' &&
        chooses COLLET_PROTO=allreduce:LL128,reduce:LL '[a-z]+, LL128' && chooses COLLET_PROTO=allreduce:LL128,reduce:LL '[a-z]+, LL' reduce
}

check a_small_job_is_built job_is_built
check the_list_has_a_source_for_each_setting list_is_long
check a_job_starts_with_each_setting_and_is_right try_all
check what_a_setting_does_not_do_is_told_once losses_are_told
check what_means_the_same_here_is_silent what_is_meant_is_silent
check what_NCCL_refuses_is_refused nonsense_is_refused
check collets_own_variables_are_read_strictly own_names_are_strict
check algorithms_are_chosen_as_the_variable_says choices_are_obeyed
check protocols_are_chosen_as_the_variable_says protocols_are_obeyed
finish
