/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/nccl/plug_lib.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/low.h"
#include "base/memory.h"
#include "base/os.h"
#include "boot/process.h"
#include "topo/probe/declared.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LATENCY_MOST_US 1e6f

/* From version 10 on, a plugin gets a traffic class. Here it is undefined. */
static int no_class[4] = {-1};

/* ------------------------------------------------------------------------------------------------------------- loading */

/* The plugin's log function. NCCL's level 2 is a warning, 3 is information. */
static void plug_log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
    char text[512];
    va_list args;
    (void)flags, (void)file, (void)line;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_at(level <= 2 ? LOG_WARN : level == 3 ? LOG_INFO : LOG_TRACE, NET, "plugin: %s", text);
}

static int no_profiler(void **event, int type, void *parent, int64_t plugin, void *data) {
    (void)event, (void)type, (void)parent, (void)plugin, (void)data;
    return PLUG_SUCCESS;
}

static int plug_init(struct plug_host *host) {
    union {
        int (*function)(void **, int, void *, int64_t, void *);
        void *pointer;
    } profiler = {no_profiler};
    SCOPED_LOW; /* plugins open their network adapters in init */
    if (host->version >= 11)
        return host->table->init.v11(&host->context, 0, no_class, plug_log_line, profiler.pointer);
    if (host->version >= 10)
        return host->table->init.v10(plug_log_line, profiler.pointer);
    return host->table->init.v8(plug_log_line);
}

static bool find_table(struct plug_host *host, void *library) {
    char symbol[32];
    for (host->version = PLUG_NEWEST; host->version >= PLUG_OLDEST; host->version--) {
        snprintf(symbol, sizeof(symbol), PLUG_SYMBOL, host->version);
        if ((host->table = dlsym(library, symbol)) != NULL)
            return true;
    }
    return false;
}

/* Is a part of the ELF file missing? False if it is no ELF file: the loader says that. */
static bool is_cut_short(int fd, const struct stat *about) {
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    if (pread(fd, &head, sizeof head, 0) != sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    for (int k = 0; k < head.e_phnum; k++)
        if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + (size_t)k * sizeof part)) != sizeof part ||
            (part.p_type == PT_LOAD && part.p_offset + part.p_filesz > (size_t)about->st_size))
            return true;
    return false;
}

/* Why the file must not be given to the loader; NULL: it may be. The loader would block on a pipe, and crash on a file
 * that was copied in part. */
static const char *why_not_load(const char *path) {
    struct stat about;
    const int fd = os_high(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    const char *why = fd < 0 || fstat(fd, &about) != 0 ? NULL /* the loader will say */
                      : !S_ISREG(about.st_mode)        ? "it is no regular file"
                      : is_cut_short(fd, &about)       ? "a part of the file is missing"
                                                       : NULL;
    if (fd >= 0)
        close(fd);
    return why;
}

/* Opens one file. On failure, appends the reason to `why`. */
static void *try_file(const char *file, char *why, size_t room) {
    const size_t used = strlen(why);
    const char *before = used > 0 ? "; " : "";
    const char *reason = strchr(file, '/') != NULL ? why_not_load(file) : NULL;
    void *library = reason == NULL ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (library == NULL && reason == NULL)
        snprintf(why + used, room - used, "%s%s", before, dlerror());
    else if (library == NULL)
        snprintf(why + used, room - used, "%s%s: %s", before, file, reason);
    return library;
}

/* Reports all reasons: the plugin may exist but lack another library. */
void *plug_find(const char *kind, const char *name, char *why, size_t room) {
    char file[CONFIG_TEXT_BYTES + 32];
    snprintf(file, sizeof(file), PLUG_FILE, kind, name);
    why[0] = '\0';
    void *library = try_file(name, why, room);
    if (library == NULL && strchr(name, '/') == NULL)
        library = try_file(file, why, room);
    return library;
}

static void *open_library(const char *name, char *why, size_t room) {
    char causes[400];
    void *library = plug_find("net", name, causes, sizeof(causes));
    if (library == NULL)
        snprintf(why, room, "COLLET_NET_PLUGIN=%s cannot be loaded: %s", name, causes);
    return library;
}

/* ------------------------------------------------------------------------------------------------------------- devices */

/* Reads the PCI address: the last part of "/sys/devices/pci0000:00/0000:4a:00.0". "": the device has no place on the
 * bus. */
static void read_busid(const char *path, char busid[TOPO_BUSID_BYTES]) {
    char place[PATH_MAX];
    unsigned domain, bus, slot, function;
    busid[0] = '\0';
    if (path == NULL || realpath(path, place) == NULL || strrchr(place, '/') == NULL)
        return;
    if (sscanf(strrchr(place, '/') + 1, "%x:%x:%x.%u", &domain, &bus, &slot, &function) == 4)
        snprintf(busid, TOPO_BUSID_BYTES, "%04x:%02x:%02x.%u", domain & 0xffff, bus & 0xff, slot & 0x1f, function & 7);
}

/* The struct of version 8 lacks the field `flush` in the middle. */
static int read_properties(const struct plug_host *host, int k, struct plug_properties *head) {
    struct plug_properties_v12 p = {0}; /* the longest of all versions */
    struct plug_properties_v8 old = {0};
    int result = host->table->get_properties(k, host->version >= 9 ? (void *)&p : (void *)&old);
    if (host->version >= 9)
        *head = p.head;
    else
        *head = (struct plug_properties){.name = old.name,
                                         .path = old.path,
                                         .guid = old.guid,
                                         .pointers = old.pointers,
                                         .mbits = old.mbits,
                                         .port = old.port,
                                         .latency_us = old.latency_us,
                                         .receives = old.receives};
    return result;
}

/* Keeps only values that a graph can hold, because the graph travels as XML. Other values become "not known". */
static struct topo_nic nic_of(const struct plug_properties *p) {
    struct topo_nic nic = {.dev = -1, .guid = p->guid};
    if (p->mbits > 0)
        nic.mbits = p->mbits;
    if (p->port > 0 && p->port <= UINT8_MAX)
        nic.port = p->port;
    if (p->latency_us > 0 && p->latency_us < LATENCY_MOST_US)
        nic.latency_us = (double)p->latency_us;
    nic.gdr = (p->pointers & (PLUG_GPU | PLUG_DMABUF)) != 0;
    snprintf(nic.name, sizeof(nic.name), "%s", p->name != NULL ? p->name : "");
    for (char *c = nic.name; *c != '\0'; c++)
        *c = *c >= ' ' && *c <= '~' ? *c : '?';
    return nic;
}

static int read_device(const struct plug_host *host, int k, struct plug_device *device) {
    struct plug_properties p;
    int result = read_properties(host, k, &p);
    if (result != PLUG_SUCCESS)
        return result;
    *device =
        (struct plug_device){.nic = nic_of(&p), .pointers = p.pointers, .receives = p.receives, .flush = p.flush != 0};
    read_busid(p.path, device->busid);
    return PLUG_SUCCESS;
}

static int read_devices(struct plug_host *host) {
    int count = 0, result = host->table->devices(&count);
    for (int k = 0; result == PLUG_SUCCESS && k < count && k < PLUG_DEVICES_MAX; k++) {
        struct plug_device *device = &host->devices[k];
        if ((result = read_device(host, k, device)) != PLUG_SUCCESS)
            break;
        host->ndevices++;
        log_info(NET, "net plugin %s, device %d: %s%s%s, %lld Mbit/s, takes memory of %s, %d receive(s) per request",
                 host->table->name, k, device->nic.name, device->busid[0] != '\0' ? " at " : "", device->busid,
                 (long long)device->nic.mbits, device->nic.gdr ? "hosts and GPUs" : "hosts", device->receives);
    }
    return result;
}

/* ---------------------------------------------------------------------------------------------------------------- host */

static uint64_t card_of(const char *name) {
    uint32_t hash = 1;
    for (const char *c = name; *c != '\0'; c++)
        hash = hash_mix(hash, (uint8_t)*c);
    return 1ull << 32 | hash;
}

/* Does this value of COLLET_NET_PLUGIN name a plugin? */
static bool config_names_plugin(const char *name) { return name[0] != '\0' && strcmp(name, "none") != 0; }

/* Opens the plugin, into the caller's struct. name: the value of COLLET_NET_PLUGIN. */
static void plug_host_open(struct plug_host *host, const char *name) {
    *host = (struct plug_host){.table = NULL};
    snprintf(host->why, sizeof(host->why), "COLLET_NET_PLUGIN names none");
    if (!config_names_plugin(name))
        return;
    void *library = open_library(name, host->why, sizeof(host->why));
    int result = PLUG_SUCCESS;
    if (library != NULL && !find_table(host, library))
        snprintf(host->why, sizeof(host->why), "COLLET_NET_PLUGIN=%s has no table of version %d to %d", name,
                 PLUG_OLDEST, PLUG_NEWEST);
    else if (library != NULL && ((result = plug_init(host)) != PLUG_SUCCESS || (result = read_devices(host)) != 0))
        snprintf(host->why, sizeof(host->why), "COLLET_NET_PLUGIN=%s does not start: error %d", name, result);
    else if (library != NULL && host->ndevices == 0)
        snprintf(host->why, sizeof(host->why), "COLLET_NET_PLUGIN=%s finds no device", name);
    if (host->ndevices == 0 || result != PLUG_SUCCESS) {
        log_always(NET, "%s; going on without it", host->why);
        host->table = NULL;
        host->ndevices = 0;
        return;
    }
    host->card = card_of(host->table->name);
    log_info(NET, "net plugin %s, version %d of the interface, %d device(s)", host->table->name, host->version,
             host->ndevices);
}

static void declare(const struct plug_host *host) {
    struct topo_declared nics[PLUG_DEVICES_MAX];
    for (int k = 0; k < host->ndevices; k++) {
        nics[k].nic = host->devices[k].nic;
        memcpy(nics[k].busid, host->devices[k].busid, sizeof(nics[k].busid));
    }
    topo_declare_nics(nics, host->ndevices);
}

static const struct plug_host *in_use; /* set by tests; NULL: plug_host() uses the process's own */

PROCESS_LOCK(host_lock); /* fork() does not take this lock, because a plugin may fork while it starts */

const struct plug_host *plug_host(void) {
    static const struct plug_host of_a_child = {.why = "a process that was forked does without a net plugin"};
    static struct plug_host the_host;
    static unsigned generation;
    static bool begun, opened;
    if (in_use != NULL)
        return in_use;
    SCOPED_LOCK(&host_lock);
    if (!begun) {
        begun = true;
        generation = process_forks;
        plug_host_open(&the_host, config_process()->net_plugin);
        declare(&the_host);
        opened = true;
    }
    const bool of_this_process = generation == process_forks, none = opened && the_host.table == NULL;
    return of_this_process || none ? &the_host : &of_a_child;
}

/* --------------------------------------------------------------------------------------------------------------- calls */

int plug_listen(const struct plug_host *host, int device, void *handle, void **listener) {
    if (host->version >= 11)
        return host->table->listen.v11(host->context, device, handle, listener);
    return host->table->listen.v8(device, handle, listener);
}

int plug_connect(const struct plug_host *host, int device, void *handle, void **sender) {
    void *on_device = NULL;
    if (host->version >= 11)
        return host->table->connect.v11(host->context, device, handle, sender, &on_device);
    if (host->version >= 10)
        return host->table->connect.v10(device, no_class, handle, sender, &on_device);
    return host->table->connect.v8(device, handle, sender, &on_device);
}

int plug_isend(const struct plug_host *host, void *sender, const struct plug_message *m, int tag, void **request) {
    if (host->version >= 10)
        return host->table->isend.v10(sender, m->data, m->bytes, tag, m->registration, NULL, request);
    if (host->version >= 9)
        return host->table->isend.v9(sender, m->data, m->bytes, tag, m->registration, request);
    return host->table->isend.v8(sender, m->data, (int)m->bytes, tag, m->registration, request);
}

int plug_irecv(const struct plug_host *host, void *receiver, int n, const struct plug_message *messages,
               void **request) {
    void *data[PLUG_TOGETHER], *registrations[PLUG_TOGETHER], *no_events[PLUG_TOGETHER] = {NULL};
    size_t bytes[PLUG_TOGETHER];
    int tags[PLUG_TOGETHER], int_bytes[PLUG_TOGETHER];
    for (int k = 0; k < n; k++) {
        data[k] = messages[k].data;
        int_bytes[k] = (int)(bytes[k] = messages[k].bytes);
        registrations[k] = messages[k].registration;
        tags[k] = k;
    }
    if (host->version >= 10)
        return host->table->irecv.v10(receiver, n, data, bytes, tags, registrations, no_events, request);
    if (host->version >= 9)
        return host->table->irecv.v9(receiver, n, data, bytes, tags, registrations, request);
    return host->table->irecv.v8(receiver, n, data, int_bytes, tags, registrations, request);
}
