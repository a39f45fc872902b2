/* SPDX-License-Identifier: Apache-2.0
 *
 * An ELF file's section .nv_fatbin holds the fatbins of all its objects, one behind another. A text is PTX as it is.
 */
#include "gpusim/objects.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FATBIN_MAGIC "\x50\xed\x55\xba"

static char *file_read(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file == NULL)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) > 0) {
        *bytes = (size_t)ftell(file);
        rewind(file);
        text = calloc(1, *bytes + 1);
        if (text != NULL && fread(text, 1, *bytes, file) != *bytes) {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

static const Elf64_Shdr *section_of(const char *file, size_t bytes, const char *name) {
    const Elf64_Ehdr *head = (const void *)file;
    if (bytes < sizeof(*head) || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    const Elf64_Shdr *sections = (const void *)(file + head->e_shoff);
    const char *names = file + sections[head->e_shstrndx].sh_offset;
    for (int k = 0; k < head->e_shnum; k++)
        if (strcmp(names + sections[k].sh_name, name) == 0)
            return &sections[k];
    return NULL;
}

/* Every fatbin begins at a multiple of 8; what is between them is filling. */
static void take_fatbins(struct objects *objects, const char *at, const char *end, uint32_t arch) {
    while (at + 16 <= end && objects->n < OBJECTS_MAX) {
        uint64_t bytes;
        uint16_t head_bytes;
        if (memcmp(at, FATBIN_MAGIC, 4) != 0) {
            at += 8;
            continue;
        }
        memcpy(&head_bytes, at + 6, sizeof(head_bytes));
        memcpy(&bytes, at + 8, sizeof(bytes));
        char *text = gpusim_fatbin_ptx(at, arch, NULL);
        if (text != NULL)
            objects->texts[objects->n++] = text;
        at += (head_bytes + bytes + 7) / 8 * 8;
    }
}

bool objects_read(struct objects *objects, const char *path, uint32_t arch) {
    size_t bytes = 0;
    char *file = file_read(path, &bytes);
    const Elf64_Shdr *section = file != NULL ? section_of(file, bytes, ".nv_fatbin") : NULL;
    int before = objects->n;
    if (section != NULL)
        take_fatbins(objects, file + section->sh_offset, file + section->sh_offset + section->sh_size, arch);
    else if (file != NULL && objects->n < OBJECTS_MAX && strstr(file, ".address_size") != NULL) {
        objects->texts[objects->n++] = file;
        return true;
    }
    free(file);
    return objects->n > before;
}

void objects_free(struct objects *objects) {
    while (objects->n > 0)
        free(objects->texts[--objects->n]);
}

const char *objects_find(const struct objects *objects, const char *part, char *name, size_t room) {
    for (int k = 0; k < objects->n; k++)
        for (const char *at = objects->texts[k]; (at = strstr(at, ".entry ")) != NULL; at++) {
            snprintf(name, room, "%.*s", (int)strcspn(at + 7, "(\n"), at + 7);
            if (strstr(name, part) != NULL)
                return objects->texts[k];
        }
    return NULL;
}
