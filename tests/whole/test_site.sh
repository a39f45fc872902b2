#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The documents as a site: every page is there and can be found, and a link that leads nowhere is an error.
cd "$(dirname "$0")/../.." || exit 1
. tests/common/cases.sh
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

broken_link_is_an_error() { # text that is put into a page
    local copy=$work/copy
    rm -rf "$copy" && git clone -q . "$copy" && cp scripts/docs-site.sh "$copy/scripts/" && echo "$1" >>"$copy/docs/walk.md"
    ! "$copy/scripts/docs-site.sh" "$work/broken" >"$work/log" 2>&1 && grep -q walk.md "$work/log" || { cat "$work/log"; return 1; }
}

check the_site_is_made site_is_made
check every_page_is_there_and_in_the_index has_all_pages
check it_can_be_searched can_be_searched
check files_of_the_source_come_along has_files_that_pages_link_to
check it_needs_no_network needs_no_network
check a_link_to_no_file_is_an_error broken_link_is_an_error 'See [that](nowhere.md).'
check a_link_to_no_heading_is_an_error broken_link_is_an_error 'See [that](protocols.md#no-such-heading).'
finish
