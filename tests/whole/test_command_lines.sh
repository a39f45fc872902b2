#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What every program in build/bin understands: --help, --version, and an option that is none. Examples that take no
# arguments have no options.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

bin=${BUILD:-build}/bin
version=$(sed -n 's/^#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.)
programs=()
for source in src/layers/tools/*.c examples/perf/*_perf.c; do
    programs+=("$(basename "$source" .c)")
done
if command -v python3 >/dev/null; then
    for source in src/layers/tools/*.py; do
        programs+=("$(basename "$source" .py)")
    done
fi
for program in "${programs[@]}"; do
    [ -x "$bin/$program" ] || { echo "$program is not built in $bin"; exit 77; }
done

helps() { # program: on standard output, with its own name and its options
    local output
    output=$("$bin/$1" --help) && grep -q "^usage: $1" <<<"$output" && grep -q -- '--version' <<<"$output" &&
        [ "$("$bin/$1" -h)" = "$output" ] || { echo "$output"; return 1; }
}

tells_its_version() { [ "$("$bin/$1" --version)" = "$1 (collet) $version" ] || { "$bin/$1" --version; return 1; }; }

refuses() { # program option words: with 2, a word about it and no usage text
    local output
    output=$("$bin/$1" "$2" 2>&1 >/dev/null)
    [ $? = 2 ] && grep -qE -- "$1: .*unrecognized (option '|arguments: )$2" <<<"$output" && grep -qF -- "$3" <<<"$output" &&
        [ "$(wc -l <<<"$output")" -le 2 ] ||
        { echo "$output"; return 1; }
}

# Of an option with one letter too few, all say what was probably meant.
guesses() { # program
    local option
    option=$("$bin/$1" --help | grep -oE -- '--[a-z]{5,}' | grep -vxE -- '--(help|version)' | head -1)
    [ -n "$option" ] || option=--version
    refuses "$1" "${option:0:4}${option:5}" "; did you mean $option?"
}

json_is_json() {
    command -v python3 >/dev/null || return 0
    "$bin/collet-info" --json | python3 -c '
import json, sys
j = json.load(sys.stdin)
assert j["collet"] == sys.argv[1] and "float" in j["types"] and j["transports"][0] == "self"
assert any(k["name"] == "COLLET_DEBUG" for k in j["knobs"]) and any(m["what"] == "RDMA" for m in j["machine"])
' "$version"
}

for program in "${programs[@]}"; do
    check "${program}_explains_its_options" helps "$program"
    check "${program}_tells_its_version" tells_its_version "$program"
    check "${program}_refuses_what_is_no_option" refuses "$program" --no-such-option "$program: "
    check "${program}_guesses_what_was_meant" guesses "$program"
done
check json_of_collet_info_is_json json_is_json
finish
