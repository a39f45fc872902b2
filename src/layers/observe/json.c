/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/observe/json.h"

#include "base/plain.h"

/* Begins an item: a comma if needed, a new line if the item is not deep inside, and the key. */
static void json_key(struct json *json, const char *key) {
    fprintf(json->file, "%s", json->has_items ? "," : "");
    if (json->depth <= 2)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    if (key)
        fprintf(json->file, "\"%s\": ", key);
    json->has_items = true;
}

void json_open(struct json *json, const char *key, char bracket) {
    if (json->depth > 0)
        json_key(json, key);
    fputc(bracket, json->file);
    json->depth++;
    json->has_items = false;
}

void json_close(struct json *json, char bracket) {
    json->depth--;
    if (json->has_items && json->depth <= 1)
        fprintf(json->file, "\n%*s", 2 * json->depth, "");
    fputc(bracket, json->file);
    json->has_items = true;
}

void json_text(struct json *json, const char *key, const char *text) {
    json_key(json, key);
    fputc('"', json->file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(json->file, "\\%c", *c);
        else if (*c < 0x20 || *c >= 0x7f) /* texts from the environment may not be UTF-8 */
            fprintf(json->file, "\\u%04x", *c);
        else
            fputc(*c, json->file);
    fputc('"', json->file);
}

void json_number(struct json *json, const char *key, double number) {
    json_key(json, key);
    const locale_t before = plain_begin();
    fprintf(json->file, "%.9g", number);
    plain_end(before);
}

void json_integer(struct json *json, const char *key, long long number) {
    json_key(json, key);
    fprintf(json->file, "%lld", number);
}

void json_bool(struct json *json, const char *key, bool value) {
    json_key(json, key);
    fputs(value ? "true" : "false", json->file);
}

void json_null(struct json *json, const char *key) {
    json_key(json, key);
    fputs("null", json->file);
}
