#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Collectives over tcp while a proxy carries the slots of ranks on host memory.
cd "$(dirname "$0")/../../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}
export COLLET_PROXY=1

conforms() { timeout 250 "$build/tests/core/test_conformance" tcp "$@"; }

check collectives_are_right_with_a_proxy conforms n=3 int32 sum count=17
check they_are_right_with_three_threads env COLLET_PROXY=3 COLLET_NCHANNELS=2 "$build/tests/core/test_conformance" tcp n=4 int32 sum count=17
check large_ones_are_right_with_a_proxy conforms n=2 allreduce/ring float Simple
finish
