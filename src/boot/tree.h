/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree over a communicator's processes, as one of them sees it: its place, its edges, and the news that neighbours tell each other.
 * The processes stand in the order of their lowest ranks, and form a tree of arity 8:
 *
 *                        0
 *          ┌────┬────┬───┴┬────┬────┬────┬────┐
 *          1    2    3    4    5    6    7    8         each dials its parent's door and proves the id's secret
 *       ┌──┴─…         (9 … 16 below 1, 17 … 24 below 2, and so on)
 *
 * News (a rank left, a rank died, the communicator failed) goes to all neighbours. They pass on what is new to them, so the spreading
 * ends.
 *
 * One idea a file, calls only downwards. All of it belongs to the watch thread:
 *
 *      tree_serve.h    opens, links and closes the tree; takes the frames of its edges; hands the table down
 *      losses.h        finds lost processes by their silence, and gives their children new parents
 *      link.h          letters, on connections of their own
 *      tree.h          this file
 */
#ifndef COLLET_BOOT_TREE_H
#define COLLET_BOOT_TREE_H

#include "base/os.h"
#include "boot/dial.h"
#include "boot/door.h"
#include "boot/edge.h"
#include "boot/hub.h"
#include "boot/table.h"

/* ---- places: which process stands where, and which to connect to. Only arithmetic ---- */

#define TREE_ARITY 8

/* A process. Its number (place) counts processes by lowest rank, so rank 0 is in place 0. The parent of place p is (p−1) / 8. */
struct place {
    int lowest_rank, pid;
    uint64_t process[2];
    struct address_set listener;
    struct edge *edge;      /* edge of the tree; NULL: not connected */
    struct peer_link *link; /* letters to it, and of it (link.h); NULL: none yet */
    bool gone;              /* do not connect to it any more */
    uint64_t awaited_ns;    /* time since which it should connect to us; 0: it need not */
    uint64_t accuses_ns;    /* time since which it says that its parent is lost, to which we have an edge; 0: never */
};

struct places {
    struct arena arena; /* owns the arrays */
    int count, self;
    struct place *list;
    int *of_rank;
};

/* Creates the places of all ranks' processes. */
enum collet_result places_create(struct places *places, const struct card *cards, int nranks);
/* Creates the places from this process's seat, which has their number and the parent. */
enum collet_result places_create_seat(struct places *places, const struct seat *seat, int nranks);
/* Fills in the rest from the table. REMOTE, without a text: the table contradicts the seat, or what connected processes said.
 * NO_MEMORY. */
enum collet_result places_fill(struct places *places, const struct card *cards, int nranks);
void places_destroy(struct places *places); /* does nothing if zeroed */

/* The original parent of a place; −1: it is the root. */
int places_parent(int place);

/* The parent of a place if some places are gone: its nearest ancestor that is not gone; if all are, the lowest place before it that
 * is not gone. −1: it is the root. */
int places_choose_parent(const struct places *places, int of);

/* Are the edges to all children connected? A child that has already left counts too. */
bool places_children_connected(const struct places *places);

/* ---- the tree ---- */

struct tree {
    struct hub *hub;
    struct door door; /* accepts children */
    struct dial dial; /* dials the parent, while it is not connected */
    struct places places;
    int parent;                    /* place of the parent, connected or dialled; −1: this is the root */
    uint64_t orphan_ns;            /* time since which the parent is not connected; 0: it is, or never was */
    struct edge *edges;            /* all edges, also before their HELLO */
    struct edge like;              /* template of every edge: the functions for its frames and for its end */
    struct table table;            /* all ranks; freed when init is complete */
    bool known;                    /* all its cards have come */
    bool running;                  /* init is complete: from now on a lost process is a death, not a failed init */
    struct watch_timer lost_early; /* the parent was lost before the table was known; and why */
    char why_lost_early[ERR_TEXT_BYTES];
    struct watch_timer beat;
    uint64_t beat_ns, silence_ns; /* COLLET_HEARTBEAT, COLLET_HEARTBEAT_TIMEOUT (0: never, as on one host) */
    uint64_t beaten_ns;           /* time of the last beat */
};

enum tree_frame {
    TREE_HELLO = 1, /* struct hello: the first frame toward the parent */
    TREE_LINK,      /* struct hello: the first frame on a link (link.h) */
    TREE_STATE,     /* struct state_news */
    TREE_FAIL,      /* struct failure */
    TREE_LETTER,    /* on a link: struct letter_head, and a letter's data */
    TREE_GOT,       /* on a link: uint64_t, the number of letters that have come so far */
    /* further types: the parts of the table (enum table_frame) */
};

/* The first frame on an edge, and on a link. */
struct hello {
    int32_t place, serial; /* serial: number of a link's connection; 0 on an edge */
    uint64_t process[2];
};

/* What has become of a rank. */
struct state_news {
    int32_t rank, state;
    uint64_t calls; /* see hub->last_calls */
};

/* ---- places ---- */

static inline int node_of(const struct tree *tree, int place) {
    return tree->hub->peers[tree->places.list[place].lowest_rank].node;
}
static inline bool is_on_our_host(const struct tree *tree, int place) {
    return node_of(tree, place) == node_of(tree, tree->places.self);
}
static inline struct place *place_of(const struct tree *tree, int number) { return &tree->places.list[number]; }
/* The key of that process's door. */
static inline void place_key(const struct tree *tree, const struct place *place, uint8_t key[SECRET_BYTES]) {
    id_key(tree->hub->secret, "tree", place->process, sizeof place->process, key);
}
/* The work task looks what there is to do. */
static inline void tree_changed(const struct tree *tree) { watch_post(tree->hub->work); }

int tree_parent_rank(const struct tree *tree); /* lowest rank of the process that is being dialled */

/* ---- edges ---- */

/* Makes an edge of a proven wire. place −1: its HELLO will say. NULL: no memory. Call edge_read() next. */
struct edge *tree_add_edge(struct tree *tree, struct wire *wire, int place);
/* A new edge: both ends send everything they know. A process that the others have lost knows nothing about them. */
void tree_edge_up(struct tree *tree, struct edge *edge);
/* Watches a neighbour's process, if it is on this host. (Nodes are known now.) */
void tree_watch_neighbour(struct tree *tree, struct edge *edge);
/* Stops using an edge. The other end closes it when it knows why. If it were closed here, that end might take us for dead. */
void tree_forsake(struct edge *edge);

/* ---- news: to all neighbours, but not to `except` ---- */

void tree_say_hello(struct tree *tree, struct edge *edge, enum tree_frame type, int32_t serial);
/* False: it is nonsense. If the table is known, it is checked that this process has that place. */
bool tree_read_hello(const struct tree *tree, const struct frame *frame, struct hello *hello);
void tree_spread(struct tree *tree, enum tree_frame type, const void *news, size_t bytes, const struct edge *except);
void tree_spread_state(struct tree *tree, int rank, enum peer_state state, const struct edge *except);
void tree_spread_failure(struct tree *tree);

#endif
