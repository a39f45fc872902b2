/* SPDX-License-Identifier: Apache-2.0 */
#include "common/whole.h"

const bool library_is_whole = true;
