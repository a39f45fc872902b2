#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# two-hosts.sh [--ranks N] COMMAND…: runs the command as N ranks (2 unless given) on each of two hosts, h1 and h2. They are network
# namespaces of this machine with a cable between them. Then it prints what each rank printed.
#
#    scripts/two-hosts.sh build/bin/all_reduce_perf -b 8 -e 1M -f 8
#
#    h1: ranks 0 and 1 ── eth0 10.77.0.1 ══════ 10.77.0.2 eth0 ── h2: ranks 2 and 3
#
# The two could share memory, as they are one machine. COLLET_HOSTID=h1 and =h2 tell them apart. Needs root, or user namespaces; exits
# with 77 if neither is there. LAB_LIMIT=60 ends it after 60 s.
checkout=$(dirname "$(dirname "$(realpath "$0")")")
. "$checkout/tests/common/hosts.sh"
PATH=$PATH:/usr/sbin:/sbin # ip

usage() {
    echo 'usage: scripts/two-hosts.sh [--ranks N] COMMAND…'
    exit "$1"
}

[ "${1:-}" != --help ] || usage 0
lab_enter "$@"
ranks=2
if [ "${1:-}" = --ranks ]; then
    ranks=${2:-}
    shift 2
fi
[[ "$ranks" =~ ^[1-9][0-9]?$ ]] && [ $# -gt 0 ] || usage 2 >&2
lab_hosts 2 1 || lab_skip 'the hosts could not be made'

LAB_LIMIT=${LAB_LIMIT:-86400} lab_job 2 "$ranks" "$@" >/dev/null
status=$?
for ((rank = 0; rank < 2 * ranks; rank++)); do
    [ ! -s "$lab/rank$rank.out" ] || sed "s/^/rank $rank on h$((rank / ranks + 1)) | /" "$lab/rank$rank.out"
done
exit $status
