#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bench_fabric.sh [TRANSPORT…]: boots the two virtual hosts (lab.sh), and prints a table of speeds beside those of perftest (speeds.sh).
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/fabric/lab.sh
. tests/fabric/jobs.sh
. tests/fabric/speeds.sh

build=${BUILD:-build}
transports=("$@")
[ $# -gt 0 ] || transports=(verbs tcp)

why=$(lab_needs "$build/fabric") || { echo "fabric: $why"; exit 77; }
lab_start "$build/fabric" "$build/bin" || exit
report_speeds 3 "${transports[@]}"
