/* SPDX-License-Identifier: Apache-2.0
 *
 *      /sys/bus/pci/devices/0000:13:00.0/max_link_speed              "16.0 GT/s PCIe"
 *                                       /max_link_width              "16"
 *                                       /class, vendor, device, …    "0x020000"
 *                                       /net/eth0/speed              "100000", Mbit/s
 *                                       /infiniband/mlx5_0/ports/1/rate         "200 Gb/sec (4X HDR)"
 *                                                         /ports/1/gids/0       "fe80:0000:…"
 *                                                         /sys_image_guid       "506b:4b03:00d5:4b9e"
 *      /sys/class/infiniband/mlx5_0/ports/1/state            "4: ACTIVE"
 *      /sys/class/net/eth0/operstate                         "up"
 *
 * A link counts with the largest speed and width that it can have, not with the present ones: idle GPUs slow their links
 * down. A network card with RDMA has the name of its RDMA device, any other card has the name of its interface.
 */
#include "topo/probe/sysfs.h"

#include "base/os.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 128

/* Sets `path` as printf() would. A path longer than Linux allows is cut off, and then names no file. */
__attribute__((format(printf, 2, 3))) static const char *set_path(char path[PATH_MAX], const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(path, PATH_MAX, format, args);
    va_end(args);
    return path;
}

/* The first line of a file, whose path is given as for printf(). "" if the file cannot be read. */
__attribute__((format(printf, 2, 3))) static const char *read_line(char line[LINE_BYTES], const char *format, ...) {
    char path[PATH_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    line[0] = '\0';
    FILE *file = os_fopen(path, "r");
    if (file != NULL) {
        if (fgets(line, LINE_BYTES, file) == NULL)
            line[0] = '\0';
        fclose(file);
    }
    line[strcspn(line, "\n")] = '\0';
    return line;
}

DIR *sysfs_opendir(const char *path) {
    const int fd = os_high(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL && fd >= 0)
        close(fd);
    return folder;
}

/* The alphabetically first entry of a folder that does not start with a dot, so that the same machine always looks the same.
 * False: there is no such entry. */
static bool first_entry(const char *folder, char name[TOPO_NAME_BYTES]) {
    DIR *dir = sysfs_opendir(folder);
    name[0] = '\0';
    if (dir == NULL)
        return false;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < TOPO_NAME_BYTES &&
            (name[0] == '\0' || strcmp(entry->d_name, name) < 0))
            snprintf(name, TOPO_NAME_BYTES, "%.*s", TOPO_NAME_BYTES - 1, entry->d_name);
    closedir(dir);
    return name[0] != '\0';
}

/* -------------------------------------------------------------------------------------------------------------- PCI */

static void fill_hex(uint32_t *value, const char *folder, const char *file) {
    char line[LINE_BYTES];
    if (*value == 0)
        *value = (uint32_t)strtoul(read_line(line, "%s/%s", folder, file), NULL, 16);
}

/* The number at the beginning of a text such as "16.0 GT/s PCIe" or "200 Gb/sec (4X HDR)". The digits are read by hand,
 * because strtod() would ask the program's locale what a decimal point is. */
static double one_decimal(const char *line) {
    char *end;
    double whole = (double)strtol(line, &end, 10);
    return *end == '.' && end[1] >= '0' && end[1] <= '9' ? whole + (end[1] - '0') / 10.0 : whole;
}

static const char *device_folder(char folder[PATH_MAX], const char *root, const struct topo_pci *pci) {
    return set_path(folder, "%s/bus/pci/devices/%s", root, pci->busid);
}

void topo_read_sysfs_pci(struct topo_pci *pci, const char *root) {
    char folder[PATH_MAX], line[LINE_BYTES];
    device_folder(folder, root, pci);
    struct topo_pci found = {.link_gts = one_decimal(read_line(line, "%s/max_link_speed", folder))};
    found.link_lanes = (int)strtol(read_line(line, "%s/max_link_width", folder), NULL, 10);
    if (found.link_gts > 0 && found.link_lanes > 0 && found.link_lanes <= 64 &&
        (pci->link_gts <= 0 || pci->link_lanes <= 0)) {
        pci->link_gts = found.link_gts;
        pci->link_lanes = found.link_lanes;
    }
    fill_hex(&pci->class, folder, "class");
    fill_hex(&pci->vendor, folder, "vendor");
    fill_hex(&pci->device, folder, "device");
    fill_hex(&pci->subsystem_vendor, folder, "subsystem_vendor");
    fill_hex(&pci->subsystem_device, folder, "subsystem_device");
}

/* ---------------------------------------------------------------------------------------------------- network ports */

static uint64_t guid_of(const char *line) {
    unsigned parts[4] = {0};
    sscanf(line, "%4x:%4x:%4x:%4x", &parts[0], &parts[1], &parts[2], &parts[3]);
    return (uint64_t)parts[0] << 48 | (uint64_t)parts[1] << 32 | (uint64_t)parts[2] << 16 | parts[3];
}

/* Reads the first address of the port that is not only zeros. */
static void read_gid(struct topo_nic *nic, const char *port) {
    for (int i = 0; i < 16 && nic->gid[0] == '\0'; i++) {
        char line[LINE_BYTES];
        read_line(line, "%s/gids/%d", port, i);
        if (strlen(line) < sizeof nic->gid && strspn(line, "0:") < strlen(line))
            snprintf(nic->gid, sizeof nic->gid, "%.39s", line);
    }
}

/* Reads the ports of an RDMA device. False: the device is not one of RDMA. */
static bool read_rdma(struct topo_nic *nic, const char *device) {
    char folder[PATH_MAX], ports[PATH_MAX], name[TOPO_NAME_BYTES], number[TOPO_NAME_BYTES], line[LINE_BYTES];
    if (!first_entry(set_path(folder, "%s/infiniband", device), name))
        return false;
    memcpy(nic->name, name, sizeof nic->name);
    nic->guid = guid_of(read_line(line, "%s/%s/sys_image_guid", folder, name));
    if (!first_entry(set_path(ports, "%s/%s/ports", folder, name), number))
        return true;
    nic->port = (int)strtol(number, NULL, 10);
    nic->mbits = (int64_t)(one_decimal(read_line(line, "%s/%s/rate", ports, number)) * 1000);
    read_gid(nic, set_path(folder, "%s/%s", ports, number));
    return true;
}

static int64_t interface_mbits(const char *folder) {
    char line[LINE_BYTES];
    int64_t mbits = strtol(read_line(line, "%s/speed", folder), NULL, 10);
    return mbits > 0 ? mbits : 0; /* −1: the kernel does not know the speed. */
}

static void read_interface(struct topo_nic *nic, const char *device) {
    char folder[PATH_MAX], interface[PATH_MAX], name[TOPO_NAME_BYTES];
    if (!first_entry(set_path(folder, "%s/net", device), name))
        return;
    set_path(interface, "%s/%s", folder, name);
    memcpy(nic->name, name, sizeof nic->name);
    nic->mbits = interface_mbits(interface);
    nic->port = 1;
}

void topo_read_sysfs(struct topo *topo, const char *root) {
    for (int n = 0; n < topo->nnodes; n++) {
        struct topo_node *node = &topo->nodes[n];
        char folder[PATH_MAX];
        if (node->pci.busid[0] == '\0' || access(device_folder(folder, root, &node->pci), F_OK) != 0)
            continue;
        topo_read_sysfs_pci(&node->pci, root);
        if (node->kind == TOPO_NIC && node->nic.mbits == 0 && !read_rdma(&node->nic, folder))
            read_interface(&node->nic, folder);
    }
}

/* An RDMA device is down if none of its ports is active. */
bool topo_nic_is_down(const char *nic, const char *root) {
    static const char *const down[] = {"down", "lowerlayerdown", "notpresent"};
    char line[LINE_BYTES];
    int port = 1;
    for (; read_line(line, "%s/class/infiniband/%s/ports/%d/state", root, nic, port)[0] != '\0'; port++)
        if (strstr(line, "ACTIVE") != NULL)
            return false;
    read_line(line, "%s/class/net/%s/operstate", root, nic);
    for (size_t k = 0; k < sizeof down / sizeof *down; k++)
        if (strcmp(line, down[k]) == 0)
            return true;
    return port > 1;
}

/* A virtual interface is made by the kernel, and no card is behind it. In a container, all interfaces are virtual. */
static bool is_virtual(const char *folder) {
    char path[PATH_MAX];
    return access(set_path(path, "%s/device", folder), F_OK) != 0;
}

/* Does the interface lead to virtual machines or containers of this host? Then it is a port of a bridge, or a program is its
 * other end. */
static bool leads_inside(const char *folder) {
    char path[PATH_MAX];
    return access(set_path(path, "%s/brport", folder), F_OK) == 0 ||
           access(set_path(path, "%s/tun_flags", folder), F_OK) == 0;
}

/* Does the interface lead to other hosts? Bridges do not count, because they are made of other interfaces. The loopback does
 * not count either. */
static bool is_way_out(const char *folder) {
    char line[LINE_BYTES], path[PATH_MAX];
    unsigned long flags = strtoul(read_line(line, "%s/flags", folder), NULL, 16);
    bool up = (flags & 1) != 0, loopback = (flags & 8) != 0;
    bool carries = strcmp(read_line(line, "%s/carrier", folder), "1") == 0;
    bool bridge = access(set_path(path, "%s/bridge", folder), F_OK) == 0;
    return up && !loopback && carries && !bridge && !(is_virtual(folder) && leads_inside(folder));
}

/* Maximum number of interfaces that are added. More interfaces belong to virtual machines and containers that run here. */
enum { INTERFACES_MAX = 16 };

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void add_interface(struct topo *topo, const char *name, const char *folder) {
    struct topo_node node = topo_blank(TOPO_NIC, 0);
    snprintf(node.nic.name, sizeof node.nic.name, "%.*s", TOPO_NAME_BYTES - 1, name);
    node.nic.mbits = interface_mbits(folder);
    node.nic.port = 1;
    topo_add_node(topo, &node);
}

/* Virtual interfaces are added only if there are no others. */
void topo_add_interfaces(struct topo *topo, const char *root) {
    char folder[PATH_MAX], interface[PATH_MAX];
    struct dirent **entries = NULL;
    set_path(folder, "%s/class/net", root);
    int count = topo_count(topo, 0, TOPO_NIC) > 0 ? 0 : scandir(folder, &entries, NULL, by_name), added = 0;
    for (int virtual = 0; virtual <= 1 && added == 0; virtual ++)
        for (int i = 0; i < count && added < INTERFACES_MAX; i++) {
            set_path(interface, "%s/%s", folder, entries[i]->d_name);
            if (entries[i]->d_name[0] == '.' || is_virtual(interface) != virtual || !is_way_out(interface))
                continue;
            add_interface(topo, entries[i]->d_name, interface);
            added++;
        }
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
}

bool topo_find_interface(const char *nic, const char *root, char interface[TOPO_NAME_BYTES]) {
    char folder[PATH_MAX];
    if (nic[0] == '\0' || strchr(nic, '/') != NULL)
        return false;
    if (first_entry(set_path(folder, "%s/class/infiniband/%s/device/net", root, nic), interface))
        return true;
    snprintf(interface, TOPO_NAME_BYTES, "%s", nic);
    /* The kernel is asked, because a container may see the sysfs of another network namespace. */
    return if_nametoindex(nic) != 0;
}
