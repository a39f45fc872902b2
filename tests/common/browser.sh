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
document_of() { # seconds, folder of the profile, URL
    timeout "$1" "$(browser)" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --virtual-time-budget=1000000 \
        --user-data-dir="$2/profile" --dump-dom "$3" 2>"$2/errors"
}
