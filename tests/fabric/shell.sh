# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# make fabric-shell: an interactive bash beside two virtual hosts, with the commands of lab.sh and jobs.sh. (This is its
# rcfile.) The hosts end with it.
set +m # hosts are not jobs of this shell
. tests/fabric/lab.sh
. tests/fabric/jobs.sh
. tests/fabric/speeds.sh

# job RANKS PROGRAM…: on both hosts, with $settings.
job() {
    start_job "$@"
    end_job
}

lab_needs "${BUILD:-build}/fabric" && lab_start "${BUILD:-build}/fabric" "${BUILD:-build}/bin" || exit
settings_for tcp
PS1='fabric$ '
cat <<'END'
Two hosts: rail 1 is rxe1 on eth1 (10.0.1.1, 10.0.1.2), rail 2 is rxe2 on eth2, and eth0 is for the rest.

  on 1 rdma link                                  a command on host 1 ('…' around what the host's shell should see)
  job 2 all_reduce_perf -b 8 -e 1M -f 8           2 ranks on each host
  settings_for verbs; echo $settings              what ranks have in their environment: tcp or verbs, or set it yourself
  with_netem 1 'loss 1%' job 2 all_reduce_perf    rail 1 loses packets meanwhile
  pull_cable 2 1; plug_cable 2 1                  host 2, rail 1
  kill_host 2; start_host 2; wait_host 2          a power cut, and a boot
  perftest ib_write_bw -b -s 1048576 -n 60 -t 16  the same pair of hosts without collet
  exit
END
