/* SPDX-License-Identifier: Apache-2.0
 *
 * Each host's clock has its own zero. A rank asks rank 0 several times for its time; rank 0's watch answers.
 *
 *      here     asked ●───────────────────────● heard          rank 0's clock − ours ≈ now − (asked + heard) / 2,
 *                      ╲                     ╱                 wrong by half the round trip at most:
 *      rank 0           ╲───────● now ──────╱                  the shortest round trip counts
 */
#include "boot/hub.h"

#include "base/err.h"
#include "base/os.h"
#include "layers/observe/clock.h"
#include "layers/observe/status.h"

#define CLOCK_ROUNDS 8

static void clock_hear(struct boot_clock *clock, uint64_t now_there_ns) {
    const uint64_t heard_ns = os_now_ns(), round_trip_ns = heard_ns - clock->asked_ns;
    if (clock->rounds++ == 0 || round_trip_ns < clock->round_trip_ns) {
        clock->round_trip_ns = round_trip_ns;
        clock->add_ns = (int64_t)(now_there_ns - (clock->asked_ns + round_trip_ns / 2));
    }
    clock->asked_ns = 0;
}

enum collet_result boot_try_clock(struct boot *boot) {
    struct boot_clock *clock = &boot->clock;
    struct status_answer answer;
    const struct peer_info *peers = boot->hub->peers;
    if (clock->rounds == CLOCK_ROUNDS || peers[boot->rank].node == peers[0].node)
        return COLLET_SUCCESS;
    if (clock->asked_ns == 0) {
        clock->asked_ns = os_now_ns();
        COLLET_TRY(status_ask(boot, 0, &clock->question));
    }
    enum collet_result result = status_try_answer(boot, 0, clock->question, &answer);
    if (result == COLLET_IN_PROGRESS)
        return boot_check_wait(boot, NULL, 0, boot->deadline_ns, "say what time it is there");
    COLLET_TRY(result);
    clock_hear(clock, answer.now_ns);
    return clock->rounds == CLOCK_ROUNDS ? COLLET_SUCCESS : COLLET_IN_PROGRESS;
}

int64_t boot_clock_ns(const struct boot *boot) { return boot->clock.add_ns; }
