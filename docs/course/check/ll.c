/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict of lab 6. What does a reader see while a writer writes? Not the stores in their order: a CPU or a GPU may show
 * them in any. So each store gets a moment at which it shows: before the reader's first load, before its second, …, or after
 * its last. All combinations are tried:
 *
 *      the reader's loads       1    2    3    4               3 stores and 4 loads: 5 · 5 · 5 = 125 ways to be seen
 *      store to line 0               ▲                         (it shows from load 2 on)
 *      store to line 1          ▲
 *      store to line 2                         (later) ▲
 */
#include "check/ll.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 3, LINES = 2 * WORDS, STORES_MAX = 8, LOADS_MAX = 16 };

static struct {
    int line, shows; /* shows: before the load of this number */
    uint64_t value;
} stores[STORES_MAX];
static int nstores, nloads;
static bool writing, overrun;
static uint64_t before[LINES]; /* what lines had before this round */

void store_line(int line, uint64_t value) {
    if (line < 0 || line >= LINES || nstores == STORES_MAX || !writing) {
        overrun = true;
        return;
    }
    stores[nstores].line = line;
    stores[nstores++].value = value;
}

uint64_t load_line(int line) {
    if (line < 0 || line >= LINES || nloads == LOADS_MAX) {
        overrun = true;
        return 0;
    }
    uint64_t value = before[line];
    for (int s = 0; s < nstores; s++)
        if (stores[s].line == line && stores[s].shows <= nloads)
            value = stores[s].value;
    nloads++;
    return value;
}

static int complain(const char *what, uint32_t round, const uint32_t *words, const uint32_t *got) {
    printf("round %u: %s\n", round, what);
    for (int s = 0; s < nstores; s++)
        printf("    store %d, to line %d, shows %s%d\n", s, stores[s].line, "before load ", stores[s].shows);
    for (int w = 0; w < WORDS && got != NULL; w++)
        printf("    word %d: sent %08x, got %08x%s\n", w, words[w], got[w], words[w] == got[w] ? "" : "  <─");
    return 0;
}

/* One way in which the stores show. */
static int look_once(uint32_t round, const uint32_t *words) {
    uint32_t got[WORDS];
    bool all_show = true;
    for (int s = 0; s < nstores; s++)
        all_show = all_show && stores[s].shows == 0;
    memset(got, 0xee, sizeof got);
    nloads = 0;
    int there = lab_get(got, WORDS, round);
    if (overrun)
        return complain("a line, or a number of stores or loads, is out of bounds", round, words, NULL);
    if (there && memcmp(got, words, sizeof got) != 0)
        return complain("get() said 1, but the words are not those that were sent", round, words, got);
    if (!there && all_show)
        return complain("get() said 0, but all stores show", round, words, NULL);
    return 1;
}

static int look_at_all_ways(uint32_t round, const uint32_t *words, int *ways) {
    for (int s = 0; s < nstores; s++)
        stores[s].shows = 0;
    for (;;) {
        ++*ways;
        if (!look_once(round, words))
            return 0;
        int s = 0, most = 2 * WORDS + 1;
        while (s < nstores && stores[s].shows == most)
            stores[s++].shows = 0;
        if (s == nstores)
            return 1;
        stores[s].shows++;
    }
}

static int run_round(uint32_t round, int *ways) {
    uint32_t words[WORDS] = {round, 0, round * 2654435761u};
    writing = true;
    nstores = 0;
    lab_put(words, WORDS, round);
    writing = false;
    if (overrun)
        return complain("put() stored to a line that there is not, or too often", round, words, NULL);
    if (!look_at_all_ways(round, words, ways))
        return 0;
    for (int s = 0; s < nstores; s++)
        before[stores[s].line] = stores[s].value;
    return 1;
}

int main(void) {
    static const uint32_t rounds[] = {1, 2, 3, 4, 0x7fffffff, 0x80000000, 0xffffffff};
    int ways = 0;
    printf("lab 6: words and flags in one store\n\n");
    for (size_t k = 0; k < sizeof rounds / sizeof *rounds; k++) {
        uint32_t old[WORDS];
        nstores = nloads = 0;
        if (lab_get(old, WORDS, rounds[k]) != 0) {
            printf("round %u: get() said 1 before put() was called\n", rounds[k]);
            overrun = true;
        }
        if (overrun || !run_round(rounds[k], &ways)) {
            printf("\nnot yet. HINT=1 gives a hint.\n");
            return 1;
        }
    }
    printf("%d ways in which stores may show: get() never took a wrong word\n\npassed\n", ways);
    return 0;
}
