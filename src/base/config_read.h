/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the knobs of a communicator from the environment, and reports invalid values.
 */
#ifndef COLLET_BASE_CONFIG_READ_H
#define COLLET_BASE_CONFIG_READ_H

#include "collet.h"

#include "base/config.h"

/* Reads all knobs from the environment as it is now. INVALID_USAGE: a value cannot be parsed, is out of range or too long. Then the text
 * names the variable, the value and the accepted values, and *config is undefined. The first call in a process also warns of
 * each COLLET_… variable that is no knob, and logs the values that are set. */
enum collet_result config_read(struct config *config);

#endif
