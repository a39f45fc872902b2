#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# abi.sh [HEADER]: what a program that was compiled against collet.h relies on, one fact per line: prototypes, values of
# constants, and the fields of structs in their order. tests/whole/abi/<SONAME> is what this printed when the SONAME began;
# each of its lines must stay true as long as the SONAME stays. New lines may come at any time.
set -eu -o pipefail
header=${1:-$(dirname "$0")/../include/collet.h}

# COLLET_TYPE_COUNT and COLLET_OP_COUNT grow with the header, the version with each release.
sed -nE 's/ *\/\*.*//; s/^#define (COLLET_[A-Z_]+(\([a-z]*\))?) +(.+)/\1 = \3/p' "$header" |
    sed -E '/^COLLET_(MAJOR|MINOR|PATCH|VERSION|API) /d'
${CC:-gcc} -E -P "$header" | sed -n '/enum collet_result/,$p' | tr '\n' ' ' | sed -E 's/__attribute__\(\(visibility\("default"\)\)\) //g; s/ +/ /g' |
    awk '
        BEGIN { RS = ";" }
        { gsub(/^ +| +$/, "") }
        /^enum [a-z_]+ \{/ {
            sub(/^[^{]*\{ */, ""); sub(/ *\}.*/, "")
            n = split($0, values, /, */)
            for (i = 1; i <= n; i++) if (values[i] !~ /_COUNT = /) print values[i]
            next
        }
        /^struct [a-z_]+ \{/ { name = $2; field = 0; sub(/^[^{]*\{ */, "") }
        /^\}/ { name = ""; next }
        name != "" { print "struct " name ", field " ++field ": " $0; next }
        /\(/ { print }
    '
