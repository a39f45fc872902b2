#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# For the tests of the line between the core and its layers: the registry (mk/layers.mk), the limits, and who includes whom.

# A limit of tests/core/limits.txt: `limit "circles api"`. What has no line may have none.
limit() { awk -v what="$1" 'index($0, what " ") == 1 && $NF ~ /^[0-9]+$/ { n = $NF } END { print n + 0 }' tests/core/limits.txt; }

within() { # what, number
    echo "  $1: $2, at most $(limit "$1")"
    [ "$2" -le "$(limit "$1")" ]
}

# The registry, a line each: the name, its folder, the layers that it needs. The programs of tools are in it, too.
registry() { sed -nE 's/^(layer|beside)_([a-z]+) +:= (src\/.*)/\2 \3/p' mk/layers.mk; }

# The functions of awk that know the registry: whose a file is, and who may need whom. Kernels for GPUs are a part of the layer gpu.
of_registry='
function owner(path,    name) {
    if (index(path, "src/kernels/cuda/") == 1) return "gpu"
    for (name in folder) if (index(path, folder[name] "/") == 1) return name
    return "core"
}
function needs(a, b) { return a == b || (a, b) in need }
function register(    i) { folder[$1] = $2; for (i = 3; i <= NF; i++) need[$1, $i] = 1 }
'

# Every include of one file of src by another, as "file header", with src/ before both.
includes() {
    git ls-files 'src/*.[ch]' 'src/*.cu' 'src/*.cuh' | xargs grep -E '^# *include "[a-z0-9_]+/' /dev/null |
        sed -E 's/^([^:]+):# *include "([^"]+)".*/\1 src\/\2/'
}

# Of the includes, those of headers of layers from elsewhere, as "who whose file header".
includes_of_layers() {
    includes | awk "$of_registry"'
        NR == FNR { register(); next }
        { a = owner($1); b = owner($2) }
        a != b && b != "core" { print a, b, $1, $2 }' <(registry) -
}

# Reads "who whose …", and prints each line that the registry on its standard input does not allow. The core is asked elsewhere.
not_in_registry() { # file with lines
    awk "$of_registry"'
        NR == FNR { register(); next }
        $1 != "core" && !needs($1, $2) { print "mk/layers.mk: " $1 " needs " $2 ": " $3, $4 }' - "$1"
}

# Reads edges "file file", without the ends of their names, and prints "room file" of each that is in a circle of files of its room.
files_in_circles() {
    sort -u | awk '
        function room(file) { sub(/\/[^\/]*$/, "", file); return file }
        function reaches(from, to,    stack, top, seen, at, n, i, next_ones) {
            stack[top = 1] = from
            while (top) {
                at = stack[top--]
                n = split(after[at], next_ones, " ")
                for (i = 1; i <= n; i++) {
                    if (next_ones[i] == to) return 1
                    if (!(next_ones[i] in seen)) { seen[next_ones[i]] = 1; stack[++top] = next_ones[i] }
                }
            }
            return 0
        }
        $1 != $2 && room($1) == room($2) { after[$1] = after[$1] " " $2 }
        END { for (file in after) if (reaches(file, file)) print room(file), file }' | sort
}
