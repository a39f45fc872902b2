/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that is replaced as a whole.
 */
#include "layers/outlet/outlet.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS 4

static char page_path[64];

static void *replace_pages(void *failed) {
    char page[4096];
    memset(page, 'x', sizeof(page));
    for (int k = 0; k < 500; k++)
        if (!outlet_replace(page_path, page, sizeof(page), 60000))
            __atomic_fetch_add((int *)failed, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void threads_replace_one_file_and_nobody_reads_half_of_it(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    int failed = 0;
    struct stat status;
    snprintf(page_path, sizeof(page_path), "/tmp/collet-test-page-%d", getpid());
    replace_pages(&failed);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, replace_pages, &failed), 0);
    for (int k = 0; k < 1000; k++)
        assert_true(stat(page_path, &status) == 0 && status.st_size == 4096);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(failed, 0);
    assert_int_equal(unlink(page_path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_replace_one_file_and_nobody_reads_half_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
