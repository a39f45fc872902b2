#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The documents as a site: every page is there and can be found, and a link that leads nowhere is an error.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
. tests/common/browser.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! command -v sphinx-build >/dev/null; then
    skipped "there is no sphinx-build here (scripts/deps.sh site)"
    finish
fi

site_is_made() { scripts/docs-site.sh "$work/site"; }
has_all_pages() {
    local file
    for file in README.md $(git ls-files 'docs/*.md' | grep -v '/course/') docs/course/README.md; do
        file=${file#docs/}
        [ -s "$work/site/${file%.md}.html" ] || { echo "$file is not in the site"; return 1; }
        grep -q "href=\"${file%.md}.html\"" "$work/site/index.html" || { echo "$file is not in the index"; return 1; }
    done
}
can_be_searched() { grep -q rendezv "$work/site/searchindex.js" && [ -s "$work/site/search.html" ]; }
has_files_that_pages_link_to() { [ -s "$work/site/files/src/program/program.h.txt" ]; }
needs_no_network() { ! grep -rhoE '(src|href)="https?://[^"]+\.(js|css|woff2?)"' "$work/site" --include='*.html'; }

# A learner, a user and an operator get where they begin with one click, from the part of the page that is for them.
start_leads() { # heading of the part, page that it leads to first
    sed -n "/<h2>$1/,/<\/section>/p" "$work/site/index.html" | grep -oE 'href="[^"#][^"]*"' | head -1 | grep -F "\"$2" && [ -s "$work/site/${2%#*}" ]
}
# Every public function has an entry: its name, its prototype, and its comment.
has_every_function() {
    local call text
    text=$(sed 's/<[^>]*>//g; s/&amp;/\&/g; s/&#39;/'"'/g" "$work/site/api.html") || return 1
    for call in $(tr '\n' ' ' <include/collet.h | grep -oE 'COLLET_API [^;]*;' | grep -oE 'collet_[a-z0-9_]+\(' | tr -d '('); do
        grep -q "id=\"$call\"" "$work/site/api.html" && grep -qE "^(enum|const|void|size_t|unsigned|int).*[ *]$call\(" <<<"$text" ||
            { echo "no entry of $call"; return 1; }
    done
    [ -n "$call" ] && grep -q 'Frees memory of collet_mem_alloc()' <<<"$text" && grep -q 'both send to each other first, they may wait for each' <<<"$text"
}
functions_of_a_section_have_its_comment_once() { [ "$(grep -c 'both send to each other first' "$work/site/api.html")" = 1 ]; }

pages_fit() {
    local name width
    for name in index api README; do
        for width in 400 1600; do fits "$work" "$work/site/$name.html" $width || return 1; done
    done
}

broken_link_is_an_error() { # text that is put into a page
    local copy=$work/copy
    rm -rf "$copy" && git clone -q . "$copy" && cp scripts/docs-site.sh scripts/man-pages.awk "$copy/scripts/" && echo "$1" >>"$copy/docs/walk.md"
    ! "$copy/scripts/docs-site.sh" "$work/broken" >"$work/log" 2>&1 && grep -q walk.md "$work/log" || { cat "$work/log"; return 1; }
}

check the_site_is_made site_is_made
check every_page_is_there_and_in_the_index has_all_pages
check it_can_be_searched can_be_searched
check a_learner_begins_with_one_click start_leads "Learn how it works" course/README.html
check a_user_begins_with_one_click start_leads "Use it in a program" README.html#twenty-lines-of-c
check an_operator_begins_with_one_click start_leads "Run it on machines" clusters.html
check the_api_has_an_entry_of_every_function has_every_function
check what_holds_for_a_section_stands_there_once functions_of_a_section_have_its_comment_once
if browser >/dev/null && echo '<p>here</p>' >"$work/word.html" && fits "$work" "$work/word.html" 400 >/dev/null; then
    check pages_fit_into_400_and_1600_pixels pages_fit
else
    skipped "pages_fit_into_400_and_1600_pixels: no browser that runs here (scripts/deps.sh browser)"
fi
check files_of_the_source_come_along has_files_that_pages_link_to
check it_needs_no_network needs_no_network
check a_link_to_no_file_is_an_error broken_link_is_an_error 'See [that](nowhere.md).'
check a_link_to_no_heading_is_an_error broken_link_is_an_error 'See [that](protocols.md#no-such-heading).'
finish
