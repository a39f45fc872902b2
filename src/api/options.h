/* SPDX-License-Identifier: Apache-2.0
 *
 * What the caller of collet_comm_init_*() asks for in struct collet_config.
 */
#ifndef COLLET_API_OPTIONS_H
#define COLLET_API_OPTIONS_H

#include "api/comm.h"

/* Copies the caller's struct, of any version (NULL: defaults), checks each field, and replaces the device by its number. */
enum collet_result options_read(const struct collet_config *from, struct collet_config *to);

/* Does the device exist? COLLET_DEVICE_CUDA_CURRENT is replaced by its number. argument: named in the error text. */
enum collet_result options_check_device(int *device, const char *argument);

/* Sets comm's configuration: the environment first, then the options. */
enum collet_result options_apply(const struct collet_config *options, struct collet_comm *comm);

#endif
