/* SPDX-License-Identifier: Apache-2.0
 *
 * Without the layer "launchers".
 */
long launcher_meeting(void);
long launcher_meeting(void) { return 0; }
long launcher_meeting_possible(void);
long launcher_meeting_possible(void) { return 0; }
