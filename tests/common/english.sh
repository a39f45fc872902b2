#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Patterns of English that must be read twice, each with what to write instead. `english.sh FILE…` prints every place where one
# of them stands, as file:line: pattern: text, and fails if there is any. Of sources only comments count, of pages all
# but blocks between ```.

# instead | a regular expression of Perl; a pattern that would find much that is right is left out
patterns() {
    cat <<'END'
"this rank's", "its"|\b[Tt]he own\b
rarely, predict, always or without end, at the same time|\b(seldom|foretells?|foretold|for ever|[Mm]eanwhile|whilst)\b
a rank that …, the code that …|\b(ranks?|process(es)?|nodes?|threads?|ends?|those|everyone|producers?|consumers?|readers?|peers?|callers?),? who\b
a rank that …, the code that …|(?<!say|ell|ays|ees|ows|ent|out|see|arn|rns|ask|of|is|: |\| )(^|[.;,(] |\b(by|to|while|so|only|than|and|but) )[Ww]ho (sees|finds|waits|vanishes|knows|uses|walks|calls|works|sleeps|needs|gets|sends|looks|can|enters|leaves|takes|runs)\b
per rank, per connection, …|\b(once|twice|times|slots?|bytes|lanes?|steps?|rings?|files?|blocks?|CPUs?|workers?|sockets?|registers?) an? (rank|connection|channel|process|node|host|GPU|NIC|slot|communicator|round|octave|worker|CPU|lane|line|algorithm|rail|tree|type)\b(?! (that|of its|is|has|can|may))
per rank, per connection, …|\b(one|two|three|four|[0-9]+) (?!of)[a-z]+ an? (rank|connection|channel|process|node|host|GPU|NIC|slot|communicator|octave|algorithm)\b(?! (that|of its|is|has|can|may))
if there is …|\b[Ww]here (nvcc is\b|there (is|are) (no|none|one|an?|not enough)\b)
as always, as before|\bas ever\b
"can be made", "is there"|\b(is|are|was) (not )?to be had\b
END
}

# The text of a file that is to be read, line for line; other lines are empty.
prose_of() {
    case $1 in
    *.md) awk '/^```/ { code = !code; print ""; next } { print code ? "" : $0 }' "$1" ;;
    *.sh) sed -E '/^ *#/!s/.*//' "$1" ;;
    *) awk '{
            text = ""; line = $0
            while (line != "") {
                if (!inside) {
                    at = match(line, /\/\*|\/\//)
                    if (!at) break
                    if (substr(line, at, 2) == "//") { text = text substr(line, at + 2); break }
                    inside = 1; line = substr(line, at + 2)
                }
                end = index(line, "*/")
                if (!end) { text = text line; break }
                text = text substr(line, 1, end - 1) " "; line = substr(line, end + 2); inside = 0
            }
            print text
        }' "$1" ;;
    esac
}

bad=0
for file in "$@"; do
    while IFS='|' read -r instead pattern; do
        found=$(prose_of "$file" | grep -nP -- "$pattern") || continue
        echo "$found" | sed "s|^\([0-9]*\):|$file:\1: write $instead: |"
        bad=1
    done < <(patterns)
done
exit $bad
