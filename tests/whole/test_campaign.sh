#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Campaigns can be stopped and go on: scripts/campaign.sh, with toy units that take no time, or wait for a file.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CAMPAIGN_FOLDER=$work
unset UNITS RETRY MINUTES AT_ONCE

campaign() { scripts/campaign.sh "$@" >"$work/said" 2>&1; }
begin() { rm -f "$work"/*; }
# The units that have a line, with their verdicts.
lines() { cut -f 1,3 "$work/toy.txt" | tr '\t\n' ' ,'; }
has_lines() { [ "$(lines)" = "$1" ] || { echo "has $(lines)"; cat "$work/said"; return 1; }; }
ends_with() { # status, arguments of the campaign…
    local expected=$1 rc
    shift
    campaign "$@"
    rc=$?
    [ $rc = "$expected" ] || { echo "ended with $rc"; cat "$work/said"; return 1; }
}
until_there() { # file
    for _ in $(seq 6000); do [ ! -e "$1" ] || return 0; sleep 0.01; done
    echo "$1 does not come"
    return 1
}

each_unit_has_a_line() {
    begin
    ends_with 0 toy 'echo "this is $UNIT"' a b/2 c && has_lines 'a ok,b/2 ok,c ok,' && grep -q 'this is b/2$' "$work/toy.txt" &&
        grep -q 'toy  *3 of 3  *0 ' "$work/said"
}
nothing_is_done_twice() {
    begin
    local record='echo $UNIT >>"$CAMPAIGN_FOLDER/done"'
    ends_with 0 toy "$record" a b && ends_with 0 toy "$record" a b c && [ "$(tr '\n' ' ' <"$work/done")" = 'a b c ' ]
}
a_failure_is_told_until_it_is_mended() {
    begin
    local fails='echo "it broke"; [ $UNIT != b ]'
    ends_with 1 toy "$fails" a b c && has_lines 'a ok,b FAIL,c ok,' && grep -q 'failed: b$' "$work/said" && grep -q 'it broke' "$work/toy.b.log" &&
        ends_with 1 toy true a b c && has_lines 'a ok,b FAIL,c ok,' && RETRY=1 ends_with 0 toy true a b c && has_lines 'a ok,b FAIL,c ok,b ok,'
}
named_units_are_done_though_they_are_done() {
    begin
    ends_with 0 toy true a b c && UNITS='c a' ends_with 0 toy true a b c && has_lines 'a ok,b ok,c ok,c ok,a ok,' && grep -q '3 of 3' "$work/said"
}
what_cannot_be_done_here_is_no_failure() {
    begin
    ends_with 0 toy 'exit 77' a && has_lines 'a skip,'
}
no_unit_begins_after_the_sitting() {
    begin
    MINUTES=0 ends_with 0 toy true a b && has_lines '' && grep -q 'toy  *0 of 2 ' "$work/said"
}

has_ended() { # process; who has nobody to wait for it is a zombie
    for _ in $(seq 6000); do grep -q '^State:.[^Z]' "/proc/$1/status" 2>/dev/null || return 0; sleep 0.01; done
    echo "process $1 goes on"
    return 1
}

# b waits for a file. The signal goes to the script alone, as `kill` sends it.
waits='echo $$ >"$CAMPAIGN_FOLDER/at.$UNIT"; [ $UNIT != b ] || until [ -e "$CAMPAIGN_FOLDER/go" ]; do sleep 0.01 & wait; done'
stop_at_b() { # signal, status
    begin
    env --default-signal=INT scripts/campaign.sh toy "$waits" a b c >"$work/said" 2>&1 &
    until_there "$work/at.b" && kill "-$1" $!
    wait $!
    local rc=$?
    [ $rc = "$2" ] || { echo "ended with $rc"; cat "$work/said"; return 1; }
}
a_stopped_campaign_goes_on() { # signal
    stop_at_b "$1" 130 && has_lines 'a ok,' && grep -q 'goes on' "$work/said" && has_ended "$(cat "$work/at.b")" &&
        rm "$work/at.a" && : >"$work/go" && ends_with 0 toy "$waits" a b c && has_lines 'a ok,b ok,c ok,' && [ ! -e "$work/at.a" ]
}
a_killed_campaign_runs_once() {
    stop_at_b KILL 137 && ends_with 2 toy true a b c && grep -q 'running already' "$work/said" && : >"$work/go" || return 1
    for _ in $(seq 6000); do grep -q ^b "$work/toy.txt" && break; sleep 0.01; done
    until campaign toy "$waits" a b c; do sleep 0.01; done
    has_lines 'a ok,b ok,c ok,'
}
two_are_done_at_the_same_time() {
    begin
    AT_ONCE=2 ends_with 0 toy ': >"$CAMPAIGN_FOLDER/at.$UNIT"; until [ -e "$CAMPAIGN_FOLDER/at.a" ] && [ -e "$CAMPAIGN_FOLDER/at.b" ]; do sleep 0.01; done' a b
}
the_table_has_each_campaign() {
    begin
    campaign toy 'exit 1' a b
    ends_with 1 --table toy other && grep -q '^toy  *2 of 2  *2 ' "$work/said" && grep -q '^other  *0 of ? ' "$work/said"
}

check each_unit_has_a_line each_unit_has_a_line
check a_unit_that_was_done_is_not_done_again nothing_is_done_twice
check a_failure_is_told_until_it_is_mended a_failure_is_told_until_it_is_mended
check units_that_are_named_are_done_again named_units_are_done_though_they_are_done
check what_cannot_be_done_here_is_no_failure what_cannot_be_done_here_is_no_failure
check no_unit_begins_after_the_sitting no_unit_begins_after_the_sitting
check two_units_are_done_at_the_same_time two_are_done_at_the_same_time
for signal in INT TERM; do check "a_campaign_that_was_stopped_goes_on_after_SIG$signal" a_stopped_campaign_goes_on $signal; done
check a_campaign_that_was_killed_is_not_run_twice a_killed_campaign_runs_once
check the_table_has_each_campaign the_table_has_each_campaign
finish
