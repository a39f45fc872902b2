/* SPDX-License-Identifier: Apache-2.0
 *
 * The playground of `make gallery`: programs, verifier and cost model, called by a page (play.html) in which they run as
 * WebAssembly. Every function returns a text that is valid until the next call. An error begins with "! ".
 */
#include "base/err.h"
#include "layers/tools/forecast/explain.h"
#include "layers/tools/prog/script.h"
#include "layers/tools/prog/show.h"
#include "topo/probe/topo.h"

#include <emscripten.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the answer ---- */

static char *answer;
static size_t answer_bytes;

static FILE *answer_open(void) {
    free(answer);
    answer = NULL;
    return open_memstream(&answer, &answer_bytes);
}

static const char *answer_close(FILE *out, enum collet_result result) {
    fclose(out);
    if (result != COLLET_SUCCESS) {
        out = answer_open();
        fprintf(out, "! %s", err_last());
        fclose(out);
    }
    return answer;
}

/* ---- what is asked about ---- */

struct asked {
    struct algorithm algorithm;
    struct prog_shape shape;
    int root;
};

static enum collet_result deal(int nranks, int nnodes, struct prog_shape *shape) {
    int *node_of = malloc((size_t)nranks * sizeof *node_of);
    if (node_of == NULL || nranks < 1 || nnodes < 1 || nnodes > nranks) {
        free(node_of);
        return err_set(COLLET_ERR_INVALID_ARGUMENT, "%d ranks on %d nodes: at least one per node", nranks, nnodes);
    }
    for (int rank = 0; rank < nranks; rank++)
        node_of[rank] = (int)((int64_t)rank * nnodes / nranks);
    enum collet_result result = prog_shape_init(shape, nranks, node_of, NULL);
    free(node_of);
    return result;
}

/* Fills *asked. text: programs that replace those of the algorithm; "": there are none. */
static enum collet_result ask(int algorithm, int nranks, int nnodes, int root, const char *text, struct asked *asked) {
    asked->algorithm = *text != '\0' ? script_algorithm(&algorithms[algorithm], nranks, text) : algorithms[algorithm];
    asked->root = root;
    COLLET_TRY(deal(nranks, nnodes, &asked->shape));
    if (algorithm_applies(&asked->algorithm, &asked->shape))
        return COLLET_SUCCESS;
    prog_shape_fini(&asked->shape);
    return err_set(COLLET_ERR_INVALID_ARGUMENT, "this algorithm takes %s", asked->algorithm.where);
}

/* ---- programs ---- */

/* Returns a line per algorithm: its name, where it works, and what it does. */
EMSCRIPTEN_KEEPALIVE const char *play_list(void) {
    FILE *out = answer_open();
    for (const struct algorithm *a = algorithms; a->name != NULL; a++)
        fprintf(out, "%s_%s\t%s\t%s\n", prog_collective_name(a->collective), a->name, a->where, a->about);
    return answer_close(out, COLLET_SUCCESS);
}

/* Returns the programs as text that the user can change. */
EMSCRIPTEN_KEEPALIVE const char *play_text(int algorithm, int nranks, int nnodes, int root) {
    FILE *out = answer_open();
    struct asked asked;
    struct cast cast;
    enum collet_result result = ask(algorithm, nranks, nnodes, root, "", &asked);
    if (result == COLLET_SUCCESS) {
        result = cast_create(&asked.algorithm, &asked.shape, root, &cast);
        if (result == COLLET_SUCCESS)
            script_print(&cast, out);
        cast_destroy(&cast);
        prog_shape_fini(&asked.shape);
    }
    return answer_close(out, result);
}

/* Verifies the programs. Returns "" if they are right, otherwise what is wrong. */
EMSCRIPTEN_KEEPALIVE const char *play_check(int algorithm, int nranks, int nnodes, int root, int nslots,
                                            const char *text) {
    FILE *out = answer_open();
    struct asked asked;
    char why[ERR_TEXT_BYTES] = "";
    enum collet_result result = ask(algorithm, nranks, nnodes, root, text, &asked);
    if (result == COLLET_SUCCESS) {
        for (int in_place = 0; in_place < 2 && *why == '\0'; in_place++)
            if (!prog_check(&asked.algorithm, &asked.shape, root, nslots, in_place, why, sizeof why))
                fprintf(out, "%s%s", in_place ? "in place: " : "", why);
        prog_shape_fini(&asked.shape);
    }
    return answer_close(out, result);
}

/* Returns the text that replaces DATA in the page that animates the programs. */
EMSCRIPTEN_KEEPALIVE const char *play_data(int algorithm, int nranks, int nnodes, int root, int nslots,
                                           const char *text) {
    FILE *out = answer_open();
    struct asked asked;
    enum collet_result result = ask(algorithm, nranks, nnodes, root, text, &asked);
    if (result == COLLET_SUCCESS) {
        result = show_page_data(&asked.algorithm, &asked.shape, root, nslots, out);
        prog_shape_fini(&asked.shape);
    }
    return answer_close(out, result);
}

/* ---- predictions ---- */

struct forecast_question {
    const char *machine; /* A host, in the words of topo_synthetic(). */
    int nhosts, per_host;
    int protocol; /* Number of the protocol. Below 0: any. */
    uint64_t bytes;
    double steps_max;
};

static const char *const kinds[] = {[FORECAST_EACH] = "every rank simulated",
                                    [FORECAST_GROUPED] = "one host stands for all",
                                    [FORECAST_BOUND] = "an upper bound",
                                    [FORECAST_EXTENDED] = "extended from fewer hosts"};

static enum collet_result open_job(const struct forecast_question *question, struct topo **topo_p,
                                   struct forecast_job **job_p) {
    struct topo *one = NULL;
    COLLET_TRY(topo_synthetic(question->machine, &one));
    enum collet_result result = question->nhosts > 1 ? topo_repeat(one, 2, topo_p) : COLLET_SUCCESS;
    if (question->nhosts > 1)
        topo_destroy(one);
    else
        *topo_p = one;
    if (result == COLLET_SUCCESS)
        result = forecast_open(*topo_p, question->nhosts, question->per_host, job_p);
    for (int p = 0; result == COLLET_SUCCESS && question->protocol >= 0 && p < PROTOCOL_COUNT; p++)
        (*job_p)->limits.protocol_allowed[p] = p == question->protocol;
    if (result == COLLET_SUCCESS)
        (*job_p)->steps_max = question->steps_max;
    return result;
}

static struct forecast best_of(const struct forecast_job *job, const struct algorithm *algorithm, uint64_t bytes) {
    struct forecast_stage *stage = NULL;
    struct forecast best = {.kind = FORECAST_NONE};
    if (forecast_stage_open(job, algorithm, &stage) != COLLET_SUCCESS ||
        forecast_best(stage, bytes, &best) != COLLET_SUCCESS || !isfinite(best.choice.predicted_ns))
        best.kind = FORECAST_NONE;
    forecast_stage_close(stage);
    return best;
}

/* The maximum number of ranks for which the algorithm is predicted, on a half, a quarter, … of the hosts. 0: there is none. */
static int most_ranks(struct forecast_question question, const struct algorithm *algorithm) {
    int nranks = 0;
    while (nranks == 0 && question.nhosts > 1) {
        struct topo *topo = NULL;
        struct forecast_job *job = NULL;
        question.nhosts /= 2;
        if (open_job(&question, &topo, &job) == COLLET_SUCCESS && algorithm_applies(algorithm, job->machine.whole) &&
            best_of(job, algorithm, question.bytes).kind != FORECAST_NONE)
            nranks = job->nranks;
        forecast_close(job);
        topo_destroy(topo);
    }
    return nranks;
}

static void explain_none(const struct forecast_question *question, const struct algorithm *algorithm,
                         const struct forecast *f, FILE *out) {
    if (f->fewer_hosts > 0)
        fprintf(out, "none: times of %d, %d and %d hosts grow in no regular way", f->fewer_hosts, f->fewer_hosts / 2,
                f->fewer_hosts / 4);
    else if (f->steps == 0)
        fprintf(out, "none: its messages are too long for a slot");
    else
        fprintf(out, "none: %.0f million steps", ceil(f->steps / 1e6));
    const int nranks = most_ranks(*question, algorithm);
    if (nranks > 0)
        fprintf(out, "; up to %d ranks are predicted", nranks);
    fprintf(out, "\n");
}

static void predict(const struct forecast_question *question, const struct forecast_job *job,
                    const struct algorithm *algorithm, FILE *out) {
    if (!algorithm_applies(algorithm, job->machine.whole))
        return;
    const struct forecast best = best_of(job, algorithm, question->bytes);
    fprintf(out, "%s\t", algorithm->name);
    if (best.kind == FORECAST_NONE) {
        fprintf(out, "\t0\t-1\t");
        explain_none(question, algorithm, &best, out);
    } else {
        fprintf(out, "%s\t%d\t%.1f\t%s\n", protocol_names[best.choice.protocol], best.choice.nchannels,
                best.choice.predicted_ns / 1000, kinds[best.kind]);
    }
}

/* Returns the number of ranks, then a line per algorithm of the collective that works there: its name, best protocol,
 * channels, µs (−1: no prediction), and how it was predicted, or why not. struct forecast_question has the parameters. */
EMSCRIPTEN_KEEPALIVE const char *play_predict(int algorithm, const char *machine, int nhosts, int per_host,
                                              int protocol, double bytes, double steps_max) {
    const struct forecast_question question = {machine, nhosts, per_host, protocol, (uint64_t)bytes, steps_max};
    FILE *out = answer_open();
    struct topo *topo = NULL;
    struct forecast_job *job = NULL;
    enum collet_result result = open_job(&question, &topo, &job);
    if (result == COLLET_SUCCESS)
        fprintf(out, "%d\n", job->nranks);
    for (const struct algorithm *a = algorithms; result == COLLET_SUCCESS && a->name != NULL; a++)
        if (a->collective == algorithms[algorithm].collective)
            predict(&question, job, a, out);
    forecast_close(job);
    topo_destroy(topo);
    return answer_close(out, result);
}
