/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses cases out of a product of parameters that is too large to be run.
 *
 * A set of cases covers the product with strength t if every combination of values of any t parameters occurs in some
 * case: most defects depend on one or two parameters only. Strength 2 needs about as many cases as the two largest
 * parameters have pairs. The same description always gives the same cases.
 */
#ifndef COLLET_TESTS_COVER_H
#define COLLET_TESTS_COVER_H

#include <stdbool.h>
#include <stddef.h>

#define COVER_PARAMETERS_MAX 12
#define COVER_OPEN (-1) /* a parameter that has no value yet */

struct cover_case {
    int value[COVER_PARAMETERS_MAX];
};

struct cover {
    int nparameters;
    int nvalues[COVER_PARAMETERS_MAX];
    /* Can this be completed to a case that makes sense? Only pairs may exclude each other. */
    bool (*possible)(const struct cover_case *partial);
};

/* Strength 1 … 3. The caller frees *cases_p. Returns how many there are. */
size_t cover_choose(const struct cover *cover, int strength, struct cover_case **cases_p);

/* All possible cases of the product, of which `number` in 0 … product−1 is one; false if it is not possible. */
size_t cover_product(const struct cover *cover);
bool cover_nth(const struct cover *cover, size_t number, struct cover_case *one);

#endif
