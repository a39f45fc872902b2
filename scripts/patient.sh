#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# patient.sh SECONDS COMMAND…: runs the command, and stops it after so many seconds: exit status 124. On a busy machine a second counts
# less, so a test has the same time to run, and one that hangs still ends:
#
#      2 CPUs, and 2 processes that want one      a second counts as a second
#      2 CPUs, and 40 of them                     a second counts as 0.05 s, which is also the least: the last resort is 20 × as long
limit=$1
shift

command -p timeout --kill-after=5 $((limit * 20)) "$@" <&0 &
command=$!
trap 'kill -TERM $command 2>/dev/null' INT TERM

# After each second of waiting, in thousandths: CPUs per process that wants one.
used=0 cpus=$(nproc)
while [ $used -lt $((limit * 1000)) ]; do
    # The wait ends with the command, or with this second.
    sleep 1 &
    second=$!
    wait -n $command $second
    kill -0 $command 2>/dev/null || break
    read -r _ _ _ running _ </proc/loadavg
    share=$((cpus * 1000 / ${running%/*}))
    used=$((used + (share > 1000 ? 1000 : share < 50 ? 50 : share)))
done
kill $second 2>/dev/null
kill -0 $command 2>/dev/null && over=yes && kill -TERM $command
wait $command
status=$?
exit $([ -z "$over" ] && echo $status || echo 124)
