/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as text. The columns of the table are as wide as those of nccl-tests. A number that is too long for its column gets fewer
 * decimals: 12.34, 1234.5, 1234567, 1.2e+09.
 */
#include "perf.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

void format_number(double value, int width, char text[FORMAT_WIDTH]) {
    for (int decimals = 2; decimals >= 0; decimals--)
        if (snprintf(text, FORMAT_WIDTH, "%*.*f", width, decimals, value) <= width)
            return;
    snprintf(text, FORMAT_WIDTH, "%*.*e", width, width >= 7 ? 1 : 0, value);
}

void format_memory(double bytes, char text[FORMAT_WIDTH]) {
    static const char *const units[] = {"B", "KB", "MB", "GB"};
    size_t unit = 0;
    while (fabs(bytes) >= 1024 && unit < 3) {
        bytes /= 1024;
        unit++;
    }
    int decimals = fabs(bytes) < 10 ? 2 : fabs(bytes) < 100 ? 1 : 0;
    snprintf(text, FORMAT_WIDTH, "%.*f %s", decimals, bytes, units[unit]);
}

void format_time(char text[FORMAT_WIDTH]) {
    time_t now = time(NULL);
    struct tm local;
    strftime(text, FORMAT_WIDTH, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &local));
}

bool format_parse_size(const char *text, size_t *bytes) {
    static const struct {
        char letter, capital;
        double factor;
    } units[] = {{'\0', '\0', 1}, {'k', 'K', 1024}, {'m', 'M', 1024 * 1024}, {'g', 'G', 1024 * 1024 * 1024}};

    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value >= 0))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        bool named = *end == units[i].letter || *end == units[i].capital;
        bool last = *end == '\0' || end[1] == '\0';
        if (named && last && value * units[i].factor < 0x1p62) {
            *bytes = (size_t)(value * units[i].factor);
            return true;
        }
    }
    return false;
}
