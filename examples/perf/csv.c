/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the table as comma-separated values, for spreadsheets. The columns are always the same. A column is empty if nothing was
 * measured.
 */
#include "perf.h"

void csv_header(const struct perf_job *job) {
    if (!job->csv)
        return;
    fprintf(job->csv, "size,count,type,redop,root");
    for (int i = 0; i < 2; i++) {
        const char *place = i == 0 ? "out_of_place" : "in_place";
        fprintf(job->csv, ",%s_us,%s_algbw,%s_busbw,%s_wrong", place, place, place, place);
    }
    fprintf(job->csv, ",predicted_us,plan\n");
}

static void put_half(FILE *csv, const struct perf_half *half) {
    if (half->ran)
        fprintf(csv, ",%.3f,%.6g,%.6g,", half->time_us, half->algbw, half->busbw);
    else
        fprintf(csv, ",,,,");
    if (half->ran && half->checked)
        fprintf(csv, "%lld", half->wrong);
}

void csv_row(const struct perf_job *job, const struct perf_row *row) {
    if (!job->csv)
        return;
    fprintf(job->csv, "%zu,%zu,%s,%s,%d", row->bytes, row->count, row->type, row->op, row->root);
    put_half(job->csv, &row->halves[0]);
    put_half(job->csv, &row->halves[1]);
    fprintf(job->csv, row->predicted_us > 0 ? ",%.3f" : ",", row->predicted_us);
    fprintf(job->csv, row->plan[0] ? ",\"%s\"\n" : ",\n", row->plan);
    fflush(job->csv);
}
