/* SPDX-License-Identifier: Apache-2.0
 *
 * collet-info: shows what this build of collet contains, what it can use on this machine, and how it is configured here and now. Each
 * "no" comes with its reason, and with what to do about it.
 */
#include "base/config_read.h"
#include "base/err.h"
#include "base/os.h"
#include "base/cpus.h"
#include "base/mapping.h"
#include "base/types.h"
#include "chan/chan.h"
#include "layers/gpu/gpu.h"
#include "kernels/reduce_host.h"
#include "layers/gpu/kernels.h"
#include "layers/tuner/host.h"
#include "layers/tuner/on_cpus.h"
#include "layers/tuner/tuner.h"
#include "layers/tools/common/arguments.h"
#include "layers/tools/common/sink.h"
#include "layers/observe/json.h"
#include "transport/transport.h"
#include "layers/nccl/plug_lib.h"
#include "transport/verbs/verbs_memory.h"
#include "transport/verbs/verbs_near.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct json *json; /* NULL: the output is text. */

__attribute__((format(printf, 3, 4))) static void row(const char *what, bool can, const char *format, ...) {
    char why[512];
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    if (json == NULL) {
        printf("  %-16s %-4s %s\n", what, can ? "yes" : "no", why);
        return;
    }
    json_open(json, NULL, '{');
    json_text(json, "what", what);
    json_bool(json, "can", can);
    json_text(json, "why", why);
    json_close(json, '}');
}

/* Number of CPUs that this program may run on. */
static int cpu_count(void) {
    struct os_cpu_set set;
    os_cpu_set_get(&set);
    return os_cpu_set_count(&set);
}

/* ---- CPUs ---- */

/* Shows the speed of the host, measured as by communicators of three ranks or more. */
static void show_speed(void) {
    struct os_cpu_set set;
    int cpus[ON_CPUS_MAX], n = 0;
    struct host_times times;
    char text[HOST_TEXT_BYTES];
    os_cpu_set_get(&set);
    for (int cpu = 0; cpu < OS_CPUS && n < ON_CPUS_MAX; cpu++)
        if (set.word[cpu / 64] >> cpu % 64 & 1)
            cpus[n++] = cpu;
    if (n < 2)
        row("CPUs at once", false, "there is one");
    else if (!host_probe(cpus, n, reduce_host_copy_past_caches, true, &times))
        row("CPUs at once", false, "how fast %d CPUs are could not be measured: something else keeps them busy", n);
    else {
        const struct host_speed speed = host_speed_of(&times, n);
        row("CPUs at once", true, "%d: %s", n, host_text(&speed, text));
    }
}

/* ---- shared memory ---- */

static void show_shared_memory(void) {
    void *memory, *again;
    int fd;
    if (os_shared_create("collet-info", 4096, &memory, &fd) != COLLET_SUCCESS) {
        row("shared memory", false, "%s", err_last());
        return;
    }
    if (os_shared_open(os_pid(), fd, 4096, &again) != COLLET_SUCCESS)
        row("shared memory", false, "%s (is /proc mounted, and of this PID namespace?)", err_last());
    else {
        row("shared memory", true, "memfd, opened through /proc");
        os_memory_destroy(again, 4096);
    }
    os_memory_destroy(memory, 4096);
    close(fd);
}

/* ---- RDMA ---- */

static void show_memlock(void) {
    struct rlimit limit = {0};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY)
        row("locked memory", true, "without limit");
    else
        row("locked memory", limit.rlim_cur >= 64u << 20,
            "%llu KiB: each RDMA connection registers its FIFO, some 4 MiB; ulimit -l unlimited lifts it",
            (unsigned long long)limit.rlim_cur / 1024);
}

static void show_port(const struct verbs_port *port) {
    char name[VERBS_NAME_BYTES + 8], text[VERBS_GID_TEXT_BYTES];
    snprintf(name, sizeof(name), "%s:%d", port->device->name, port->number);
    if (port->kinds == 0)
        row(name, false, "%s", port->why);
    for (int kind = 0; kind < VERBS_KIND_COUNT; kind++)
        if (port->kinds & 1u << kind) {
            verbs_gid_text(&port->gids[kind], text);
            row(name, true, "%s: GID %d, %s; MTU %d%s", verbs_kind_name((enum verbs_kind)kind), port->gid_index[kind],
                text, 128 << port->mtu, port->kinds & ((1u << kind) - 1) ? " (not preferred)" : "");
        }
}

static void show_rdma(void) {
    const struct verbs_host *host = verbs_host();
    if (host->kinds != 0)
        row("RDMA", true, "%d device(s), %d port(s)", host->ndevices, host->nports);
    else
        row("RDMA", false, "%s", host->why);
    for (int k = 0; k < host->nports; k++)
        show_port(&host->ports[k]);
}

static void show_plugin(void) {
    const struct plug_host *host = plug_host();
    if (host->table == NULL) {
        row("net plugin", false, "%s", host->why);
        return;
    }
    row("net plugin", true, "%s, version %d of the interface, %d device(s)", host->table->name, host->version,
        host->ndevices);
    for (int k = 0; k < host->ndevices; k++)
        row(host->devices[k].nic.name, true, "%s%s%lld Mbit/s, takes memory of %s", host->devices[k].busid,
            host->devices[k].busid[0] != '\0' ? ", " : "", (long long)host->devices[k].nic.mbits,
            host->devices[k].nic.gdr ? "hosts and GPUs" : "hosts");
}

/* Shows the GPUs. Counting them asks the driver; none of this opens a GPU. */
static void show_gpu_row(void) {
    const struct gpu_driver *driver = gpu_driver();
    const char *why = "";
    int count = driver == NULL ? 0 : driver->count(&why);
    if (driver == NULL)
        row("GPU", false, "this build drives host memory only: it was built without nvcc, or with CUDA=0");
    else if (count == 0)
        row("GPU", false, "%s", why);
    else
        row("GPU", true, "%d; run on one H200 on 2026-11-26, never on several: docs/gpu.md", count);
    if (driver != NULL)
        row("kernels", true, "for %s", driver->kernels->code);
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++)
            if (a != b && !driver->sharing->can_reach(a, b))
                row("peer access", false, "GPU %d does not reach GPU %d: slots between them in pinned host memory", a,
                    b);
}

/* Shows how verbs would register memory of a GPU with a NIC, and make the NIC's writes there visible. */
static void show_gpudirect(const struct verbs_device *device, int ordinal, const struct config *config) {
    const struct verbs_host *host = verbs_host();
    struct gpu_direct can = gpu_driver()->sharing->direct(ordinal);
    struct verbs_memory_facts facts = verbs_memory_facts(host, device, true, can.exports_dmabuf);
    const char *why;
    enum topo_class path = verbs_path_to_gpu(config, device->name, ordinal);
    facts.far = !verbs_is_near(config, path);
    enum verbs_registration how = verbs_memory_choose(&facts, &why);
    if (how == VERBS_STAGED)
        row("GPUDirect", false, "%s and GPU %d, path %s: slots between hosts in pinned host memory: %s", device->name,
            ordinal, topo_class_name(path), why);
    else
        row("GPUDirect", true, "%s and GPU %d, path %s: registered %s: %s; %s (not run on hardware: docs/gpu.md)",
            device->name, ordinal, topo_class_name(path), verbs_registration_name(how), why,
            can.ordered ? "the GPU orders a NIC's writes" : "what a NIC wrote is flushed by a read");
}

static void show_gpus(const struct config *config) {
    const struct verbs_host *host = verbs_host();
    const char *why;
    int count = gpu_driver() == NULL ? 0 : gpu_driver()->count(&why);
    show_gpu_row();
    if (host->kinds == 0 || count == 0)
        row("GPUDirect", false, "%s", host->kinds == 0 ? "no RDMA port to register memory with" : "no GPU");
    for (int k = 0; host->kinds != 0 && k < host->ndevices; k++)
        for (int ordinal = 0; ordinal < count; ordinal++)
            show_gpudirect(&host->devices[k], ordinal, config);
}

/* ---- all of it ---- */

static void show_machine(void) {
    show_speed();
    show_shared_memory();
    show_memlock();
    show_plugin();
    show_rdma();
    show_gpus(config_process());
}

static void print_text(const struct config *config) {
    struct config_value value;
    printf("collet %d.%d.%d\n", COLLET_MAJOR, COLLET_MINOR, COLLET_PATCH);
    printf("host %s, %d CPUs allowed, reductions: %s\n", os_host_name(), cpu_count(), reduce_host_variant());
    printf("transports:");
    for (const struct transport *const *t = transports; *t != NULL; t++)
        printf(" %s", (*t)->name);
    printf("\ntypes:");
    for (int type = 0; type < COLLET_TYPE_COUNT; type++)
        printf(" %s", type_name((enum collet_type)type));
    printf("\n\nthis machine:\n");
    show_machine();
    printf("\n");
    for (size_t k = 0; config_value(config, k, &value); k++)
        printf("%c %-24s %-16s %s\n", value.is_default ? ' ' : '*', value.name, *value.text != '\0' ? value.text : "-",
               value.help);
}

static void print_json(const struct config *config) {
    struct config_value value;
    char version[32];
    struct json writer = {.file = stdout};
    json = &writer;
    snprintf(version, sizeof version, "%d.%d.%d", COLLET_MAJOR, COLLET_MINOR, COLLET_PATCH);
    json_open(json, NULL, '{');
    json_text(json, "collet", version);
    json_text(json, "host", os_host_name());
    json_integer(json, "cpus", cpu_count());
    json_text(json, "reductions", reduce_host_variant());
    json_open(json, "transports", '[');
    for (const struct transport *const *t = transports; *t != NULL; t++)
        json_text(json, NULL, (*t)->name);
    json_close(json, ']');
    json_open(json, "types", '[');
    for (int type = 0; type < COLLET_TYPE_COUNT; type++)
        json_text(json, NULL, type_name((enum collet_type)type));
    json_close(json, ']');
    json_open(json, "machine", '[');
    show_machine();
    json_close(json, ']');
    json_open(json, "knobs", '[');
    for (size_t k = 0; config_value(config, k, &value); k++) {
        json_open(json, NULL, '{');
        json_text(json, "name", value.name);
        json_text(json, "value", value.text);
        json_bool(json, "default", value.is_default);
        json_text(json, "help", value.help);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_close(json, '}');
    printf("\n");
}

int main(int argc, char **argv) {
    bool as_json = false;
    struct config config;
    const char *output = NULL;
    const struct command command = {"[--json] [-o FILE]", NULL};
    const struct argument table[] = {ARGUMENT_FLAG("json", &as_json, "JSON instead of text"), ARGUMENT_OUTPUT(&output)};
    arguments_read_options(&command, table, sizeof table / sizeof *table, argc, argv);
    if (!sink_begin(output))
        return EXIT_BAD_INPUT;
    char why[ERR_TEXT_BYTES] = "";
    if (config_read(&config) != COLLET_SUCCESS || tuner_check_names(&config) != COLLET_SUCCESS ||
        chan_check_names(&config) != COLLET_SUCCESS) {
        snprintf(why, sizeof why, "%s", err_last());
        config = *config_process();
    }
    (as_json ? print_json : print_text)(&config);
    if (why[0] != '\0')
        fprintf(stderr, "collet-info: %s\n", why);
    return sink_end(why[0] == '\0' ? EXIT_SUCCESS : EXIT_FAILURE);
}
