#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `make test-slurm`: jobs that srun of a real Slurm starts. A cluster of its own, on hosts that are network namespaces
# (tests/common/hosts.sh), with all its files in memory; nothing of the system's Slurm, if there is one, is touched.
#
#    h1: munged, slurmctld, slurmd, srun      h2: munged, slurmd
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/common/hosts.sh

bin=${BUILD:-build}/bin
[ -x "$bin/all_reduce_perf" ] || lab_skip "the perf programs are not built in $bin"
for tool in munged slurmctld slurmd srun; do
    command -v $tool >/dev/null || lab_skip "needs $tool (Debian packages slurmctld slurmd slurm-client munge)"
done
lab_enter "$@"
[ "$(awk '$1 == 0 { print $3 }' /proc/self/uid_map)" -gt 1 ] || lab_skip "needs root: slurmd takes the identity of users"

slurm=$lab/slurm
short="-b 8 -e 1M -f 16 -n 2 -w 1"
export SLURM_CONF=$slurm/slurm.conf COLLET_CPUS=1 COLLET_INIT_TIMEOUT=15

# ------------------------------------------------------------------------------------------------------- the cluster

write_files() {
    mkdir -p $slurm/state $slurm/h1 $slurm/h2
    (umask 077 && head -c 1024 /dev/urandom >$slurm/munge.key)
    cat >"$SLURM_CONF" <<END
ClusterName=lab
SlurmctldHost=h1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/run/host/socket
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/%n
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/%n.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/%n.log
TmpFS=/run/host
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
NodeName=h1,h2 CPUs=4
PartitionName=all Nodes=h1,h2 Default=YES State=UP
END
}

# Runs a command on a host with a /run/host of the host's own. (One munged for both hosts would take for a replay what the
# second slurmd shows it, and one place for temporary files would have the second find those of the first.)
with_host_files() {
    local host=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    on_host "$host" unshare --mount sh -c 'mount --bind "$0" /run/host && exec "$@"' "$lab/host-h$host" "$@"
}

start_cluster() {
    local host tries
    write_files
    mkdir -p /run/host
    for host in 1 2; do
        mkdir -p $lab/host-h$host
        with_host_files $host munged --foreground --force --num-threads=1 --key-file=$slurm/munge.key --socket=/run/host/socket \
            --pid-file=/run/host/pid --seed-file=/run/host/seed >$slurm/munged-h$host.log 2>&1 &
        disown
    done
    for ((tries = 0; tries < 250; tries++)); do
        [ -S $lab/host-h1/socket ] && [ -S $lab/host-h2/socket ] && break
        sleep 0.02
    done
    with_host_files 1 slurmctld -D -c -f "$SLURM_CONF" >/dev/null 2>&1 &
    disown
    for host in 1 2; do
        with_host_files $host slurmd -D -N h$host -f "$SLURM_CONF" >/dev/null 2>&1 &
        disown
    done
    for ((tries = 0; tries < 60; tries++)); do
        [ "$(with_host_files 1 timeout 10 sinfo -h -t idle -o %D 2>/dev/null)" = 2 ] && return 0
        sleep 0.25
    done
    tail -n 20 $slurm/*.log
    return 1
}

# ------------------------------------------------------------------------------------------------------------- cases

# job HOSTS OPTIONS… PROGRAM…: 2 ranks on each host, which are where they should be.
job() {
    local hosts=$1
    shift
    with_host_files 1 timeout 60 srun -N"$hosts" -n$((2 * hosts)) --ntasks-per-node=2 "$@" $short >$lab/rank0.out 2>&1 &&
        [ "$(grep -cE '^# +Rank +[0-3] .* h[12] device' $lab/rank0.out)" = $((2 * hosts)) ] &&
        [ "$(grep -oE ' h[12] device' $lab/rank0.out | sort -u | wc -l)" = "$hosts" ] || { cat $lab/rank0.out; return 1; }
}

all_collectives_by_srun() {
    local program
    for program in all_reduce all_gather reduce_scatter alltoall broadcast reduce sendrecv; do
        echo $program
        job "$@" $lab/rank "$bin/${program}_perf" || return 1
    done
}

at_an_id() { COLLET_COMM_ID=h1:29700 job 2 $lab/rank "$bin/all_reduce_perf"; }
at_a_master() { MASTER_ADDR=h1 all_collectives_by_srun 2; }

through() { job 2 --mpi="$1" $lab/rank "$bin/all_reduce_perf"; }

without_a_place_to_meet() {
    ! job 2 --mpi=none $lab/rank "$bin/all_reduce_perf" >/dev/null && grep 'set MASTER_ADDR' $lab/rank0.out
}

lab_hosts 2 1 || lab_skip "the hosts could not be built"
check slurm_starts start_cluster
check ranks_of_one_host_meet_by_the_job_id all_collectives_by_srun 1
check ranks_of_two_hosts_meet_at_master_addr at_a_master
check ranks_of_two_hosts_meet_at_comm_id at_an_id
for store in pmi2 pmix; do
    if with_host_files 1 srun --mpi=list 2>&1 | grep -qw $store; then
        check ranks_of_two_hosts_meet_through_$store through $store
    else
        skipped "this Slurm has no $store"
    fi
done
check without_a_place_to_meet_the_error_says_what_to_set without_a_place_to_meet
finish
