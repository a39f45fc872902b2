/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of a communicator tell each other over the control plane once it stands. Real ranks say it to each other, and
 * somebody in between changes bytes:
 *
 *      rank 0 ◀── letters ── changed ── letters ──▶ rank 1, rank 2           all in this thread
 *
 *      surveys (topo/probe/survey.h), agreements (layers/elastic/oob_allgather.h), agreements (layers/elastic/agreement.h), offers of shared memory (transport/shm.c) and of
 *      sockets (transport/tcp_link.c), and what a rank says that it does (layers/observe/inquest.c, exec/exec_compare.c)
 */
#include "layers/observe/inquest.c"

#include "base/config_read.h"
#include "common/local_boots.h"
#include "fuzz.h"

#include "layers/elastic/oob_allgather.h"
#include "layers/elastic/agreement.h"
#include "boot/hub.h"
#include "topo/probe/survey.c"
#include "transport/tcp_end.h"
#include "transport/transport.h"

#define RANKS 3
#define LETTERS_MOST 64

struct job {
    struct config configs[RANKS];
    struct boot *boots[RANKS];
    struct peer_info *peers;
};

static void job_begin(struct job *job) {
    struct config config;
    if (config_read(&config) != COLLET_SUCCESS)
        abort();
    strcpy(config.transport, "shm,tcp");
    strcpy(config.cpu_distance, "near"); /* or else it is measured */
    for (int rank = 0; rank < RANKS; rank++)
        job->configs[rank] = config;
    if (boot_join_local(RANKS, NULL, job->configs, job->boots) != COLLET_SUCCESS)
        abort();
    for (int rank = 0; rank < RANKS; rank++)
        if (boot_try_init(job->boots[rank]) != COLLET_SUCCESS)
            abort();
    job->peers = job->boots[0]->hub->peers;
}

static void job_end(struct job *job) {
    for (int rank = 0; rank < RANKS; rank++)
        boot_destroy(job->boots[rank]);
}

/* Takes what is under way, and sends it on with bytes changed, or shorter, or not. */
static void tamper(struct job *job, int from, int to, uint64_t key, struct fuzz_input *input) {
    static char data[LETTERS_MOST][BOOT_MESSAGE_BYTES];
    size_t bytes[LETTERS_MOST];
    int n = 0;
    while (n < LETTERS_MOST &&
           boot_try_recv(job->boots[to], from, key, data[n], BOOT_MESSAGE_BYTES, &bytes[n]) == COLLET_SUCCESS)
        n++;
    for (int k = 0; k < n; k++) {
        const uint8_t kind = fuzz_byte(input);
        if (bytes[k] > 0 && kind & 1)
            fuzz_patch(input, data[k], bytes[k]);
        if (kind & 2)
            bytes[k] -= fuzz_byte(input) % (bytes[k] + 1);
        if (!(kind & 4))
            (void)boot_send(job->boots[from], to, key, data[k], bytes[k]);
    }
}

/* ---- the survey: rank 1 looks at a node of its own for itself and rank 2 ---- */

static void with_surveys(struct job *job, struct fuzz_input *input) {
    struct survey *surveys[RANKS];
    const uint8_t kind = fuzz_byte(input);
    job->peers[1].node = job->peers[2].node = 1;
    for (int rank = 0; rank < RANKS; rank++)
        if (survey_begin(job->boots[rank], &job->configs[rank], "", RANKS, rank, &surveys[rank]) != COLLET_SUCCESS)
            abort();
    if (kind & 1)
        tamper(job, 2, 1, boot_key(BOOT_PLACE, 0), input);
    for (int k = 0; k < 2 * RANKS; k++) {
        struct map *map;
        const int rank = (k + 1) % RANKS; /* 1, 2, 0 */
        if (surveys[rank] != NULL && survey_try(surveys[rank], &map) == COLLET_SUCCESS) {
            chart_destroy(map);
            survey_destroy(surveys[rank]);
            surveys[rank] = NULL;
        }
        if (k == 0 && kind & 2)
            tamper(job, 1, 0, boot_key(BOOT_GRAPH, 0), input);
        if (k == 2 && kind & 4)
            tamper(job, 0, 1, boot_key(BOOT_ATLAS, 0), input);
    }
    for (int rank = 0; rank < RANKS; rank++)
        survey_destroy(surveys[rank]);
}

/* ---- agreements and agreements ---- */

static const int all_ranks[RANKS] = {0, 1, 2};

static void with_allgathers(struct job *job, struct fuzz_input *input) {
    struct oob_allgather allgathers[RANKS];
    struct oob_allgather_terms terms[RANKS];
    const uint64_t key = boot_key(BOOT_SPLIT, 2);
    enum collet_result results[RANKS];
    char entry[8] = "entry";
    for (int rank = 0; rank < RANKS; rank++) {
        terms[rank] =
            (struct oob_allgather_terms){job->boots[rank], key, all_ranks, RANKS, rank, sizeof entry, "it", 60};
        if (oob_allgather_start(&allgathers[rank], &terms[rank], entry) != COLLET_SUCCESS)
            abort();
    }
    tamper(job, 1, 0, key, input);
    results[0] = oob_allgather_try(&allgathers[0]);
    tamper(job, 0, 1, key, input);
    for (int rank = 1; rank < RANKS; rank++)
        results[rank] = oob_allgather_try(&allgathers[rank]);
    if (results[0] == COLLET_SUCCESS && results[2] != COLLET_SUCCESS)
        abort(); /* nobody has changed that */
    for (int rank = 0; rank < RANKS; rank++)
        oob_allgather_fini(&allgathers[rank]);
}

static void with_agreements(struct job *job, struct fuzz_input *input) {
    struct agreement agreements[RANKS];
    struct agreement_terms terms[RANKS];
    const uint64_t key = boot_key(BOOT_SPLIT, 4) & BOOT_KEY_REST;
    const uint8_t kind = fuzz_byte(input);
    for (int rank = 0; rank < RANKS; rank++) {
        terms[rank] = (struct agreement_terms){.boot = job->boots[rank],
                                               .key = key,
                                               .ranks = all_ranks,
                                               .nranks = RANKS,
                                               .self = rank,
                                               .call = "it",
                                               .timeout_s = 60};
        const bool no = kind >> rank & 1;
        if (agreement_start(&agreements[rank], &terms[rank], no ? COLLET_ERR_REMOTE : COLLET_SUCCESS) != COLLET_SUCCESS)
            abort();
    }
    for (int turn = 0; turn < 3; turn++) {
        for (int rank = 0; rank < RANKS; rank++)
            if (agreements[rank].vote.number != 0 && agreement_try(&agreements[rank]) == COLLET_SUCCESS) {
                struct agreement_decision *decision = agreements[rank].decision;
                if (decision->sum.code != COLLET_SUCCESS)
                    (void)err_adopt((enum collet_result)decision->sum.code, decision->sum.text);
                agreements[rank].vote.number = 0; /* it has its decision */
            }
        tamper(job, 1, 0, boot_key(BOOT_VOTE, key), input);
        tamper(job, 0, 1, boot_key(BOOT_DECISION, key), input);
    }
    for (int rank = 0; rank < RANKS; rank++)
        agreement_fini(&agreements[rank]);
}

/* ---- offers ---- */

/* No byte that names a process is changed: memory of others is not this test's. */
static void tamper_with_offer(struct job *job, uint64_t key, struct fuzz_input *input) {
    char data[BOOT_MESSAGE_BYTES];
    size_t bytes;
    int32_t pid = os_pid();
    if (boot_try_recv(job->boots[1], 0, key, data, sizeof data, &bytes) != COLLET_SUCCESS)
        abort();
    const char last = data[bytes - 1];
    fuzz_patch(input, data, bytes);
    for (size_t at = 0; at + sizeof pid <= bytes; at += sizeof pid)
        if (at == 8) /* struct shm_offer: nonce, pid, fd, ticket */
            memcpy(data + at, &pid, sizeof pid);
    if (fuzz_byte(input) % 4 != 0)
        data[bytes - 1] = last; /* of which transport it is */
    bytes -= fuzz_byte(input) % 4 == 0 ? fuzz_byte(input) % (bytes + 1) : 0;
    if (data[bytes > 0 ? bytes - 1 : 0] == last || bytes == 0)
        (void)boot_send(job->boots[0], 1, key, data, bytes);
}

/* Nor one that says where to connect: only this process is spoken to. */
static void tamper_with_addresses(struct job *job, uint64_t key, struct fuzz_input *input) {
    struct tcp_offer offer;
    size_t bytes;
    if (boot_try_recv(job->boots[1], 0, key, &offer, sizeof offer, &bytes) != COLLET_SUCCESS)
        return;
    const struct address_set right = offer.set;
    fuzz_patch(input, &offer, sizeof offer);
    memcpy(offer.set.addresses, right.addresses, sizeof right.addresses);
    offer.set.port = right.port;
    (void)boot_send(job->boots[0], 1, key, &offer, bytes - fuzz_byte(input) % 2);
}

/* By tcp between hosts, by shm on one. */
static void with_offers(struct job *job, struct fuzz_input *input) {
    struct chan *chans[RANKS];
    struct conn *producer, *consumer;
    job->peers[1].node = fuzz_byte(input) % 2;
    for (int rank = 0; rank < RANKS; rank++) {
        const struct chan_options options = {
            .boot = job->boots[rank], .config = &job->configs[rank], .nranks = RANKS, .rank = rank};
        if (chan_create(&options, &chans[rank]) != COLLET_SUCCESS)
            abort();
        chans[rank]->owner.layouts[PROG_TO_FEW] = fifo_layout_of(2, (struct protocol_sizes){256, 64, 64}, 0);
    }
    if (conn_get(chans[1], 0, 0, 0, CONN_PRODUCER, &producer) != COLLET_SUCCESS ||
        conn_get(chans[0], 1, 0, 0, CONN_CONSUMER, &consumer) != COLLET_SUCCESS)
        abort();
    enum collet_result mine = conn_try(consumer), theirs = COLLET_IN_PROGRESS;
    tamper_with_offer(job, conn_key(consumer, BOOT_OFFER), input);
    tamper_with_addresses(job, transport_key(consumer, TCP_LISTENS), input);
    for (int k = 0; k < 4 && mine >= 0 && theirs >= 0; k++) {
        theirs = conn_try(producer);
        mine = conn_try(consumer);
    }
    for (int rank = 0; rank < RANKS; rank++)
        chan_destroy(chans[rank]);
}

/* ---- what ranks wait in ---- */

static void with_answers(struct job *job, struct fuzz_input *input) {
    static struct chan chan;
    struct exec_call call = {.chan = &chan, .request = {.collective = PROG_SEND, .root = 1}, .waits_for = 1};
    struct comms_entry entry = {.comm = NULL};
    struct inquest inquest = {.call = &call, .entry = &entry};
    char text[96];
    chan = (struct chan){.name = "", .timeout_ms = 1000};
    chan.owner = (struct conn_owner){.boot = job->boots[0],
                                     .config = &job->configs[0],
                                     .peers = job->peers,
                                     .nranks = RANKS,
                                     .layouts[PROG_TO_FEW] = {.nslots = 2}};
    begin_chain(&inquest, &call);
    for (int k = 0; k < 2 * RANKS && input->size > 0 && inquest.at >= 0; k++) {
        struct status_answer said = {.bytes = sizeof said.status, .status = {.calls = fuzz_byte(input), .ncalls = 1}},
                             answer;
        struct status_call *blocked = fuzz_byte(input) % 2 ? &said.status.call[0] : &said.status.elsewhere.call;
        *blocked = (struct status_call){
            .facts.sequence = fuzz_byte(input), .waits_for = fuzz_byte(input) % RANKS, .blocked = true};
        memcpy(said.status.elsewhere.process, job->peers[blocked->waits_for].process,
               sizeof said.status.elsewhere.process);
        fuzz_patch(input, &said, sizeof said);
        if (!status_read_answer(&said, offsetof(struct status_answer, status) + sizeof said.status, &answer))
            continue;
        hear(&inquest, &call, &answer);
        exec_describe(&answer.status.call[0].facts, text, sizeof text);
    }
    if (memchr(inquest.chain, '\0', sizeof inquest.chain) == NULL)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = {data, size};
    static struct job job;
    const uint8_t kind = fuzz_byte(&input) % 5;
    job_begin(&job);
    switch (kind) {
    case 0: with_surveys(&job, &input); break;
    case 1: with_allgathers(&job, &input); break;
    case 2: with_agreements(&job, &input); break;
    case 3: with_offers(&job, &input); break;
    default: with_answers(&job, &input);
    }
    job_end(&job);
    return 0;
}
