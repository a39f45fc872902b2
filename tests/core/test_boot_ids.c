/* SPDX-License-Identifier: Apache-2.0
 *
 * What processes must know to find each other: unique ids and the secrets in them, which interfaces they use, and when they dial.
 */
#include "base/config_read.h"
#include "boot/dial.c"
#include "common/boot_case.h"

#include <sodium.h>

static void bad_arguments_are_named(void **state) {
    (void)state;
    struct collet_unique_id id = {{0}};
    struct config config;
    struct boot *boot = NULL;
    assert_int_equal(config_read(&config), COLLET_SUCCESS);
    assert_int_equal(boot_join(&id, 2, 0, &on_host, &config, &boot), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "not a unique id"));
    assert_int_equal(boot_unique_id_at("127.0.0.1", 29500, "x", &id), COLLET_SUCCESS);
    assert_int_equal(boot_join(&id, 0, 0, &on_host, &config, &boot), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "nranks is 0"));
    assert_int_equal(boot_join(&id, 2, 2, &on_host, &config, &boot), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "rank is 2"));
    id.bytes[100] ^= 1;
    assert_int_equal(boot_join(&id, 2, 0, &on_host, &config, &boot), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "damaged"));
    assert_int_equal(boot_unique_id_at("127.0.0.1", 0, NULL, &id), COLLET_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err_last(), "port is 0"));
    assert_null(boot);
}

static void each_restart_of_a_slurm_job_has_a_secret_of_its_own(void **state) {
    (void)state;
    struct collet_unique_id first, same, next;
    assert_int_equal(boot_unique_id_at("127.0.0.1", 29500, "x", &first), COLLET_SUCCESS);
    assert_int_equal(boot_unique_id_at("127.0.0.1", 29500, "x", &same), COLLET_SUCCESS);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    assert_int_equal(boot_unique_id_at("127.0.0.1", 29500, "x", &next), COLLET_SUCCESS);
    unsetenv("SLURM_RESTART_COUNT");
    assert_memory_equal(&first, &same, sizeof(first));
    assert_memory_not_equal(&first, &next, sizeof(first));
}

/* docs/security.md has the numbers: they are what a guess costs. */
static void a_secret_is_stretched_before_it_is_used(void **state) {
    (void)state;
    static const char text[] = "the secret of this job", where[] = "127.0.0.1:29500/";
    uint8_t salt[crypto_pwhash_SALTBYTES], expected[SECRET_BYTES];
    struct collet_unique_id unique;
    struct id id;
    crypto_generichash(salt, sizeof salt, (const uint8_t *)where, strlen(where), NULL, 0);
    assert_int_equal(
        crypto_pwhash(expected, sizeof expected, text, strlen(text), salt, 2, 16 << 20, crypto_pwhash_ALG_ARGON2ID13),
        0);
    assert_int_equal(boot_unique_id_at("127.0.0.1", 29500, text, &unique), COLLET_SUCCESS);
    assert_int_equal(id_unpack(&unique, &id), COLLET_SUCCESS);
    assert_memory_equal(id.secret, expected, sizeof expected);
    assert_null(memmem(&unique, sizeof unique, text, 8));
}

static void jobs_with_one_secret_have_keys_of_their_own(void **state) {
    (void)state;
    static const char text[] = "the secret of this job";
    static const struct {
        const char *host, *text;
        int port;
    } jobs[] = {{"127.0.0.1", text, 29500},
                {"127.0.0.1", text, 29501},
                {"127.0.0.2", text, 29500},
                {"127.0.0.1", "another", 29500}};
    enum { JOBS = sizeof jobs / sizeof *jobs, KEYS = 3 * JOBS + 3 };
    uint8_t keys[KEYS][SECRET_BYTES];
    for (int k = 0; k <= JOBS; k++) { /* the last one has an id that is random */
        struct collet_unique_id unique;
        struct id id;
        if (k < JOBS)
            assert_int_equal(boot_unique_id_at(jobs[k].host, jobs[k].port, jobs[k].text, &unique), COLLET_SUCCESS);
        else
            assert_int_equal(boot_unique_id_fresh(true, &unique), COLLET_SUCCESS);
        assert_int_equal(id_unpack(&unique, &id), COLLET_SUCCESS);
        memcpy(keys[3 * k], id.secret, SECRET_BYTES);
        id_key(id.secret, "meeting point", NULL, 0, keys[3 * k + 1]);
        id_key(id.secret, "tree", "a process", 9, keys[3 * k + 2]);
    }
    for (int a = 0; a < KEYS; a++)
        for (int b = 0; b < a; b++)
            assert_memory_not_equal(keys[a], keys[b], SECRET_BYTES);
}

static void interfaces_are_chosen_by_their_names(void **state) {
    (void)state;
    assert_true(address_interface_allowed("", "eth0"));
    assert_true(address_interface_allowed("ib,eth", "eth0"));
    assert_false(address_interface_allowed("ib", "eth0"));
    assert_false(address_interface_allowed("=eth", "eth0"));
    assert_true(address_interface_allowed("=lo,eth0", "eth0"));
    assert_true(address_interface_allowed("^docker,lo", "eth0"));
    assert_false(address_interface_allowed("^docker,lo", "docker0"));
    assert_true(address_interface_allowed("^=docker", "docker0"));

    char host[ADDRESS_HOST_BYTES];
    int port;
    assert_int_equal(address_parse("X", "[::1]:80", host, &port), COLLET_SUCCESS);
    assert_string_equal(host, "::1");
    assert_int_equal(port, 80);
    assert_int_equal(address_parse("X", "node7:29500", host, &port), COLLET_SUCCESS);
    assert_string_equal(host, "node7");
    assert_int_equal(port, 29500);
    assert_int_equal(address_parse("X", "node7", host, &port), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(address_parse("X", "node7:0x1", host, &port), COLLET_ERR_INVALID_USAGE);
    assert_int_equal(address_parse("X", ":1", host, &port), COLLET_ERR_INVALID_USAGE);
}

/* Of ten thousand processes that begin, or fail, at the same moment. */
static void dials_come_at_times_that_chance_spreads(void **state) {
    (void)state;
    enum { DIALS = 10000, PARTS = 10 };
    const uint64_t ms = 1000000, spread_ns = 500 * ms;
    for (int round = -1; round < 12; round++) {
        const uint64_t pause_ns = round < 5 ? 10 * ms << (round < 0 ? 0 : round) : 320 * ms;
        const uint64_t first_ns = round < 0 ? 0 : pause_ns / 2, length_ns = round < 0 ? spread_ns : pause_ns;
        uint64_t chance = 88172645463325252ull;
        int in_part[PARTS] = {0};
        for (int k = 0; k < DIALS; k++) {
            chance = chance * 6364136223846793005ull + 1442695040888963407ull;
            const uint64_t ns = round < 0 ? dial_first_ns(spread_ns, chance) : dial_pause_ns(round, chance);
            assert_true(ns >= first_ns && ns < first_ns + length_ns);
            in_part[(ns - first_ns) * PARTS / length_ns]++;
        }
        for (int part = 0; part < PARTS; part++)
            assert_in_range(in_part[part], DIALS / PARTS * 8 / 10, DIALS / PARTS * 12 / 10);
    }
    assert_int_equal(dial_first_ns(0, 7), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(each_restart_of_a_slurm_job_has_a_secret_of_its_own),
        cmocka_unit_test(a_secret_is_stretched_before_it_is_used),
        cmocka_unit_test(jobs_with_one_secret_have_keys_of_their_own),
        cmocka_unit_test(interfaces_are_chosen_by_their_names),
        cmocka_unit_test(dials_come_at_times_that_chance_spreads),
    };
    return cmocka_run_group_tests_name("boot: ids", tests, NULL, NULL);
}
