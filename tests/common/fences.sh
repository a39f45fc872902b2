# SPDX-License-Identifier: Apache-2.0
#
# Blocks of a page, between ``` and ```. The word behind the first ``` says what a block is: sh, console (commands behind "$ ",
# and what they print), c, python, text. A comment before a block of commands says that they need what few machines have:
#
#    <!-- needs: two hosts -->
#    <!-- needs: Open MPI or MPICH, for mpirun -->        those that contain this word alone

# The lines of all blocks of a kind.
fenced() { # kind page
    awk -v kind="$1" '/^```/ { inside = !inside && $0 == "```" kind; next } inside' "$2"
}

# Blocks that do not say what they are, as page:line. What follows <!-- a command --> is what that prints.
fences_without_a_word() { # page…
    awk 'FNR == 1 { inside = 0; before = "" }
        /^```/ && !inside { if ($0 == "```" && before !~ /^<!-- .*-->$/) print FILENAME ":" FNR; inside = 1; before = ""; next }
        /^```/            { inside = 0 }
                          { before = $0 }' "$@"
}

# Every command of a page, a line each: page:line, what it needs or "-", the command; with tabs between.
fenced_commands() { # page
    awk '
        function needed(command,    n, k, found) {
            n = split(needs, found, "\n")
            for (k = 1; k <= n; k++)
                if (!match(found[k], /, for /)) return found[k]
                else if (index(command, substr(found[k], RSTART + 6))) return substr(found[k], 1, RSTART - 1)
            return "-"
        }
        function give(line) {
            if (kind == "console" && !sub(/^\$ /, "", line)) return
            if (line ~ /^ *(#.*)?$/) return
            printf "%s:%d\t%s\t%s\n", FILENAME, FNR, needed(line), line
        }
        /^<!-- needs: .* -->$/ { needs = needs (needs == "" ? "" : "\n") substr($0, 13, length($0) - 16) }
        /^```/ && !inside      { inside = 1; kind = substr($0, 4); next }
        /^```/                 { inside = 0; needs = ""; next }
        !inside || (kind != "sh" && kind != "console") { next }
        /\\$/                  { sub(/ *\\$/, " "); sub(/^ +/, "", $0); begun = begun $0; next }
                               { sub(/^ +/, "", $0); give(begun $0); begun = "" }
    ' "$1"
}
