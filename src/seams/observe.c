/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "observe".
 */
long boot_report_by(void);
long boot_report_by(void) { return 0; }
long boot_try_clock(void);
long boot_try_clock(void) { return 0; }
long census_answer(void);
long census_answer(void) { return 0; }
long census_hear(void);
long census_hear(void) { return 0; }
long exec_dump(void);
long exec_dump(void) { return 0; }
long exec_trace_bind(void);
long exec_trace_bind(void) { return 0; }
long exporter_add(void);
long exporter_add(void) { return 0; }
long exporter_remove(void);
long exporter_remove(void) { return 0; }
long journal_close(void);
long journal_close(void) { return 0; }
long journal_dump(void);
long journal_dump(void) { return 0; }
long journal_note_end(void);
long journal_note_end(void) { return 0; }
long journal_open(void);
long journal_open(void) { return 0; }
long journal_print(void);
long journal_print(void) { return 0; }
long observing_look(void);
long observing_look(void) { return 0; }
long reception_add(void);
long reception_add(void) { return 0; }
long reception_remove(void);
long reception_remove(void) { return 0; }
long report_make(void);
long report_make(void) { return 0; }
long selftest_all_try(void);
long selftest_all_try(void) { return 0; }
long selftest_conn_try(void);
long selftest_conn_try(void) { return 0; }
long tracer_create(void);
long tracer_create(void) { return 0; }
long tracer_destroy(void);
long tracer_destroy(void) { return 0; }
long tracer_progress(void);
long tracer_progress(void) { return 0; }
void *journal_add(void);
void *journal_add(void) {
    static long none[64];
    return none;
}
