#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The playground of `make gallery`, built and shown by a browser without a window. The page acts by itself when its address
# ends in #test, and says what it saw. Run by `make test-playground`.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/common/browser.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

says() { grep -qF -- "$1" "$work/said" || { cat "$work/said"; return 1; }; } # words

# One file, which fetches nothing.
it_is_built() {
    scripts/playground.sh "$work/playground.html" && [ -s "$work/playground.html" ] &&
        ! grep -oE '(src|href)="[a-z]*://[^"]*|@import|url\(' "$work/playground.html"
}

it_runs() {
    document_of 300 "$work" "file://$work/playground.html#test" |
        grep -oE 'data-said="[^"]*"' >"$work/said" || { tail -3 "$work/errors"; return 1; }
}

every_algorithm() { says "| verified: $1 of $1 |"; }

# Which algorithm it is depends on the constants of the cost model: a time is what there must be.
predicts() { grep -qE 'large: 131,072 ranks, [a-z]+ (Simple|LL|LL128) [0-9]+ [0-9.]+' "$work/said" || { cat "$work/said"; return 1; }; }

says_why_not() {
    grep -qE 'hiertree – – none: [0-9]+ million steps; up to [0-9]+ ranks are predicted' "$work/said" &&
        grep -qF 'bruck – – none: its messages are too long for a slot' "$work/said" || { cat "$work/said"; return 1; }
}

command -v emcc >/dev/null || { skipped "the playground: emscripten is not installed"; finish; exit; }
check it_is_built it_is_built
[ -s "$work/playground.html" ] && browser >/dev/null || { skipped "in a browser: none is installed (scripts/deps.sh browser)"; finish; exit; }
check it_runs_in_a_browser it_runs
check the_verifier_proves_a_ring says "ring: Verified: with 4 ranks"
check one_slot_shows_the_deadlock says "one slot: Wrong: rank 0 worker 0 step 1: deadlock with 1 slot"
check a_changed_block_is_found says "another block: Wrong: rank 0 worker 0 step 1: expected slice 1, got slice 2"
check nonsense_is_refused_with_its_line says "no such rank: Wrong: line 5: "
check every_algorithm_is_verified_from_its_text every_algorithm "$(grep -cE '^    X\([A-Z]+, [a-z]+, [a-z0-9]+, ' src/program/registry.h)"
check jobs_of_131072_ranks_are_predicted predicts
check an_algorithm_without_a_prediction_says_why says_why_not
finish
