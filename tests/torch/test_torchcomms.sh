#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The backend for torchcomms (torchcomms.cpp), where TORCHCOMMS names a checkout of torchcomms.
cd "$(dirname "$0")/../.." || exit 1

scripts/torch.sh torchcomms || exit $?
home=$(realpath "${BUILD:-build}")/torch${TORCH:+-$TORCH}
exec "$home/test_torchcomms" "$home/libcollet_torchcomms.so"
