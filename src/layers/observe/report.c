/* SPDX-License-Identifier: Apache-2.0
 *
 * The watch looks at calls that other threads run, as exec_dump() does: the picture may be a moment old.
 */
#include "layers/observe/journal.h"
#include "layers/observe/report.h"

#include "api/comm.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

#define READS_RACILY __attribute__((no_sanitize("thread")))

READS_RACILY static struct report_call report_call(const struct exec_call *call, uint64_t now_ns) {
    const struct exec_request *r = &call->request;
    const uint64_t since_ns = call->idle_since_ns;
    bool sending = false;
    const int waits_for = exec_waits_for(call, &sending);
    struct report_call report = {.sequence = call->args.sequence,
                                 .count = r->count,
                                 .idle_ns = since_ns != 0 && since_ns < now_ns ? now_ns - since_ns : 0,
                                 .collective = (int32_t)r->collective,
                                 .type = (int32_t)r->type,
                                 .op = (int32_t)r->op,
                                 .root = r->root,
                                 .waits_for = waits_for,
                                 .connecting = call->state == EXEC_CONNECTING,
                                 .sending = sending,
                                 .protocol = (uint16_t)call->args.protocol};
    if (call->program != NULL)
        snprintf(report.algorithm, sizeof(report.algorithm), "%s", call->program->source->name);
    return report;
}

READS_RACILY size_t report_make(const void *comm_, char text[BOOT_REPORT_BYTES]) {
    const struct collet_comm *comm = comm_;
    const struct lane *lanes = comm->engine.lanes;
    const uint64_t now_ns = os_now_ns();
    struct report report = {.calls = engine_collectives(comm), .failure = boot_failed(comm->boot)};
    for (int k = 0; k < CONN_COUNTERS; k++)
        report.counters[k] = __atomic_load_n(&comm->chan->counters[k], __ATOMIC_RELAXED);
    snprintf(report.name, sizeof(report.name), "%s", comm->name);
    snprintf(report.error, sizeof(report.error), "%s", boot_failed_text(comm->boot));
    for (int k = 0; k < 2 + 2 * comm->nranks; k++)
        if (lanes[k].call.state != EXEC_IDLE) {
            if (report.ncalls < REPORT_CALLS)
                report.call[report.ncalls] = report_call(&lanes[k].call, now_ns);
            report.ncalls++;
        }
    memcpy(text, &report, sizeof(report));
    return sizeof(report);
}

#define ENDS(text) (memchr(text, '\0', sizeof(text)) != NULL)

bool report_read(const void *text, size_t bytes, struct report *report) {
    if (bytes != sizeof(*report))
        return false;
    memcpy(report, text, sizeof(*report));
    bool sound = ENDS(report->name) && ENDS(report->error) && report->ncalls >= 0;
    for (int k = 0; k < REPORT_CALLS; k++)
        sound = sound && ENDS(report->call[k].algorithm);
    return sound;
}
