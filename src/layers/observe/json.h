/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON, item by item: json_open() and json_close() go around lists '[' and objects '{'; key is NULL in a list.
 */
#ifndef COLLET_LAYERS_OBSERVE_JSON_H
#define COLLET_LAYERS_OBSERVE_JSON_H

#include <stdbool.h>
#include <stdio.h>

struct json {
    FILE *file;
    int depth;      /* number of open lists and objects */
    bool has_items; /* the innermost open list or object has an item already */
};

void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);
void json_text(struct json *json, const char *key, const char *text);
void json_number(struct json *json, const char *key, double number);
void json_integer(struct json *json, const char *key, long long number);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);

#endif
