/* SPDX-License-Identifier: Apache-2.0
 *
 * From what nvcc left in an object to kernels: the PTX of a fatbin, and the functions of a PTX text.
 *
 *    fatbin   │ magic, version, size of head, size of the rest │ entry │ entry │ …
 *    entry    │ kind (1: PTX, 2: machine code), size of head, size of text, arch, compressed size, size │ text │
 */
#include "gpusim/ptx.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char error_text[512];

const char *gpusim_error(void) { return error_text; }

bool gpusim_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_text, sizeof(error_text), format, arguments);
    va_end(arguments);
    return false;
}

/* ---- fatbins ---- */

struct fatbin_head {
    uint32_t magic;
    uint16_t version, head_bytes;
    uint64_t bytes;
};

struct fatbin_entry {
    uint16_t kind, version;
    uint32_t head_bytes;
    uint64_t padded_bytes;
    uint32_t compressed_bytes, unknown, minor, arch;
    uint64_t more[2];
    uint64_t unknown_flags, bytes;
};

#define FATBIN_MAGIC 0xba55ed50u
#define ZSTD_MAGIC 0xfd2fb528u
enum { FATBIN_PTX = 1 };

/* Decompressors are asked for at run time: every Debian has these two, but not their headers. */
static bool find_function(const char *library, const char *name, void *function_p, size_t bytes) {
    void *opened = dlopen(library, RTLD_NOW), *found = opened == NULL ? NULL : dlsym(opened, name);
    if (found == NULL)
        return gpusim_fail("the PTX is compressed, and there is no %s: install %s", name, library);
    memcpy(function_p, &found, bytes);
    return true;
}

/* As nvcc of CUDA 13 compresses. */
static bool unpack_zstd(char *to, size_t bytes, const char *from, size_t packed) {
    static size_t (*decompress)(void *, size_t, const void *, size_t);
    if (decompress == NULL && !find_function("libzstd.so.1", "ZSTD_decompress", &decompress, sizeof(decompress)))
        return false;
    return decompress(to, bytes, from, packed) == bytes || gpusim_fail("the PTX cannot be decompressed by zstd");
}

/* As nvcc of CUDA 12 compresses: one block, without lz4's header. */
static bool unpack_lz4(char *to, size_t bytes, const char *from, size_t packed) {
    static int (*decompress)(const char *, char *, int, int);
    if (decompress == NULL && !find_function("liblz4.so.1", "LZ4_decompress_safe", &decompress, sizeof(decompress)))
        return false;
    return decompress(from, to, (int)packed, (int)bytes) == (int)bytes ||
           gpusim_fail("the PTX cannot be decompressed by lz4");
}

static bool copy_text(char *to, size_t bytes, const char *from) {
    memcpy(to, from, bytes);
    return strstr(to, ".version") != NULL ||
           gpusim_fail("the fatbin has an entry that is neither PTX nor known to be compressed");
}

static char *entry_text(const struct fatbin_entry *entry) {
    const char *data = (const char *)entry + entry->head_bytes;
    size_t packed = entry->compressed_bytes, bytes = packed != 0 ? entry->bytes : entry->padded_bytes;
    uint32_t magic;
    memcpy(&magic, data, sizeof(magic));
    char *text = calloc(1, bytes + 1);
    if (text == NULL)
        abort();
    if (packed == 0           ? copy_text(text, bytes, data)
        : magic == ZSTD_MAGIC ? unpack_zstd(text, bytes, data, packed)
                              : unpack_lz4(text, bytes, data, packed))
        return text;
    free(text);
    return NULL;
}

char *gpusim_fatbin_ptx(const void *fatbin, uint32_t arch, uint32_t *arch_p) {
    const struct fatbin_head *head = fatbin;
    const struct fatbin_entry *best = NULL;
    if (head->magic != FATBIN_MAGIC) {
        gpusim_fail("this is no fatbin");
        return NULL;
    }
    for (const char *at = (const char *)fatbin + head->head_bytes, *end = at + head->bytes; at < end;) {
        const struct fatbin_entry *entry = (const void *)at;
        if (entry->kind == FATBIN_PTX && entry->arch <= arch && (best == NULL || entry->arch > best->arch))
            best = entry;
        at += entry->head_bytes + entry->padded_bytes;
    }
    if (best == NULL) {
        gpusim_fail("the fatbin has no PTX for sm_%u or a lower architecture", arch);
        return NULL;
    }
    if (arch_p != NULL)
        *arch_p = best->arch;
    return entry_text(best);
}

/* ---- mutations ---- */

static char mutate_from[256], mutate_to[256];
static bool mutates;

void gpusim_mutate(const char *from, const char *to) {
    mutates = from != NULL && to != NULL;
    snprintf(mutate_from, sizeof(mutate_from), "%s", mutates ? from : "");
    snprintf(mutate_to, sizeof(mutate_to), "%s", mutates ? to : "");
}

static char *mutated(const char *ptx) {
    size_t times = 0, from_length = strlen(mutate_from), to_length = strlen(mutate_to);
    for (const char *at = ptx; mutates && (at = strstr(at, mutate_from)) != NULL; at += from_length)
        times++;
    char *text = malloc(strlen(ptx) + times * to_length + 1), *end = text;
    if (text == NULL)
        abort();
    for (const char *found; times-- > 0; ptx = found + from_length) {
        found = strstr(ptx, mutate_from);
        memcpy(end, ptx, (size_t)(found - ptx));
        end += found - ptx;
        memcpy(end, mutate_to, to_length);
        end += to_length;
    }
    strcpy(end, ptx);
    return text;
}

/* ---- modules ---- */

static char *name_at(const char *at) {
    size_t length = strcspn(at, " (\t\n");
    char *name = calloc(1, length + 1);
    if (name == NULL)
        abort();
    memcpy(name, at, length);
    return name;
}

/* `.entry name(` or `.func (result) name(`; what has no body is only announced. The end of the function. */
static const char *add_function(struct gpusim_module *module, const char *at, uint32_t line) {
    bool entry = strncmp(at, ".entry", 6) == 0;
    const char *name = at + strcspn(at, " \t\n(");
    name += strspn(name, " \t\n");
    if (*name == '(') {
        name = strchr(name, ')') + 1;
        name += strspn(name, " \t\n");
    }
    const char *body = at + strcspn(at, "{;");
    if (*body != '{')
        return body;
    module->functions = realloc(module->functions, (module->nfunctions + 1) * sizeof(*module->functions));
    if (module->functions == NULL)
        abort();
    module->functions[module->nfunctions++] =
        (struct ptx_function){.name = name_at(name), .entry = entry, .text = at, .line = line};
    int depth = 0;
    do
        depth += *body == '{' ? 1 : *body == '}' ? -1 : 0;
    while (*body++ != '\0' && depth > 0);
    return body;
}

struct gpusim_module *gpusim_module_load(const char *ptx) {
    struct gpusim_module *module = calloc(1, sizeof(*module));
    if (module == NULL)
        abort();
    module->text = mutated(ptx);
    uint32_t line = 1;
    for (const char *at = module->text, *counted = at; *at != '\0';) {
        if (at[0] == '/' && at[1] == '/')
            at += strcspn(at, "\n");
        for (; counted < at; counted++)
            line += *counted == '\n';
        if (strncmp(at, ".entry", 6) == 0 || strncmp(at, ".func", 5) == 0)
            at = add_function(module, at, line);
        else if (strncmp(at, ".shared", 7) == 0 && module->nshared < GPUSIM_SHARED_MAX)
            module->shared[module->nshared++] = at++;
        else if (*at != '\0')
            at++;
    }
    return module;
}

static void function_free(struct ptx_function *f) {
    free(f->name);
    free(f->code);
    free(f->constants);
    free(f->calls);
}

void gpusim_module_unload(struct gpusim_module *module) {
    for (uint32_t k = 0; k < module->nfunctions; k++)
        function_free(&module->functions[k]);
    free(module->functions);
    free(module->text);
    free(module);
}
