/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "elastic".
 */
long hub_forget_consents(void);
long hub_forget_consents(void) { return 0; }
long hub_recall(void);
long hub_recall(void) { return 0; }
long hub_stock_consent(void);
long hub_stock_consent(void) { return 0; }
long relay_announce(void);
long relay_announce(void) { return 0; }
long relay_create(void);
long relay_create(void) { return 0; }
long relay_destroy(void);
long relay_destroy(void) { return 0; }
long relay_fail(void);
long relay_fail(void) { return 0; }
long relay_leads_to(void);
long relay_leads_to(void) { return 0; }
long relay_pass_up(void);
long relay_pass_up(void) { return 0; }
long split_end(void);
long split_end(void) { return 0; }
long split_give_up(void);
long split_give_up(void) { return 0; }
long split_keep_error(void);
long split_keep_error(void) { return 0; }
long split_poll(void);
long split_poll(void) { return 0; }
long split_refuse(void);
long split_refuse(void) { return 0; }
long split_try(void);
long split_try(void) { return 0; }
