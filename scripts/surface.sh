#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# surface.sh [KIND…]: what users see of a build and may rely on, a line each, sorted. docs/surface.txt is what it printed last:
# tests/whole/test_surface.sh compares. What programs of C rely on in collet.h has a record of its own (scripts/abi.sh).
#
#    symbol LIBRARY NAME               what a shared library shows
#    knob NAME                         a variable of the environment that sets something, of collet or by NCCL's name
#    flag PROGRAM FLAG                 an option that --help names
#    column PROGRAM NAME [PLACE]       a column of a table and its place, a key of a tuning file, or a key of JSON
#    log TEXT                          a line of the log that programs may rely on
#    metric NAME{LABELS} TYPE          what COLLET_METRICS shows
#
# Where it can, it asks what was built, in $BUILD, and not the sources: things may move there. With GPUs and without it prints the same.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C COLUMNS=200
unset ${!COLLET_@} ${!NCCL_@}

build=${BUILD:-build}
bin=$build/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

symbols() {
    local lib
    for lib in libcollet.so libnccl.so.2 libnccl-net-collet.so; do
        nm -D --defined-only --format=posix "$build/lib/$lib" | sed "s/ .*//; s/^/symbol $lib /"
    done
}

# The table of knobs, NCCL's names as libnccl.so.2 spells them, and what examples and integrations ask for by themselves.
knobs() {
    {
        "$bin/collet-info" | sed -nE 's/^[* ] (COLLET_[A-Z0-9_]+) .*/\1/p'
        readelf -p .rodata "$build/lib/libnccl.so.2" | sed -nE 's/^ *\[[^]]*\] +(NCCL_[A-Z0-9_]+)$/\1/p'
        grep -rhoE '(getenv\(|environ\.get\()"[A-Z]*(COLLET|NCCL)_[A-Z0-9_]+"' examples integrations | cut -d'"' -f2
    } | sed 's/^/knob /'
}

# The programs that `make install` installs, by their sources: a folder of builds may have older ones. Examples may come and go.
installed() { find src examples/perf -name 'collet-*.c' -o -name 'collet-*.py' -o -name '*_perf.c' | sed 's|.*/||; s|\..*||' | sort; }

# Of a help: what its usage names, and where its lines of options begin, up to two spaces.
options_of() {
    "$bin/$1" --help 2>&1 | awk '
        /^$/          { described = 1 }
        !described    { print; next }
        /^ +-/        { sub(/^ +/, ""); sub(/  .*/, ""); print }
    ' | grep -oE -- '(^|[^A-Za-z0-9-])--?[A-Za-z][A-Za-z0-9_-]*' | sed 's/^[^-]*//'
}

flags() {
    local program
    for program in $(installed); do
        options_of "$program" | sed "s/^/flag $program /"
    done
}

# Columns of the first line of a text that matches, each with its place. Titles of one word, or parted by two spaces.
titles() { # program pattern separator
    awk -v program="$1" -v pattern="$2" -v separator="$3" '
        !found && $0 ~ pattern { found = 1; sub(/^# */, ""); sub(/ *(\([a-z, ]*\))? *$/, ""); n = split($0, title, separator)
                                 for (k = 1; k <= n; k++) print "column", program, title[k], k }'
}

# Every path to a value of JSON, or of each of its lines: results[].in_place.time.
keys() { # program
    python3 -c '
import json, sys
def show(value, path):
    if isinstance(value, (dict, list)):
        for key in value:
            show(*((value[key], path + "." + key) if isinstance(value, dict) else (key, path + "[]")))
    else:
        print("column", sys.argv[1], path.lstrip("."))
text, at, decoder = sys.stdin.read().strip(), 0, json.JSONDecoder()
while at < len(text):
    value, at = decoder.raw_decode(text, at)
    show(value, "")
    at += len(text[at:]) - len(text[at:].lstrip())
' "$1"
}

perf() { # program options…: a call of 8 bytes between two processes
    timeout 60 "$bin/$1" --host 1 --procs 2 -b 8 -e 8 -n 1 -w 0 "${@:2}"
}

# All perf programs have the columns of all_reduce_perf; one that has others says which.
perf_columns() {
    local program more="-I 1 -S 1 --plan 1 --predict 1"
    perf all_reduce_perf | titles all_reduce_perf '^# +size ' ' +' | tee "$work/usual"
    for program in $(installed | grep _perf); do
        perf "$program" | titles "$program" '^# +size ' ' +' >"$work/these"
        sed "s/^column $program/column all_reduce_perf/" "$work/these" | cmp -s - "$work/usual" || cat "$work/these"
    done
    perf all_reduce_perf $more -J "$work/perf.json" | titles all_reduce_perf '^# +size ' ' +' | grep -vxFf "$work/usual" | sed "s/$/, with $more/"
    # Only GPUs have this key, and what ranks run on is no part of the form.
    keys all_reduce_perf-J <"$work/perf.json" | grep -v device_uuid
}

# What is written beside a job, and what is made of it.
record_columns() {
    COLLET_RECORD=$work/record.jsonl perf sendrecv_perf >/dev/null
    COLLET_RECORD=$work/record.jsonl COLLET_TRACE=$work/trace.json perf all_reduce_perf >/dev/null
    keys COLLET_RECORD <"$work/record.jsonl"
    "$bin/collet-report" "$work/record.jsonl" >"$work/report"
    titles collet-report '^# collective ' ' +' <"$work/report"
    titles collet-report '^# rank ' '  +' <"$work/report"
    "$bin/collet-trace" "$work/trace.json" | titles collet-trace '^# +rank ' '  +'
}

tool_columns() {
    "$bin/collet-sim" --synthetic '2 cpu' --ranks 2 --sizes 64K | titles collet-sim '^# +size ' ' +'
    "$bin/collet-tune" --print | sed -nE 's/^([a-zA-Z][^ ]*) .*/column collet-tune \1/p'
    "$bin/collet-info" --json | keys collet-info--json
    # A job would have to stand still for this one.
    grep -ohE 'json_[a-z]+\(&?json, "[a-z_]+"' $(find src -name collet-status.c) | sed -E 's/.*"(.*)"/column collet-status--json \1/'
}

# The file of figures of the acceptance, which needs a GPU.
acceptance_columns() {
    sed -nE "s/^printf '(part[^']*)\\\\n' .*/\\1/p" scripts/gpu-accept.sh | titles results.tsv . '\\\\t'
}

columns() {
    perf_columns
    record_columns
    tool_columns
    acceptance_columns
}

# The forms that docs/configuration.md promises; test_docs.sh holds the library to them.
logs() {
    grep -xE '<host>:<process>:<thread> collet .*' docs/configuration.md | sed 's/^/log /'
    sed -n '/^| subsystem |/,/^$/s/^| \([A-Z]*\) |.*/log subsystem \1/p' docs/configuration.md
    sed -n '/^### Lines with a fixed form/,/^For example/p' docs/configuration.md | sed -nE 's/^[A-Z]+ .*/log &/p'
}

metrics() {
    COLLET_METRICS=$work/%p.prom perf all_reduce_perf >/dev/null
    cat "$work"/*.prom | awk '
        /^# TYPE / { type[$3] = $4 }
        /^[a-z]/   { name = $0; sub(/\{.*/, "", name); gsub(/="[^"]*"/, ""); sub(/ .*/, ""); sub(/^[^{]*/, ""); labels[name] = $0 }
        END        { for (name in type) print "metric", name labels[name], type[name] }'
}

for kind in ${*:-symbol knob flag column log metric}; do
    "${kind}s"
done | sort -u
