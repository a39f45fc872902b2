# SPDX-License-Identifier: Apache-2.0
#
# Manual pages from include/collet.h:  awk -v dir=OUT -v version=0.1.0 -f scripts/man-pages.awk include/collet.h
#
#   /* ------ title ------ */            a section; a comment that begins so may go on with what holds for the whole section
#   /* collet_name: a sentence. …        the page OUT/man3/collet_name.3; all calls that follow it share the page
#    *   term  its meaning               an item of a list
#    * Errors: …                         the page's section ERRORS
#    */
#   COLLET_API … collet_name(…);         its synopsis
#
# OUT/man7/collet.7 is the header from top to bottom: what holds for all calls, the types, and one line per call.
#
# awk -v markdown=FILE -f scripts/man-pages.awk include/collet.h writes the same header as one page of Markdown instead, for the site.

function escape(text) {
    gsub(/\\/, "\\e", text)
    return text ~ /^[.']/ ? "\\\\&" text : text
}

function verbatim(text,    lines, n, i, out) {
    n = split(text, lines, "\n")
    out = ".nf\n"
    for (i = 1; i <= n; i++)
        if (lines[i] != "" || i < n) {
            lines[i] = escape(lines[i])
            gsub(/-/, "\\-", lines[i])
            out = out lines[i] "\n"
        }
    return out ".fi\n"
}

# A comment as paragraphs, items and, behind the word "Errors:", another section.
function paragraphs(text,    lines, n, i, line, indent, out, item) {
    n = split(text, lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (line ~ /^ *$/) {
            out = out (out == "" ? "" : ".PP\n")
            continue
        }
        match(line, /^ */)
        indent = RLENGTH
        line = substr(line, indent + 1)
        if (indent >= 2 && indent <= 4 && match(line, /^[^ ]+(, [^ ]+)*  +/)) {
            out = out ".TP\n.B " substr(line, 1, RLENGTH) "\n"
            line = substr(line, RLENGTH + 1)
            item = 1
        } else if (indent < 2 && item) {
            out = out ".PP\n"
            item = 0
        }
        if (match(line, /(Further errors|Errors): /)) {
            out = out escape(substr(line, 1, RSTART - 1)) "\n.SH ERRORS\n"
            line = substr(line, RSTART + RLENGTH)
        }
        line = escape(line)
        gsub(/collet_[a-z0-9_]+\(\)/, "\\fB&\\fR", line)
        out = out line "\n"
    }
    gsub(/\n\n+/, "\n", out)
    return out
}

# Of "collet_a, _b: does this. …" what stands before the colon goes, and for one line what follows the first sentence.
function without_names(text) {
    sub(/^\n+/, "", text)
    sub(/^collet_[a-z0-9_]+(, _?[a-z0-9_]+)*: /, "", text)
    return text
}

# A comment that begins "collet_name: does this" begins on its page "collet_name(): does this".
function subject(page) {
    return without_names(page_doc[page]) == page_doc[page] || page_names[page] ~ /,/ ? "" : "\\fB" page_names[page] "()\\fR:\n"
}

function first_sentence(text) {
    text = without_names(text)
    gsub(/\n */, " ", text)
    if (match(text, /[^.][^.][.:]( |$)/))
        text = substr(text, 1, RSTART + 1)
    return escape(text)
}

function begin_section(line) {
    sub(/^\/\* -+ /, "", line)
    sub(/( -+)? *(\*\/)?$/, "", line)
    titles[++sections] = toupper(line)
    doc = ""
}

function define(text) {
    n_defined[sections]++
    defined_doc[sections, n_defined[sections]] = doc
    defined_text[sections, n_defined[sections]] = text
    overview[sections] = overview[sections] (doc == "" ? "" : ".PP\n" paragraphs(without_names(doc))) verbatim(text)
    doc = ""
}

function declare(prototype,    name) {
    match(prototype, /collet_[a-z0-9_]+\(/)
    name = substr(prototype, RSTART, RLENGTH - 1)
    sub(/^COLLET_API /, "", prototype)
    gsub(/\n           /, "\n", prototype) # as wide as COLLET_API
    sub(/\n$/, "", prototype)
    if (doc == "")
        doc = about[sections]
    if (doc != page_doc[pages] || page_section[pages] != sections) {
        pages++
        page_doc[pages] = doc
        page_section[pages] = sections
    }
    page_names[pages] = page_names[pages] (page_names[pages] == "" ? "" : ", ") name
    synopsis[pages] = synopsis[pages] "\n" prototype
}

function write_page(page,    section, names, n, i, file, others, common) {
    section = page_section[page]
    n = split(page_names[page], names, ", ")
    file = dir "/man3/" names[1] ".3"
    common = about[section] == page_doc[page] ? "" : about[section]
    sub(/^\n*Common rules\n/, "", common)
    for (i = 1; i <= pages; i++)
        if (i != page && page_section[i] == section)
            others = others ",\n.BR " page_names[i] " (3)"
    gsub(/, collet_/, " (3),\n.BR collet_", others)
    printf ".TH %s 3 \"\" \"collet %s\" \"Library calls of collet\"\n", names[1], version >file
    printf ".nh\n.ad l\n.SH NAME\n%s \\- %s\n", page_names[page], first_sentence(page_doc[page]) >file
    printf ".SH LIBRARY\ncollet (\\fIlibcollet\\fR, \\fI\\-lcollet\\fR)\n" >file
    printf ".SH SYNOPSIS\n.ft B\n%s.ft R\n", verbatim("#include <collet.h>\n" synopsis[page]) >file
    printf ".SH DESCRIPTION\n%s%s", subject(page), paragraphs(without_names(page_doc[page])) >file
    if (common != "")
        printf ".SH COMMON RULES\n%s", paragraphs(common) >file
    printf ".SH SEE ALSO\n.BR collet (7)%s\n", others >file
    close(file)
    for (i = 2; i <= n; i++) {
        printf ".so man3/%s.3\n", names[1] >(dir "/man3/" names[i] ".3")
        close(dir "/man3/" names[i] ".3")
    }
}

function write_overview(    file, section, page, rules) {
    file = dir "/man7/collet.7"
    sub(/^SPDX[^\n]*\n+/, "", top)
    printf ".TH collet 7 \"\" \"collet %s\" \"collet\"\n", version >file
    printf ".nh\n.ad l\n.SH NAME\ncollet \\- %s\n", first_sentence(substr(top, index(top, ": ") + 2)) >file
    printf ".SH SYNOPSIS\n.B #include <collet.h>\n.PP\n.B cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs collet)\n" >file
    printf ".SH DESCRIPTION\n%s", paragraphs(top) >file
    for (section = 1; section <= sections; section++) {
        rules = paragraphs(about[section])
        sub(/\n\.SH ERRORS\n/, "\n.PP\nErrors: ", rules)
        printf ".SH %s\n%s%s", titles[section], rules, overview[section] >file
        for (page = 1; page <= pages; page++)
            if (page_section[page] == section && page_doc[page] != about[section])
                printf ".TP\n.B %s\n%s\n", page_names[page], first_sentence(page_doc[page]) >file
    }
    printf ".SH SEE ALSO\n.BR collet\\-info (1),\n.BR collet\\-prog (1),\n.BR all_reduce_perf (1)\n" >file
    close(file)
}

# ---- one page of Markdown ----

# A line of a comment: what Markdown would take for its own stays as it is, and a function that has an entry is a link to it.
function marked(line,    out, name) {
    while (match(line, /collet_[a-z0-9_]+\(\)/)) {
        name = substr(line, RSTART, RLENGTH - 2)
        out = out plain(substr(line, 1, RSTART - 1)) (name in page_of ? "<a href=\"#" name "\"><code>" name "()</code></a>" : "`" name "()`")
        line = substr(line, RSTART + RLENGTH)
    }
    return out plain(line)
}

function plain(text) {
    gsub(/[\\`*_<>|#~$[{]|\]/, "\\\\&", text)
    return text
}

function marked_comment(text,    lines, n, i, line, indent, out, item, rest) {
    text = without_names(text)
    n = split(toupper(substr(text, 1, 1)) substr(text, 2), lines, "\n")
    for (i = 1; i <= n; i++) {
        line = lines[i]
        match(line, /^ */)
        indent = RLENGTH
        line = substr(line, indent + 1)
        if (line == "") {
            out = out "\n"
            item = 0
        } else if (indent >= 2 && indent <= 4 && match(line, /^[^ ]+(, [^ ]+)*  +/)) {
            rest = substr(line, RLENGTH + 1)
            out = out (item ? "" : "\n") "- **" marked(substr(line, 1, index(line, "  ") - 1)) "** " marked(rest) "\n"
            item = 1
        } else if (indent < 2 && (item || line ~ /^(Further e|E)rrors/)) {
            out = out "\n" marked(line) "\n"
            item = 0
        } else
            out = out (item ? "  " : "") marked(line) "\n"
    }
    return out
}

function code(text) {
    sub(/^\n+/, "", text)
    return "\n```c\n" text "\n```\n\n"
}

function write_markdown(file,    section, page, i, n, names) {
    for (page = 1; page <= pages; page++)
        for (n = split(page_names[page], names, ", "); n > 0; n--)
            page_of[names[n]] = page
    sub(/^SPDX[^\n]*\n+/, "", top)
    printf "# The API, call by call\n\nThis page is made from `include/collet.h` of version %s.\n\n%s", version, marked_comment(substr(top, index(top, ": ") + 2)) >file
    for (section = 1; section <= sections; section++) {
        sub(/^\n*Common rules\n/, "", about[section])
        printf "\n## %s\n\n%s", toupper(substr(titles[section], 1, 1)) tolower(substr(titles[section], 2)), marked_comment(about[section]) >file
        for (i = 1; i <= n_defined[section]; i++)
            printf "\n%s%s", marked_comment(defined_doc[section, i]), code(defined_text[section, i]) >file
        for (page = 1; page <= pages; page++)
            if (page_section[page] == section) {
                n = split(page_names[page], names, ", ")
                printf "\n" >file
                for (i = 1; i <= n; i++)
                    printf "<a id=\"%s\"></a>\n", names[i] >file
                printf "\n### %s\n%s", page_names[page], code(synopsis[page]) >file
                if (page_doc[page] != about[section])
                    printf "%s\n", marked_comment(page_doc[page]) >file
            }
    }
    close(file)
}

in_definition { definition = definition "\n" $0 }
in_definition && /^};/ { define(definition); in_definition = 0; next }
in_definition { next }

!in_comment && /^\/\*/ {
    in_comment = 1
    body = ""
    is_section = /^\/\* --/
    if (is_section)
        begin_section($0)
}
in_comment {
    line = $0
    ends = sub(/ *\*\/$/, "", line)
    if (!(line ~ /^\/\* --/)) {
        sub(/^ ?\/?\* ?/, "", line)
        body = body line "\n"
    }
    if (!ends)
        next
    in_comment = 0
    if (!sections)
        top = top == "" ? body : top
    else if (is_section)
        about[sections] = body
    else
        doc = body
    next
}

/^COLLET_API/ { prototype = ""; in_prototype = 1 }
in_prototype {
    prototype = prototype $0 "\n"
    if (/;$/) {
        in_prototype = 0
        declare(prototype)
    }
    next
}

/^(enum|struct) [a-z_]+ \{.*\};$/ { define($0); next }
/^(enum|struct) [a-z_]+ \{/ { definition = $0; in_definition = 1; next }
sections && /^#define COLLET_/ { define($0) }

END {
    if (!pages)
        exit 1
    if (markdown != "") {
        write_markdown(markdown)
        exit 0
    }
    for (page = 1; page <= pages; page++)
        write_page(page)
    write_overview()
}
