/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/gpu/window_team.h"

#include "base/log.h"
#include "base/memory.h"
#include "transport/ipc/gpu_peers.h"
#include "transport/transport.h"

#include <string.h>
#include <unistd.h>

uint64_t window_team_bytes(const struct conn_owner *owner, const struct gpu_buffer *buffer) {
    const bool has_descriptor = buffer != NULL && buffer->is_named && buffer->name.fd >= 0;
    if (owner->nranks < 2 || owner->config->nvls_enable == 0 || !has_descriptor ||
        !gpu_can_team(owner->gpu->driver, owner->gpu->ordinal))
        return 0;
    for (int rank = 0; rank < owner->nranks; rank++)
        if (rank != owner->rank && (!gpu_peer_is_near(owner, rank) ||
                                    transport_shares_device(&owner->peers[rank], &owner->peers[owner->rank])))
            return 0;
    return buffer->name.bytes;
}

/* ---- making one ---- */

struct making {
    struct window_meeting *meeting;
    const struct gpu_buffer *buffer;
    struct gpu_team *team;
    uint64_t bytes;
    int fd;                          /* rank 0: the team's descriptor; −1: there is none yet */
    char name[HAND_OVER_NAME_BYTES]; /* name of the socket at which rank 0 gives the descriptor */
};

/* What a rank says when it has done a stage. */
struct stage_card {
    int32_t could;
    char name[HAND_OVER_NAME_BYTES];
};

static enum collet_result team_creation(struct making *making) {
    const struct conn_owner *owner = &making->meeting->chan->owner;
    if (owner->rank != 0)
        return COLLET_SUCCESS;
    COLLET_TRY(owner->gpu->driver->teams->create(owner->nranks, making->bytes, making->team, &making->fd));
    return window_give(making->meeting, making->fd, making->name);
}

static enum collet_result team_joining(struct making *making) {
    const struct conn_owner *owner = &making->meeting->chan->owner;
    const struct gpu_teams *teams = owner->gpu->driver->teams;
    int fd;
    if (owner->rank != 0) {
        COLLET_TRY(window_take(making->meeting, making->name, &fd));
        const enum collet_result result = teams->open(fd, making->bytes, making->team);
        close(fd);
        COLLET_TRY(result);
    }
    return teams->join(making->team);
}

static enum collet_result team_binding(struct making *making) {
    const struct gpu_teams *teams = making->meeting->chan->owner.gpu->driver->teams;
    return teams->bind(making->team, making->buffer->memory, making->buffer->name.bytes);
}

static enum collet_result team_mapping(struct making *making) {
    return making->meeting->chan->owner.gpu->driver->teams->map(making->team);
}

/* Does this rank's part of a stage. Then hears whether all ranks have done their parts. */
static enum collet_result do_stage(struct making *making, enum collet_result (*stage)(struct making *making),
                                   bool *all_p) {
    const struct conn_owner *owner = &making->meeting->chan->owner;
    struct stage_card mine = {0};
    SCOPED_FREE struct stage_card *cards = NULL;
    COLLET_TRY(memory_get(&cards, (size_t)owner->nranks, sizeof *cards, "no memory for %d ranks", owner->nranks));
    struct gpu_scope scope = owner->gpu->driver->enter(owner->gpu->ordinal);
    mine.could = stage(making) == COLLET_SUCCESS;
    owner->gpu->driver->leave(scope);
    if (!mine.could)
        log_info(CONN, "rank %d: switches will not sum this window: %s", owner->rank, err_last());
    memcpy(mine.name, making->name, sizeof mine.name);
    COLLET_TRY(window_agree(making->meeting, "collet_win_register()", &mine, sizeof mine, cards));
    for (int rank = 0; rank < owner->nranks; rank++)
        *all_p &= cards[rank].could != 0;
    memcpy(making->name, cards[0].name, sizeof making->name);
    return COLLET_SUCCESS;
}

enum collet_result window_team_make(struct window_meeting *meeting, const struct gpu_buffer *buffer, uint64_t bytes,
                                    struct gpu_team *team) {
    enum collet_result (*const stages[])(struct making *) = {team_creation, team_joining, team_binding, team_mapping};
    struct making making = {.meeting = meeting, .buffer = buffer, .team = team, .bytes = bytes, .fd = -1};
    enum collet_result result = COLLET_SUCCESS;
    bool all = true;
    for (size_t k = 0; k < sizeof stages / sizeof *stages && all && result == COLLET_SUCCESS; k++)
        result = do_stage(&making, stages[k], &all);
    window_meeting_end(meeting);
    if (making.fd >= 0)
        close(making.fd);
    if (!all || result != COLLET_SUCCESS)
        window_team_end(&meeting->chan->owner, team);
    return result;
}

void window_team_end(const struct conn_owner *owner, struct gpu_team *team) {
    if (team->object == 0)
        return;
    GPU_ENTERED(owner->gpu->driver, owner->gpu->ordinal);
    owner->gpu->driver->teams->end(team);
}

/* ---- what blocks know ---- */

#define PLACE_SHIFT 48 /* no buffer is longer than 2^48 bytes */

struct loan_team window_team_note(const struct gpu_team *team, const struct gpu_buffer *buffer, uint32_t number) {
    if (team->address == NULL)
        return (struct loan_team){0, 0};
    const uint64_t base = (uint64_t)(uintptr_t)buffer->memory;
    return (struct loan_team){.add = (uint64_t)(uintptr_t)team->address - base,
                              .place = ((uint64_t)number << PLACE_SHIFT) - base};
}
