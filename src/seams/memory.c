/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "memory".
 */
long commons_own_ticket(void);
long commons_own_ticket(void) { return 0; }
long commons_view_close(void);
long commons_view_close(void) { return 0; }
long commons_view_open(void);
long commons_view_open(void) { return 0; }
long exec_announce(void);
long exec_announce(void) { return 0; }
long exec_borrow(void);
long exec_borrow(void) { return 0; }
long exec_carry(void);
long exec_carry(void) { return 0; }
long exec_help(void);
long exec_help(void) { return 0; }
long exec_is_out_of_place(void);
long exec_is_out_of_place(void) { return 0; }
long exec_land(void);
long exec_land(void) { return 0; }
long exec_stop_loans(void);
long exec_stop_loans(void) { return 0; }
long memory_deregister_all(void);
long memory_deregister_all(void) { return 0; }
long window_deregister_all(void);
long window_deregister_all(void) { return 0; }
long window_register(void);
long window_register(void) { return 0; }
long window_register_all(void);
long window_register_all(void) { return 0; }

struct big {
    long words[4];
};
struct big exec_loans_of(void);
struct big exec_loans_of(void) {
    return (struct big){{0}};
}
const void *commons_own(void);
const void *commons_own(void) {
    static long none[4];
    return none;
}
