#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# beside.sh N COMMAND…: runs a command on a machine that is busy. Beside it, N processes want a CPU all the time.
count=$1
shift
busy=()
for ((k = 0; k < count; k++)); do
    while :; do :; done &
    busy+=($!)
done
trap 'kill "${busy[@]}"' EXIT
"$@"
