/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/link.h"

#include "base/log.h"
#include "boot/patience.h"
#include "boot/process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#define LINKS_MAX 4096
#define PAUSE_NS 50000000ull /* maximum time until it dials again, if a connection broke before anything came by it */
#define LATE_ROUND 8         /* a link that does not stand after so many is worth a line in the log */

/* The letters between this process and another one. It stays until the tree is closed, whether it stands or not. */
struct peer_link {
    struct tree *tree;
    int place;          /* of the other process */
    struct edge *edges; /* the first one is in use; NULL: the link does not stand */
    int32_t serial;     /* number of the last connection */
    struct dial dial;
    uint64_t pause_ns;
    uint64_t deadline_ns;     /* of a question whether the process lives; 0: none */
    struct letter_queue kept; /* sent, but not confirmed */
    uint64_t sent, got;       /* number of letters sent so far, and received so far */
    uint64_t still_ns;        /* time since which the first letter of `kept` has waited, or the link has stood */
    uint64_t used_ns;
    struct peer_link *next;
};

/* Header of a letter on its way; the data follow. */
struct letter_head {
    int32_t to, from; /* ranks */
    uint64_t key, number;
};

/* ---------------------------------------------------------------------------------------------------- the process's list */

static bool is_idle(const struct peer_link *link) {
    return link->edges != NULL && link->kept.first == NULL && !link->dial.active;
}

static bool waits(const struct peer_link *link) {
    return link->edges == NULL && link->kept.first != NULL && !link->dial.active;
}

/* The one that was used least recently, of those of which this is true; NULL: there is none. */
static struct peer_link *oldest_that(bool (*is_so)(const struct peer_link *link)) {
    struct peer_link *oldest = NULL;
    for (struct peer_link *link = process_without_lock()->links; link != NULL; link = link->next)
        if (is_so(link) && (oldest == NULL || link->used_ns < oldest->used_ns))
            oldest = link;
    return oldest;
}

static bool close_idle(void) {
    struct peer_link *link = oldest_that(is_idle);
    if (link != NULL)
        edge_finish(link->edges);
    return link != NULL;
}

void links_open(void) {
    struct process *process = process_without_lock();
    if (process->spare == 0)
        OS_DESCRIPTOR(process->spare, eventfd(0, EFD_CLOEXEC));
    if (process->spare < 0)
        process->spare = 0;
}

bool links_make_room(void) {
    struct process *process = process_without_lock();
    if (close_idle())
        return true;
    if (process->spare == 0)
        return false;
    close(process->spare);
    process->spare = 0;
    return true;
}

/* May there be one more connection? */
static bool has_room(void) {
    struct rlimit limit;
    rlim_t count = 0, most = LINKS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max / 4 < most)
        most = limit.rlim_max / 4;
    for (const struct peer_link *link = process_without_lock()->links; link != NULL; link = link->next)
        count += link->edges != NULL || link->dial.active;
    return count < most || close_idle();
}

/* --------------------------------------------------------------------------------------------------------- connections */

static void send_letter(struct peer_link *link, const struct letter *letter) {
    const struct letter_head head = {letter->to, letter->from, letter->key, letter->number};
    wire_send(link->edges->wire, TREE_LETTER, &head, sizeof head, letter->data, letter->bytes);
}

static bool take_letter(struct peer_link *link, const struct edge *edge, const struct frame *frame) {
    const struct tree *tree = link->tree;
    struct letter_head head;
    const int nranks = tree->hub->nranks, *of_rank = tree->places.of_rank;
    if (frame->bytes < sizeof head)
        return false;
    memcpy(&head, frame->data, sizeof head);
    if (head.to < 0 || head.to >= nranks || of_rank[head.to] != tree->places.self || head.from < 0 ||
        head.from >= nranks || of_rank[head.from] != link->place || head.number > link->got)
        return false;
    if (head.number == link->got) {
        struct letter *letter =
            letter_create(head.to, head.from, head.key, frame->data + sizeof head, frame->bytes - sizeof head);
        if (letter == NULL) /* the connection ends, and the letter is sent anew */
            return false;
        link->got++;
        hub_deliver(tree->hub, letter);
    }
    wire_send(edge->wire, TREE_GOT, &link->got, sizeof link->got, NULL, 0);
    return true;
}

static bool take_got(struct peer_link *link, const struct frame *frame) {
    uint64_t got;
    if (frame->bytes != sizeof got)
        return false;
    memcpy(&got, frame->data, sizeof got);
    while (link->kept.first != NULL && link->kept.first->number < got)
        letter_free(letter_take(&link->kept));
    link->still_ns = os_now_ns();
    if (link->kept.first == NULL) /* who waits for that: a goodbye, or a link that needs this one's room */
        tree_changed(link->tree);
    return true;
}

static bool on_link_frame(struct edge *edge, const struct frame *frame) {
    struct peer_link *link = edge->owner;
    dial_stop(&link->dial);
    link->deadline_ns = link->pause_ns = 0;
    link->used_ns = os_now_ns();
    switch (frame->type) {
    case TREE_LETTER: return take_letter(link, edge, frame);
    case TREE_GOT: return take_got(link, frame);
    default: return false;
    }
}

static void on_link_lost(struct edge *edge, enum peer_state state, const char *why) {
    (void)state, (void)why;
    edge_destroy(edge);
    links_go_on(); /* its letters are kept, or another link has room now */
}

static struct edge template_of(struct peer_link *link) {
    return (struct edge){
        .place = link->place,
        .max_bytes = link->tree->like.max_bytes,
        .frame = on_link_frame,
        .lost = on_link_lost,
        .owner = link,
    };
}

/* The first edge has come: it replaces another one, and brings what is kept. */
static void stand(struct peer_link *link) {
    dial_stop(&link->dial);
    while (link->edges->next != NULL)
        edge_finish(link->edges->next);
    link->deadline_ns = 0;
    link->pause_ns = PAUSE_NS;
    link->still_ns = os_now_ns();
    link->used_ns = os_now_ns();
    for (const struct letter *letter = link->kept.first; letter != NULL; letter = letter->next)
        send_letter(link, letter);
}

static void seek(struct peer_link *link);

static void on_proven(struct dial *by, struct wire *wire) {
    struct peer_link *link = WATCH_OWNER(by, struct peer_link, dial);
    const struct edge like = template_of(link);
    struct edge *edge = edge_create(wire, &like, &link->edges);
    if (edge == NULL) {
        seek(link);
        return;
    }
    tree_say_hello(link->tree, edge, TREE_LINK, ++link->serial);
    stand(link);
    edge_read(edge);
}

static void on_round_failed(struct dial *by) {
    struct peer_link *link = WATCH_OWNER(by, struct peer_link, dial);
    char name[HUB_NAME_BYTES];
    if (by->exhausted)
        links_make_room();
    if (by->round != LATE_ROUND || link->kept.first == NULL)
        return;
    hub_name_rank(link->tree->hub, place_of(link->tree, link->place)->lowest_rank, name);
    log_warn(BOOT, "cannot connect to %s, for which there are letters: %s", name, by->trouble);
}

static void seek(struct peer_link *link) {
    const struct place *place = place_of(link->tree, link->place);
    SCOPED_KEY uint8_t key[SECRET_BYTES];
    place_key(link->tree, place, key);
    dial_start(&link->dial, &place->listener, key, link->pause_ns, on_proven, on_round_failed);
}

void links_go_on(void) {
    struct peer_link *link;
    while ((link = oldest_that(waits)) != NULL && has_room())
        seek(link);
}

/* ------------------------------------------------------------------------------------------------------------- for others */

/* The link to a process; NULL: no memory. */
static struct peer_link *link_to(struct tree *tree, int number) {
    struct place *place = place_of(tree, number);
    if (place->link != NULL || (place->link = patient_malloc(sizeof *place->link)) == NULL)
        return place->link;
    *place->link = (struct peer_link){.tree = tree, .place = number, .next = process_without_lock()->links};
    letter_queue_init(&place->link->kept);
    process_without_lock()->links = place->link;
    return place->link;
}

void link_post(struct tree *tree, struct letter *letter) {
    struct peer_link *link = link_to(tree, tree->places.of_rank[letter->to]);
    if (link == NULL) {
        letter_free(letter);
        hub_give_up(tree->hub, COLLET_ERR_NO_MEMORY, "no memory for the connections of the control plane");
        return;
    }
    letter->number = link->sent++;
    if (link->kept.first == NULL)
        link->still_ns = os_now_ns();
    letter_append(&link->kept, letter);
    link->used_ns = os_now_ns();
    if (link->edges != NULL)
        send_letter(link, letter);
    else
        links_go_on();
}

bool link_take(struct tree *tree, struct edge *edge, const struct frame *frame) {
    struct hello hello;
    if (!tree->known || !tree_read_hello(tree, frame, &hello))
        return false;
    struct peer_link *link = link_to(tree, hello.place);
    if (link == NULL || (link->edges != NULL && (hello.serial < link->serial ||
                                                 (hello.serial == link->serial && hello.place > tree->places.self))))
        return false;
    has_room();
    const struct edge like = template_of(link);
    edge_become(edge, &like, &link->edges);
    link->serial = hello.serial;
    stand(link);
    return true;
}

void link_read(struct tree *tree, int number) {
    struct peer_link *link = place_of(tree, number)->link;
    if (link != NULL && link->edges != NULL)
        edge_read_all(link->edges);
}

static void forget(struct peer_link *link) {
    if (link == NULL)
        return;
    dial_stop(&link->dial);
    if (link->edges != NULL)
        edge_finish(link->edges);
    link->deadline_ns = 0;
    letter_queue_clear(&link->kept);
}

void link_forget(struct tree *tree, int number) { forget(place_of(tree, number)->link); }

bool links_clear(const struct tree *tree) {
    for (const struct peer_link *link = process_without_lock()->links; link != NULL; link = link->next)
        if (link->tree == tree && link->kept.first != NULL)
            return false;
    return true;
}

void links_tidy(struct tree *tree, uint64_t idle_ns, uint64_t still_ns) {
    for (struct peer_link *link = process_without_lock()->links; link != NULL; link = link->next) {
        if (link->tree != tree || link->edges == NULL || link->dial.active)
            continue;
        if (link->kept.first != NULL && os_now_ns() - link->still_ns >= still_ns)
            seek(link);
        else if (link->kept.first == NULL && edge_silence_ns(link->edges) >= idle_ns)
            forget(link);
    }
    links_open();
    links_go_on();
}

void links_close(struct tree *tree) {
    for (struct peer_link **at = &process_without_lock()->links, *link; (link = *at) != NULL;) {
        if (link->tree != tree) {
            at = &link->next;
            continue;
        }
        forget(link);
        *at = link->next;
        free(link);
    }
}

void link_ask(struct tree *tree, int number, uint64_t deadline_ns) {
    struct peer_link *link = link_to(tree, number);
    if (link == NULL || link->deadline_ns != 0)
        return;
    link->deadline_ns = deadline_ns;
    link->used_ns = os_now_ns();
    if (!link->dial.active)
        seek(link);
}

enum peer_state link_verdict(const struct tree *tree, int number, const char **why) {
    const struct peer_link *link = place_of(tree, number)->link;
    if (link == NULL || link->deadline_ns == 0)
        return PEER_ALIVE;
    *why = link->dial.trouble;
    if (dial_refused_ns(&link->dial) > DIAL_GONE_NS)
        return PEER_DEAD;
    return os_now_ns() > link->deadline_ns ? PEER_LOST : PEER_ALIVE;
}
