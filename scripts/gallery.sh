#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# gallery.sh FOLDER [RANKS[:NODES] …]: every algorithm as a page that a browser animates, and an index of them. Pages need no
# network, and nothing but themselves. Without numbers: 4, 8 and 16 ranks, and 8 and 16 on 2 and 4 nodes.
set -eu
folder=${1:?usage: scripts/gallery.sh FOLDER [RANKS[:NODES] ...]}
shift
[ $# -gt 0 ] || set -- 4 8 16 8:2 16:4
build=${BUILD:-build}
[[ $build = /* ]] || build=$(dirname "$0")/../$build
prog=$build/bin/collet-prog
mkdir -p "$folder"

# One page; nothing if the algorithm does not take such a shape.
page() { # algorithm ranks nodes
    local file=$1-$2-on-$3.html
    if "$prog" --html --nodes "$3" "$1" "$2" > "$folder/$file" 2>/dev/null; then
        local text="$2 ranks"
        [ "$3" = 1 ] || text+=" on $3 nodes"
        echo "<a href=\"$file\">$text</a>"
    else
        rm -f "$folder/$file"
    fi
}

# The playground lies in the folder already, if there is one (scripts/playground.sh).
playground() {
    if [ -s "$folder/playground.html" ]; then
        echo '<p><a href="playground.html">Playground</a>: change the programs, ask the verifier, predict up to 131,072 ranks.</p>'
    else
        echo '<p>The playground, in which programs can be changed and verified, is missing: it is built where emscripten is installed.</p>'
    fi
}

row() { # algorithm, then its line of --list
    local shape pages=
    for shape in "${shapes[@]}"; do
        pages+=" $(page "$1" "${shape%:*}" "$([[ $shape = *:* ]] && echo "${shape#*:}" || echo 1)")"
    done
    echo "<tr><td><code>$1</code></td><td>$2</td><td>$pages</td></tr>"
}

shapes=("$@")
{
    cat <<'END'
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>collet: algorithms</title>
<style>
:root { color-scheme: light dark; }
body { margin: 1rem auto; padding: 0 1rem; max-width: 75rem; font: 15px/1.5 system-ui, sans-serif; }
td { padding: .2rem .8rem .2rem 0; vertical-align: top; border-bottom: 1px solid #8884; }
a { white-space: nowrap; margin-right: .6rem; }
@media (max-width: 45rem) { tr, td { display: block; } code { overflow-wrap: anywhere; } td { border: 0; } tr { border-bottom: 1px solid #8884; padding: .4rem 0; } }
</style></head>
<body>
<h1>Algorithms of collet</h1>
<p>Each page runs an algorithm: the very program that the library executes, and that the verifier proved right. Press play, or
go turn by turn. Set the slots per connection of a ring to 1 and watch the deadlock. <code>collet-prog --html</code> writes such a page
for any number of ranks up to 64.</p>
END
    playground
    echo '<table>'
    "$prog" --list | while read -r name rest; do
        row "$name" "$(sed -E 's/^.*(ranks|of equally many ranks, 2 to 64) {2,}//; s/&/\&amp;/g; s/</\&lt;/g' <<<"$rest")"
    done
    echo '</table></body></html>'
} > "$folder/index.html"
echo "$folder/index.html: $(find "$folder" -name '*-on-*.html' | wc -l) pages"
