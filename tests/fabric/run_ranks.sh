#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# run_ranks RANKS SECONDS PROGRAM…: inside a virtual host, runs its RANKS ranks of a job that has as many on each of two
# hosts. What rank K prints is in /tmp/rank.K while it runs. At the end everything is printed, each line behind "K: ", and
# then for each rank "rank K ended with STATUS"; 124 is that of one that had to be killed.
ranks=$1 seconds=$2
shift 2
host=$(hostname)
first=$(((${host#host} - 1) * ranks))

export MASTER_ADDR=10.0.0.1 WORLD_SIZE=$((2 * ranks)) LOCAL_WORLD_SIZE=$ranks
rm -f /tmp/rank.* /tmp/status.*
for ((rank = first; rank < first + ranks; rank++)); do
    (
        RANK=$rank timeout -s KILL "$seconds" "$@" >/tmp/rank.$rank 2>&1
        echo $? >/tmp/status.$rank
    ) 2>/dev/null &
done
wait
for ((rank = first; rank < first + ranks; rank++)); do
    sed "s/^/$rank: /" /tmp/rank.$rank
done
for ((rank = first; rank < first + ranks; rank++)); do
    status=$(cat /tmp/status.$rank)
    echo "rank $rank ended with $([ "$status" = 137 ] && echo 124 || echo "$status")"
done
