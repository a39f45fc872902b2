/* SPDX-License-Identifier: Apache-2.0
 *
 * Greedy: a case starts with the first combination that has not occurred, then takes, parameter by parameter, the value
 * that brings most new combinations with what it has already.
 *
 * A combination is a tuple of t parameters, each with a value; its bit in `seen` says that it has occurred.
 */
#include "common/cover.h"

#include <stdlib.h>

struct tuple {
    int parameter[3]; /* ascending */
    size_t first;     /* of its combinations' numbers */
};

struct search {
    const struct cover *cover;
    int strength;
    struct tuple *tuples;
    int ntuples;
    unsigned char *seen; /* one a combination */
    size_t ncombinations;
};

/* ---- combinations ---- */

static void add_tuples(struct search *search, int parameter[3], int used, int from) {
    if (used == search->strength) {
        struct tuple *tuple = &search->tuples[search->ntuples++];
        tuple->first = search->ncombinations;
        size_t combinations = 1;
        for (int k = 0; k < used; k++) {
            tuple->parameter[k] = parameter[k];
            combinations *= (size_t)search->cover->nvalues[parameter[k]];
        }
        search->ncombinations += combinations;
        return;
    }
    for (int p = from; p < search->cover->nparameters; p++) {
        parameter[used] = p;
        add_tuples(search, parameter, used + 1, p + 1);
    }
}

/* The bit of the tuple's combination in a case; NULL while one of its parameters is open. */
static unsigned char *seen_of(const struct search *search, const struct tuple *tuple, const struct cover_case *one) {
    size_t number = 0;
    for (int k = 0; k < search->strength; k++) {
        int value = one->value[tuple->parameter[k]];
        if (value == COVER_OPEN)
            return NULL;
        number = number * (size_t)search->cover->nvalues[tuple->parameter[k]] + (size_t)value;
    }
    return &search->seen[tuple->first + number];
}

static bool has_parameter(const struct search *search, const struct tuple *tuple, int parameter) {
    for (int k = 0; k < search->strength; k++)
        if (tuple->parameter[k] == parameter)
            return true;
    return false;
}

/* ---- one case ---- */

static int new_combinations(const struct search *search, const struct cover_case *one, int parameter) {
    int fresh = 0;
    for (int k = 0; k < search->ntuples; k++) {
        if (!has_parameter(search, &search->tuples[k], parameter))
            continue;
        const unsigned char *seen = seen_of(search, &search->tuples[k], one);
        fresh += seen != NULL && !*seen;
    }
    return fresh;
}

static void choose_value(const struct search *search, struct cover_case *one, int parameter, size_t turn) {
    int nvalues = search->cover->nvalues[parameter], best = COVER_OPEN, most = -1;
    for (int k = 0; k < nvalues; k++) {
        one->value[parameter] = (int)(((size_t)k + turn) % (size_t)nvalues); /* ties fall to another value each time */
        if (!search->cover->possible(one))
            continue;
        int fresh = new_combinations(search, one, parameter);
        if (fresh > most) {
            most = fresh;
            best = one->value[parameter];
        }
    }
    one->value[parameter] = best;
}

static void mark(const struct search *search, const struct cover_case *one) {
    for (int k = 0; k < search->ntuples; k++)
        *seen_of(search, &search->tuples[k], one) = 1;
}

/* The case that has one combination and is open otherwise; false if that cannot be. */
static bool start_with(const struct search *search, const struct tuple *tuple, size_t number, struct cover_case *one) {
    for (int p = 0; p < COVER_PARAMETERS_MAX; p++)
        one->value[p] = COVER_OPEN;
    for (int k = search->strength - 1; k >= 0; k--) {
        size_t nvalues = (size_t)search->cover->nvalues[tuple->parameter[k]];
        one->value[tuple->parameter[k]] = (int)(number % nvalues);
        number /= nvalues;
    }
    return search->cover->possible(one);
}

static void complete(const struct search *search, struct cover_case *one, size_t turn) {
    for (int p = 0; p < search->cover->nparameters; p++)
        if (one->value[p] == COVER_OPEN)
            choose_value(search, one, p, turn);
    mark(search, one);
}

/* ---- all cases ---- */

static void *get(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory == NULL)
        abort();
    return memory;
}

size_t cover_choose(const struct cover *cover, int strength, struct cover_case **cases_p) {
    struct search search = {.cover = cover, .strength = strength};
    int parameter[3];
    search.tuples = get(COVER_PARAMETERS_MAX * COVER_PARAMETERS_MAX * COVER_PARAMETERS_MAX, sizeof(*search.tuples));
    add_tuples(&search, parameter, 0, 0);
    search.seen = get(search.ncombinations, 1);
    struct cover_case *cases = get(search.ncombinations, sizeof(*cases)); /* at worst one each */
    size_t ncases = 0;
    for (int t = 0; t < search.ntuples; t++) {
        size_t end = t + 1 < search.ntuples ? search.tuples[t + 1].first : search.ncombinations;
        for (size_t number = 0; number < end - search.tuples[t].first; number++) {
            if (search.seen[search.tuples[t].first + number])
                continue;
            if (start_with(&search, &search.tuples[t], number, &cases[ncases])) {
                complete(&search, &cases[ncases], ncases);
                ncases++;
            }
        }
    }
    free(search.tuples);
    free(search.seen);
    *cases_p = cases;
    return ncases;
}

size_t cover_product(const struct cover *cover) {
    size_t product = 1;
    for (int p = 0; p < cover->nparameters; p++)
        product *= (size_t)cover->nvalues[p];
    return product;
}

bool cover_nth(const struct cover *cover, size_t number, struct cover_case *one) {
    for (int p = cover->nparameters - 1; p >= 0; p--) {
        one->value[p] = (int)(number % (size_t)cover->nvalues[p]);
        number /= (size_t)cover->nvalues[p];
    }
    return cover->possible(one);
}
