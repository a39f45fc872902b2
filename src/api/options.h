/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a communicator: checks struct collet_config, and puts it into the configuration.
 */
#ifndef COLLET_API_OPTIONS_H
#define COLLET_API_OPTIONS_H

#include "api/comm.h"

/* Copies the caller's struct, which may be of any version (NULL: defaults). Checks each field, and replaces COLLET_DEVICE_CUDA_CURRENT
 * by the number of the device. */
enum collet_result options_read(const struct collet_config *from, struct collet_config *to);

/* Checks that the device exists. Replaces COLLET_DEVICE_CUDA_CURRENT by the number of the device. argument: the name of the argument,
 * for the error text. */
enum collet_result options_check_device(int *device, const char *argument);

/* Sets comm's configuration: the environment first, then the options. */
enum collet_result options_apply(const struct collet_config *options, struct collet_comm *comm);

#endif
