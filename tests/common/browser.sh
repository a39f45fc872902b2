# SPDX-License-Identifier: Apache-2.0
#
# Pages in a browser without a window.

browser() { # the program; fails if there is none
    local name
    for name in chromium-headless-shell chromium google-chrome; do
        command -v "$name" && return
    done
    return 1
}

# What the document of a page is when its script has run.
document_of() { # seconds, folder of the profile, URL, options
    timeout "$1" "$(browser)" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --virtual-time-budget=1000000 \
        --user-data-dir="$2/profile" "${@:4}" --dump-dom "$3" 2>"$2/errors"
}

# Does a page fit into a window? A page that does not would have to be pushed from side to side.
fits() { # folder of the profile, file, width of the window in pixels
    local copy=${2%.html}-measured.html said
    { cat "$2" && echo '<script>addEventListener("load", () => {
        const root = document.documentElement; root.dataset.wider = root.scrollWidth - root.clientWidth; });</script>'
    } >"$copy"
    said=$(document_of 120 "$1" "file://$copy" "--window-size=$3,900" | grep -oE 'data-wider="[0-9]+"')
    rm "$copy"
    [ "$said" = 'data-wider="0"' ] || { echo "${2##*/} at $3 pixels: ${said:-not shown}"; return 1; }
}
