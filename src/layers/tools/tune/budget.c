/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/tools/tune/budget.h"

#include <stdarg.h>

#define SAY_NS 2000000000ull

static double passed(const struct budget *budget, uint64_t now_ns) { return (double)(now_ns - budget->began_ns) / 1e9; }

bool budget_is_over(const struct budget *budget) {
    return budget->seconds > 0 && passed(budget, budget->now_ns()) > budget->share * budget->seconds;
}

double budget_left(const struct budget *budget) { return budget->seconds - passed(budget, budget->now_ns()); }

void budget_say(struct budget *budget, bool now, const char *format, ...) {
    uint64_t now_ns = budget->now_ns();
    va_list args;
    if (budget->out == NULL || (!now && now_ns < budget->said_ns + SAY_NS))
        return;
    budget->said_ns = now_ns;
    fprintf(budget->out, "%5.1f s: ", passed(budget, now_ns));
    va_start(args, format);
    vfprintf(budget->out, format, args);
    va_end(args);
    fprintf(budget->out, "\n");
    fflush(budget->out);
}
