#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The pages of collet-prog --html, in a browser without a window: each is stepped through to its end and back, and what its
# ranks hold then is what the verifier found.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/common/browser.sh

prog=${BUILD:-build}/bin/collet-prog
if [ ! -x "$prog" ]; then
    echo "$prog is not built"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

writes_every_algorithm() {
    local name
    scripts/gallery.sh "$folder" 2 4 5 8:2 16:4 || return 1
    for name in $("$prog" --list | cut -d ' ' -f 1); do
        compgen -G "$folder/$name-*.html" >/dev/null || { echo "no page of $name"; return 1; }
    done
}

# Links of the index lead to pages, and nothing is fetched from elsewhere.
needs_nothing_else() {
    local link
    for link in $(grep -oE 'href="[^"]*"' "$folder/index.html" | cut -d '"' -f 2); do
        [ -s "$folder/$link" ] || { echo "$link"; return 1; }
    done
    ! grep -HoE '(src|href)="?[a-z]*://[^"]*|@import|url\(' "$folder"/*.html
}

# In daylight and in the dark: text against the ground 4.5 to 1 at least, and marks 3 to 1 (WCAG 2.1). What colour says, a line says
# too: dashes, thickness, an outline. On paper there are no controls.
pages_are_legible() { # files
    command -v python3 >/dev/null || return 0
    python3 - "$@" <<'END' && grep -q 'stroke-dasharray' "$1" && grep -q 'prefers-reduced-motion' "$1"
import re, sys
def light(colour):
    parts = [int(colour[k:k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
for path in sys.argv[1:]:
    text = open(path, encoding="utf-8").read()
    themes = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", line)) for line in text.splitlines() if "--paper:" in line]
    assert len(themes) == 2 and "prefers-color-scheme: dark" in text and "@media print" in text, path
    for theme in themes:
        for name, least in ("ink", 4.5), ("faint", 4.5), ("fill", 3), ("mark", 3):
            if name in theme:
                a, b = sorted((light(theme[name]), light(theme["paper"])))
                assert (b + 0.05) / (a + 0.05) >= least, (path, name, theme[name], (b + 0.05) / (a + 0.05))
END
}

shows_source_lines() {
    grep -qF 'src/algo/allreduce_ring.c' "$folder/allreduce_ring-4-on-1.html" &&
        grep -qF 'void allreduce_ring_build' "$folder/allreduce_ring-4-on-1.html"
}

refuses_too_many() {
    "$prog" --html allreduce_ring 65 2>&1 | grep -qF 'up to 64 ranks, not 65'
}

document() { # page
    document_of 120 "$folder" "file://$1" || { tail -3 "$folder/errors"; return 1; }
}

# One page walks through all others and lists what each says: all of them as wide as a telephone, and one of each algorithm as wide
# as a screen.
walk_all() {
    local pages wide
    pages=$(cd "$folder" && printf '"%s",' ./*-on-*.html)
    wide=$(cd "$folder" && printf '"%s",' ./*-4-on-1.html ./*_hier*-16-on-4.html)
    cat > "$folder/walk.html" <<END
<body><script>
const narrow = [$pages], pages = narrow.concat([$wide]), said = [], frame = document.createElement("iframe");
document.body.append(frame);
const go = () => {
    frame.style = "border: 0; height: 900px; width: " + (said.length < narrow.length ? 400 : 1600) + "px";
    if (said.length < pages.length) frame.src = pages[said.length] + (said.length < narrow.length ? "?narrow" : "?wide") + "#walk";
    else document.body.textContent = said.join("\n");
};
addEventListener("message", ({ data }) => {
    said.push("page " + data.name + ": " + data.verdict + ", " + data.state + " " + data.walked + " turns " + data.seen);
    go();
});
go();
</script>
END
    document "$folder/walk.html" | grep -oE 'page [a-z]+_.*' > "$folder/said"
}

pages_agree_with_the_verifier() {
    walk_all
    local pages
    pages=$(find "$folder" -name '*-on-*.html' -printf '%f\n' | sed '/-4-on-1\.\|_hier.*-16-on-4\./p' | wc -l)
    [ "$(grep -c ': equal, Done: every rank has finished\.' "$folder/said")" = "$pages" ] ||
        { grep -v ': equal, Done' "$folder/said"; echo "of $pages pages"; return 1; }
}

# At both widths no page is wider than its window, which would have to be pushed from side to side. Each message has a name, and each
# turn a sentence.
pages_fit() {
    grep -q 'at 400 pixels' "$folder/said" && grep -q 'at 1600 pixels' "$folder/said" &&
        ! grep -vE 'turns at (400|1600) pixels 0 wider, 0 without a name, 0 untold' "$folder/said"
}
the_index_fits() { fits "$folder" "$folder/index.html" 400 && fits "$folder" "$folder/index.html" 1600; }

# What happens in a turn is said in a sentence. In a ring no two turns are alike.
turns_are_told() {
    document "$folder/allreduce_ring-4-on-1.html#walk" > "$folder/ring" || return 1
    local told=('Rank 0 sends slice 3 to rank 1. | Rank 0 adds slice 2 from rank 3 to its own and sends the sum to rank 1. |'
        'Rank 0 adds slice 0 from rank 3 to its own, keeps the finished sum, and sends it to rank 1. |'
        'Rank 0 keeps slice 3 from rank 3 and passes it on to rank 1.') text
    for text in "${told[@]}" '0 without a name, 0 untold, 0 said again'; do
        grep -qF -- "$text" "$folder/ring" || { echo "missing: $text"; grep -oE 'data-(seen|said)="[^"]*"' "$folder/ring"; return 1; }
    done
}
# Other words for what is not added, and for what carries nothing.
other_turns_are_told() {
    said_of() { document "$folder/$1-4-on-1.html#walk" | grep -oE 'data-said="[^"]*"'; }
    said_of broadcast_chain | grep -F 'Rank 0 copies slice 0 into its result and sends it to rank 1.' &&
        said_of alltoall_bruck | grep -F 'Rank 0 sends blocks 1 and 3 to rank 1.' &&
        said_of gather_direct | grep -F 'keeps block ' && said_of barrier_doubling | grep -F 'hears from rank '
}

# A step that adds another block than the real one.
a_wrong_program_is_noticed() {
    sed '0,/"l":\[\[1,1,\[2\]\]\]/s//"l":[[1,1,[1]]]/' "$folder/allreduce_ring-4-on-1.html" > "$folder/wrong.html"
    ! cmp -s "$folder/allreduce_ring-4-on-1.html" "$folder/wrong.html" &&
        document "$folder/wrong.html#walk" | grep -qE 'data-verdict="rank [0-9] OUT [0-9]: .*, the verifier: '
}

one_slot_shows_the_deadlock() {
    "$prog" --html --slots 1 allreduce_ring 4 > "$folder/one.html"
    document "$folder/one.html#walk" | grep -qF 'Deadlock: rank 0 waits for a free slot to rank 1, and nobody can move.'
}

check a_page_for_every_algorithm writes_every_algorithm
check pages_need_nothing_but_themselves needs_nothing_else
check pages_are_legible_in_light_in_the_dark_and_on_paper pages_are_legible src/layers/tools/prog/page.html src/layers/tools/play/play.html
check pages_show_the_line_that_emitted_a_step shows_source_lines
check more_ranks_than_a_page_shows_are_refused refuses_too_many
# A browser that cannot even show a page of one word, in a container for example, shows nothing about ours.
browser_runs() {
    browser >/dev/null && echo '<p>here</p>' > "$folder/word.html" && document "$folder/word.html" | grep -qF here
}

if browser_runs; then
    check pages_end_with_what_the_verifier_found pages_agree_with_the_verifier
    check pages_fit_into_400_and_1600_pixels_and_name_their_messages pages_fit
    check the_index_fits_too the_index_fits
    check every_turn_of_a_ring_has_a_sentence_of_its_own turns_are_told
    check other_algorithms_are_told_too other_turns_are_told
    check a_wrong_program_is_noticed a_wrong_program_is_noticed
    check one_slot_shows_the_deadlock one_slot_shows_the_deadlock
else
    skipped "in a browser: none is installed that runs here (scripts/deps.sh browser)"
fi
finish
