/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/window_meet.h"

#include "base/memory.h"
#include "layers/elastic/oob_allgather.h"

#include <string.h>
#include <unistd.h>

struct window_meeting window_meeting_begin(struct chan *chan) {
    return (struct window_meeting){.chan = chan, .waiter = chan->patience, .listener = -1};
}

void window_meeting_end(struct window_meeting *meeting) {
    if (meeting->listener >= 0)
        close(meeting->listener);
    meeting->listener = -1;
}

/* While a rank waits, others may come for its descriptor. */
static void give_and_pause(struct window_meeting *meeting) {
    while (meeting->listener >= 0 && hand_over_give(meeting->listener, meeting->given) != COLLET_IN_PROGRESS)
        ;
    wait_pause(&meeting->waiter);
}

enum collet_result window_agree(struct window_meeting *meeting, const char *call, const void *entry, size_t entry_bytes,
                                void *table) {
    const struct conn_owner *owner = &meeting->chan->owner;
    struct oob_allgather allgather = {0};
    SCOPED_FREE int *ranks = NULL;
    COLLET_TRY(memory_get(&ranks, (size_t)owner->nranks, sizeof *ranks, "no memory for %d ranks", owner->nranks));
    for (int rank = 0; rank < owner->nranks; rank++)
        ranks[rank] = rank;
    const struct oob_allgather_terms terms = {.boot = owner->boot,
                                              .key = boot_key(BOOT_WINDOW, ++meeting->chan->window_meetings),
                                              .ranks = ranks,
                                              .nranks = owner->nranks,
                                              .self = owner->rank,
                                              .entry_bytes = entry_bytes,
                                              .call = call,
                                              .timeout_s = (int)((meeting->chan->timeout_ms + 999) / 1000)};
    enum collet_result result = oob_allgather_start(&allgather, &terms, entry);
    if (result == COLLET_SUCCESS)
        while ((result = oob_allgather_try(&allgather)) == COLLET_IN_PROGRESS)
            give_and_pause(meeting);
    if (result == COLLET_SUCCESS)
        memcpy(table, allgather.table, (size_t)owner->nranks * entry_bytes);
    oob_allgather_fini(&allgather);
    meeting->deadline_ns = os_now_ns() + (uint64_t)meeting->chan->timeout_ms * 1000000u;
    return result;
}

enum collet_result window_give(struct window_meeting *meeting, int fd, char name[HAND_OVER_NAME_BYTES]) {
    window_meeting_end(meeting);
    meeting->given = fd;
    return hand_over_listen(name, &meeting->listener);
}

enum collet_result window_take(struct window_meeting *meeting, const char name[HAND_OVER_NAME_BYTES], int *fd_p) {
    int socket;
    COLLET_TRY(hand_over_connect(name, &socket));
    enum collet_result result;
    while ((result = hand_over_take(socket, fd_p)) == COLLET_IN_PROGRESS) {
        give_and_pause(meeting);
        result = os_now_ns() < meeting->deadline_ns ? boot_check(meeting->chan->owner.boot)
                                                    : err_set(COLLET_ERR_TIMEOUT, "no descriptor came in time");
        if (result != COLLET_SUCCESS)
            break;
    }
    close(socket);
    return result;
}
