#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A program whose locale has a decimal comma, as Java, R and desktops have it in half of Europe. What collet writes for machines has a
# decimal point: a record that is no JSON, a metric that is no number, or a tuning file that cannot be read again helps nobody.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

build=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A locale of our own, so that none need be installed: "C", but for its decimal point.
comma_locale() {
    printf '%s\n' LC_NUMERIC 'decimal_point ","' 'thousands_sep ""' 'grouping -1' 'END LC_NUMERIC' >"$work/comma.src"
    localedef -c -i "$work/comma.src" -f ANSI_X3.4-1968 "$work/comma" >/dev/null 2>&1
    [ -s "$work/comma/LC_NUMERIC" ]
}
# The program itself says setlocale(), as a host program would: what is preloaded does it.
speaks_comma() {
    printf '%s\n' '#include <locale.h>' '#include <stdlib.h>' \
        '__attribute__((constructor)) static void speak(void) { if (!setlocale(LC_NUMERIC, "comma")) abort(); }' >"$work/speak.c"
    ${CC:-gcc} -shared -fPIC -o "$work/speak.so" "$work/speak.c"
}
in_comma() { env LOCPATH="$work" LD_PRELOAD="$work/speak.so" "$@"; }

run_job() { in_comma env "$@" COLLET_INIT_TIMEOUT=60 "$build/bin/all_reduce_perf" -t 2 -b 8K -e 8K -n 5 -w 1 >"$work/out" 2>&1 || { cat "$work/out"; return 1; }; }
is_json() { python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1]) if line.strip()]' "$1"; }
whole_is_json() { python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$1"; }

printf_has_a_comma() { [[ "$(in_comma python3 -c 'print("%s" % __import__("locale").localeconv()["decimal_point"])')" == , ]]; }
records_are_json() { run_job COLLET_RECORD="$work/record.%r" && [ -s "$work/record.0" ] && is_json "$work/record.0"; }
traces_are_json() { run_job COLLET_TRACE="$work/trace.%r" && [ -s "$work/trace.0" ] && whole_is_json "$work/trace.0"; }
metrics_are_numbers() {
    run_job COLLET_METRICS="$work/metrics" && [ -s "$work/metrics" ] && ! grep -E '[0-9],[0-9]+$' "$work/metrics"
}
constants_are_read_again() {
    in_comma "$build/bin/collet-tune" --print >"$work/costs" || return 1
    grep -q '[0-9]\.[0-9]' "$work/costs" && ! grep -E '^[a-z0-9_.]+ +[0-9]+,[0-9]' "$work/costs" && run_job COLLET_TUNER_FILE="$work/costs"
}
log_lines_have_a_point() {
    run_job COLLET_DEBUG=TRACE COLLET_DEBUG_FILE="$work/log" && [ -s "$work/log" ] && ! grep -E '[0-9],[0-9]+ us' "$work/log"
}
plans_have_a_point() { run_job COLLET_DEBUG=INFO && ! grep -E 'predicted [0-9]+,[0-9]' "$work/out"; }

if ! comma_locale || ! speaks_comma; then skipped "localedef makes no locale here"; finish; exit; fi
check the_programs_numbers_have_a_comma printf_has_a_comma
check records_are_json records_are_json
check traces_are_json traces_are_json
check metrics_are_numbers metrics_are_numbers
check constants_are_read_as_they_were_written constants_are_read_again
check log_lines_have_a_decimal_point log_lines_have_a_point
check plans_have_a_decimal_point plans_have_a_point
finish
