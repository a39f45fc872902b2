#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# How many registers ptxas gives the kernels of a source file: a line per kernel, its name and the number. The arguments are a call
# of nvcc, without -Xptxas.
set -o pipefail
"$@" -Xptxas -v 2>&1 | awk '
    /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
    match($0, /Used [0-9]+ registers/) { split(substr($0, RSTART), word, " "); print name, word[2] }
    /error/ { print > "/dev/stderr" }'
