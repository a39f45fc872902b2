/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/plot/walk.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 16, PATH_BYTES = 256, TEXT_BYTES = 256 };

struct walk {
    const char *at;
    int depth;
    char path[PATH_BYTES];
    const struct walk_listener *listener;
};

static char next(struct walk *w) {
    while (isspace((unsigned char)*w->at))
        w->at++;
    return *w->at;
}

/* Takes the next character, if it is this one. Returns whether it is. */
static bool take(struct walk *w, char wanted) {
    const bool is_there = next(w) == wanted;
    w->at += is_there;
    return is_there;
}

/* Takes a string without its quotes. Escapes stay as they are. A string that is too long is cut. */
static bool take_string(struct walk *w, char text[TEXT_BYTES]) {
    size_t n = 0;
    if (!take(w, '"'))
        return false;
    for (; *w->at != '"' && *w->at != '\0'; w->at++) {
        if (n < TEXT_BYTES - 2)
            text[n++] = *w->at;
        if (*w->at == '\\' && w->at[1] != '\0')
            w->at++;
    }
    text[n] = '\0';
    return take(w, '"');
}

static bool take_word(struct walk *w, char text[TEXT_BYTES]) {
    const size_t length = strcspn(w->at, ",]} \t\r\n");
    snprintf(text, TEXT_BYTES, "%.*s", (int)(length < TEXT_BYTES ? length : TEXT_BYTES - 1), w->at);
    w->at += length;
    return length > 0;
}

static bool walk_value(struct walk *w);

static bool walk_members(struct walk *w, char begin, char end) {
    const size_t length = strlen(w->path);
    if (++w->depth > DEPTH_MAX)
        return false;
    for (bool first = true; !take(w, end); first = false) {
        char key[TEXT_BYTES] = "[]";
        if ((!first && !take(w, ',')) || (begin == '{' && (!take_string(w, key) || !take(w, ':'))))
            return false;
        snprintf(w->path + length, PATH_BYTES - length, "%s%s", begin == '{' ? "." : "", key);
        if (!walk_value(w))
            return false;
        w->path[length] = '\0';
    }
    w->depth--;
    w->listener->end(w->listener->context, w->path);
    return true;
}

static bool walk_value(struct walk *w) {
    char text[TEXT_BYTES];
    if (take(w, '{'))
        return walk_members(w, '{', '}');
    if (take(w, '['))
        return walk_members(w, '[', ']');
    if (next(w) == '"' ? !take_string(w, text) : !take_word(w, text))
        return false;
    w->listener->value(w->listener->context, w->path, text);
    return true;
}

bool walk_json(const char *text, const struct walk_listener *listener) {
    struct walk walk = {.at = text, .listener = listener};
    return walk_value(&walk) && next(&walk) == '\0';
}
