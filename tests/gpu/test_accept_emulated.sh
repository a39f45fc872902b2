#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The acceptance program, on an emulated GPU: what is to run where a GPU is found is known to work before.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

accept=${BUILD:-build}/tests/gpu/test_accept

part() { timeout 60 "$accept" --emulated "$1"; }

says_why_it_is_skipped() {
    local said
    said=$(CUDA_VISIBLE_DEVICES='' "$accept")
    [ $? = 77 ] && [ "$said" = 'skipped: no CUDA device' ]
}

for name in processes windows modes sweep small small128 simple ll ll128 chosen memory streams graphs rankgraphs replays device abort; do
    check "the_part_${name}_passes_on_an_emulated_gpu" part "$name"
done
check without_a_gpu_it_says_so says_why_it_is_skipped
finish
