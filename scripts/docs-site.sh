#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# docs-site.sh FOLDER [GALLERY]: the pages of docs as a site that opens from a folder, without a network, and can be searched. Sphinx
# makes it. A link that leads nowhere is an error. Files of the source that pages link to come along as text; GALLERY, a folder
# of `make gallery`, comes along too.
set -eu
site=${1:?usage: scripts/docs-site.sh FOLDER [GALLERY]}
gallery=${2:-}
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/pages" "$work/extra/files"

# A page, with links to what is no page turned to a copy of that file. up: from the page to the root of the site.
page() { # file, up
    local to=$work/pages/${1#docs/} target path
    mkdir -p "$(dirname "$to")"
    cp "$1" "$to"
    [ "$1" = README.md ] && sed -i -E 's#\]\(docs/#](#g' "$to"
    grep -oE '\]\([^)]+\)' "$1" | grep -v '://' | sed -E 's/^..([^#)]*).*/\1/' | grep . | sort -u | while read -r target; do
        path=$(realpath -m --relative-to=. "$(dirname "$1")/$target")
        [ -f "$path" ] || { [ -d "$path" ] && continue; echo "$1: a link leads to $target, which is not there" >&2; exit 1; }
        case $path in
        docs/*.md) continue ;;
        docs/*.svg) mkdir -p "$work/pages/$(dirname "${path#docs/}")" && cp "$path" "$work/pages/${path#docs/}" && continue ;;
        README.md) sed -i "s#](\($target\)#](${2}README.md#g" "$to" && continue ;;
        esac
        mkdir -p "$work/extra/files/$(dirname "$path")"
        cp "$path" "$work/extra/files/$path.txt"
        sed -i -E "s#\[([^]]+)\]\(${target//./\\.}(\#[^)]*)?\)#<a href=\"${2}files/$path.txt\">\1</a>#g" "$to"
    done
}

pages=$(git ls-files 'docs/*.md' | grep -v '/course/')
for file in README.md $pages; do page "$file" ""; done
page docs/course/README.md ../
awk -v markdown="$work/pages/api.md" -v version="$(sed -n 's/^#define COLLET_\(MAJOR\|MINOR\|PATCH\) //p' include/collet.h | paste -sd.)" \
    -f scripts/man-pages.awk include/collet.h

# What the site begins with: one place to begin for each of three readers.
start_page() {
    cat <<'END'
# collet

Collective communication among processes, threads and GPUs, in C. What would you like to do?

## Learn how it works

Begin with [a course in eight labs](course/README.md). A check judges what you change.
END
    [ -z "$gallery" ] || printf '\nOr watch <a href="gallery/index.html">algorithms that run in your browser</a>, one sentence for each turn.\n'
    cat <<'END'

## Use it in a program

Begin with [twenty lines of C](README.md#twenty-lines-of-c). [The API, call by call](api.md) has every function. There are also pages
for [Python](python.md), [PyTorch](pytorch.md) and [programs that were made for NCCL](nccl.md).

## Run it on machines

Begin with [On a cluster](clusters.md). If a job is slow or hangs, go to [Why is it slow, or hung?](slow.md)
[The configuration](configuration.md) has every setting.

## All pages
END
}

{
    start_page
    printf '\n```{toctree}\n:maxdepth: 1\n\nREADME\ncourse/README\napi\n'
    sed -n '/^1\. \[docs/,/^```/p' README.md | grep -oE 'docs/[a-z]+\.md' | sed 's#docs/##; s#\.md##' | awk '!seen[$0]++'
    printf '```\n\n```{toctree}\n:maxdepth: 1\n:caption: Reference\n\n'
    for file in $pages; do grep -q "(docs/${file#docs/})" <(sed -n '/^1\. \[docs/,/^```/p' README.md) || echo "${file#docs/}" | sed 's#\.md##'; done
    printf '```\n'
} >"$work/pages/index.md"
[ -z "$gallery" ] || cp -r "$gallery" "$work/extra/gallery"

# On a narrow screen the list of pages comes last, and what is wide scrolls by itself.
mkdir "$work/static"
cat >"$work/static/narrow.css" <<END
code, code span.pre { white-space: normal; overflow-wrap: anywhere; }
@media screen and (max-width: 940px) {
    div.body, div.bodywrapper { min-width: 0; max-width: 100%; box-sizing: border-box; margin: 0; }
    div.document { display: flex; flex-direction: column; width: auto; }
    div.documentwrapper { min-width: 0; width: 100%; float: none; }
    div.sphinxsidebar { order: 1; position: static; float: none; box-sizing: border-box; width: auto; margin: 1rem -30px; }
    div.body table { display: block; overflow-x: auto; }
    div.body { overflow-wrap: break-word; }
    div.body ul, div.body ol { margin: 0; padding-left: 1.4rem; }
}
END
cat >"$work/pages/conf.py" <<END
project = "collet"
extensions = ["myst_parser"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
html_extra_path = ["../extra"]
html_static_path = ["../static"]
html_css_files = ["narrow.css"]
html_theme = "alabaster"
html_theme_options = {"page_width": "75rem", "sidebar_width": "16rem", "fixed_sidebar": True, "code_font_size": "0.75em"}
html_show_copyright = False
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_show_sourcelink = False
html_copy_source = False
pygments_style = "default"
highlight_language = "none"
END
rm -rf "$site"
sphinx-build -q -W --keep-going -b html "$work/pages" "$site" 2>&1 | sed "s#$work/pages/#docs/#g"
status=${PIPESTATUS[0]}
rm -rf "$site/.doctrees" "$site/.buildinfo"
[ "$status" = 0 ] && echo "$site/index.html: $(find "$site" -name '*.html' -not -path '*/gallery/*' | wc -l) pages"
exit "$status"
