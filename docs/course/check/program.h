/* SPDX-License-Identifier: Apache-2.0
 *
 * What labs 1 to 5 share: one function of yours, which emits the steps of one rank. program/program.h explains a step.
 */
#ifndef COURSE_CHECK_PROGRAM_H
#define COURSE_CHECK_PROGRAM_H

#include "program/program.h"

void lab_build(struct prog *prog);

#endif
