/* SPDX-License-Identifier: Apache-2.0
 *
 * What the caller of collet_comm_init_*() asks for in struct collet_config.
 */
#ifndef COLLET_API_OPTIONS_H
#define COLLET_API_OPTIONS_H

#include "api/comm.h"

/* Copies the caller's struct (NULL: all defaults), of whatever version, and checks each field. The device becomes its number. */
enum collet_result options_read(const struct collet_config *from, struct collet_config *to);

/* Is the device there? COLLET_DEVICE_CUDA_CURRENT becomes its number. `argument` is what the error blames. */
enum collet_result options_check_device(int *device, const char *argument);

/* Configures comm: the environment, overridden by the options. */
enum collet_result options_apply(const struct collet_config *options, struct collet_comm *comm);

#endif
