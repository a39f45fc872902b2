/* SPDX-License-Identifier: Apache-2.0
 *
 * The small model that the examples train: a multilayer perceptron on synthetic data. This file does not communicate. The examples
 * cut the model in different directions: by its batch, its parameters, its layers, or its matrices.
 *
 *              layer 0          layer 1                   layer 7
 *   x ─▶ relu(W·x + b) ─▶ relu(W·x + b) ─▶ … ─▶ W·x + b ─▶ y        loss = mean of ½ (y − target)²
 *
 *   parameters:  │ W of layer 0, row by row │ b of layer 0 │ W of layer 1 │ …      one array of floats; gradients lie alike
 *
 * Every number is a hash of its place, so all ranks have the same data and initial parameters without communication.
 */
#ifndef EXAMPLES_COMMON_MLP_H
#define EXAMPLES_COMMON_MLP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { FEATURES = 8, WIDTH = 32, OUTPUTS = 4, LAYERS = 8 };
/* There are 2·48 samples, which are used 51 times. */
enum { BATCH = 48, BATCHES = 2, STEPS = 101, STEPS_PER_LINE = 20 };
static const float LEARNING_RATE = 0.5f;

/* --------------------------------------------------------------------------------------------------------------- data */

/* A number in −1 … 1 that looks random (splitmix64). */
static inline float hash_to_float(uint64_t place) {
    uint64_t z = place * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (float)((z ^ (z >> 31)) >> 40) / (float)(1 << 23) - 1;
}

/* The number of the first sample of a step's batch. */
static inline int batch_first(int step) { return step % BATCHES * BATCH; }

/* Makes samples first … first + rows − 1. The model must learn: target[k] = x[2k] + |x[2k+1]|. */
static inline void samples_make(int first, int rows, float *x, float *target) {
    for (int row = 0; row < rows; row++, x += FEATURES, target += OUTPUTS) {
        for (int i = 0; i < FEATURES; i++)
            x[i] = hash_to_float((uint64_t)(first + row) * FEATURES + (uint64_t)i);
        for (int k = 0; k < OUTPUTS; k++)
            target[k] = x[2 * k] + (x[2 * k + 1] < 0 ? -x[2 * k + 1] : x[2 * k + 1]);
    }
}

/* -------------------------------------------------------------------------------------------------------------- layers */

struct layer {
    int in, out;
    bool relu;
};

static inline struct layer mlp_layer(int l) {
    return (struct layer){l == 0 ? FEATURES : WIDTH, l == LAYERS - 1 ? OUTPUTS : WIDTH, l < LAYERS - 1};
}

/* The number of floats of a layer: its weights, with a row per output, and then its biases. */
static inline size_t layer_count(struct layer layer) { return (size_t)layer.out * (size_t)(layer.in + 1); }

/* The index at which layer l begins in the parameters. For l = LAYERS: the number of parameters. */
static inline size_t mlp_offset(int l) {
    size_t offset = 0;
    for (int below = 0; below < l; below++)
        offset += layer_count(mlp_layer(below));
    return offset;
}

#define MLP_COUNT                                                                                                      \
    (WIDTH * (FEATURES + 1) + (LAYERS - 2) * WIDTH * (WIDTH + 1) + OUTPUTS * (WIDTH + 1)) /* mlp_offset(LAYERS) */

/* Sets biases to 0, and weights to random numbers of such a size that activations neither grow nor shrink from layer to layer. */
static inline void mlp_init(float *parameters) {
    for (int l = 0; l < LAYERS; l++) {
        struct layer layer = mlp_layer(l);
        float *weights = parameters + mlp_offset(l);
        float largest = layer.in == FEATURES ? 0.87f : 0.43f; /* The square root of 6 / in */
        for (int i = 0; i < layer.out * layer.in; i++)
            weights[i] = largest * hash_to_float(((uint64_t)1 << 40) + mlp_offset(l) + (uint64_t)i);
        memset(weights + layer.out * layer.in, 0, (size_t)layer.out * sizeof(float));
    }
}

/* Computes y = W·x for each row. */
static inline void layer_multiply(struct layer layer, const float *parameters, int rows, const float *x, float *y) {
    for (int row = 0; row < rows; row++)
        for (int o = 0; o < layer.out; o++) {
            float sum = 0;
            for (int i = 0; i < layer.in; i++)
                sum += parameters[o * layer.in + i] * x[row * layer.in + i];
            y[row * layer.out + o] = sum;
        }
}

/* Computes y = relu(y + b), or y = y + b for a layer without relu. */
static inline void layer_finish(struct layer layer, const float *parameters, int rows, float *y) {
    const float *bias = parameters + layer.out * layer.in;
    for (int i = 0; i < rows * layer.out; i++) {
        y[i] += bias[i % layer.out];
        if (layer.relu && y[i] < 0)
            y[i] = 0;
    }
}

static inline void layer_forward(struct layer layer, const float *parameters, int rows, const float *x, float *y) {
    layer_multiply(layer, parameters, rows, x, y);
    layer_finish(layer, parameters, rows, y);
}

/* Adds the gradients of all rows to `gradients`, row after row. Writes dx unless it is NULL. Replaces dy by the gradient before the
 * relu. */
static inline void layer_backward(struct layer layer, const float *parameters, float *gradients, int rows,
                                  const float *x, const float *y, float *dy, float *dx) {
    for (int row = 0; row < rows; row++, x += layer.in, y += layer.out, dy += layer.out) {
        for (int o = 0; o < layer.out; o++) {
            if (layer.relu && y[o] <= 0)
                dy[o] = 0;
            for (int i = 0; i < layer.in; i++)
                gradients[o * layer.in + i] += dy[o] * x[i];
            gradients[layer.out * layer.in + o] += dy[o];
        }
        for (int i = 0; dx && i < layer.in; i++) {
            float sum = 0;
            for (int o = 0; o < layer.out; o++)
                sum += parameters[o * layer.in + i] * dy[o];
            dx[i] = sum;
        }
        dx = dx ? dx + layer.in : NULL;
    }
}

/* Returns the share that these rows have in the mean loss of a whole batch, and writes its gradient to dy. The sum of all shares is the
 * mean loss. */
static inline float loss_of(int rows, const float *y, const float *target, float *dy) {
    float loss = 0;
    for (int i = 0; i < rows * OUTPUTS; i++) {
        float error = y[i] - target[i];
        loss += 0.5f * error * error / (BATCH * OUTPUTS);
        dy[i] = error / (BATCH * OUTPUTS);
    }
    return loss;
}

static inline void sgd_update(size_t count, float *parameters, const float *gradients) {
    for (size_t i = 0; i < count; i++)
        parameters[i] -= LEARNING_RATE * gradients[i];
}

/* -------------------------------------------------------------------------------------------------------- by one rank */

/* The activations between the layers, for one part of a batch. at[0] is the input, at[LAYERS] the output. */
struct pass {
    float at[LAYERS + 1][BATCH * WIDTH];
    float target[BATCH * OUTPUTS];
    float gradient[2][BATCH * WIDTH]; /* Gradients of at[l]: layers use the two arrays in turn */
};

/* Adds the gradient of samples first … first + rows − 1 to `gradients`. Returns the share of these samples in the loss. */
static inline float mlp_gradient(const float *parameters, float *gradients, int first, int rows, struct pass *pass) {
    samples_make(first, rows, pass->at[0], pass->target);
    for (int l = 0; l < LAYERS; l++)
        layer_forward(mlp_layer(l), parameters + mlp_offset(l), rows, pass->at[l], pass->at[l + 1]);
    float loss = loss_of(rows, pass->at[LAYERS], pass->target, pass->gradient[LAYERS % 2]);
    for (int l = LAYERS - 1; l >= 0; l--)
        layer_backward(mlp_layer(l), parameters + mlp_offset(l), gradients + mlp_offset(l), rows, pass->at[l],
                       pass->at[l + 1], pass->gradient[(l + 1) % 2], l > 0 ? pass->gradient[l % 2] : NULL);
    return loss;
}

/* Part p of `parts` has the rows part_begin(p, parts) … part_begin(p + 1, parts) − 1 of a batch. */
static inline int part_begin(int part, int parts) { return BATCH * part / parts; }

/* The training by one rank, against which all examples are checked. With several parts, the gradient of each part is summed separately, and
 * then these sums are added in order. Ranks do the same, and float sums depend on their order. */
static inline void mlp_train_alone(float *parameters, int parts) {
    static struct pass pass;
    static float part_gradients[MLP_COUNT], gradients[MLP_COUNT];
    mlp_init(parameters);
    for (int step = 0; step < STEPS; step++) {
        memset(gradients, 0, sizeof gradients);
        for (int part = 0; part < parts; part++) {
            int begin = part_begin(part, parts);
            memset(part_gradients, 0, sizeof part_gradients);
            mlp_gradient(parameters, part_gradients, batch_first(step) + begin, part_begin(part + 1, parts) - begin,
                         &pass);
            for (size_t i = 0; i < MLP_COUNT; i++)
                gradients[i] += part_gradients[i];
        }
        sgd_update(MLP_COUNT, parameters, gradients);
    }
}

static inline double largest_difference(size_t count, const float *a, const float *b) {
    double largest = 0;
    for (size_t i = 0; i < count; i++) {
        double difference = (double)a[i] - (double)b[i];
        difference = difference < 0 ? -difference : difference;
        if (!(difference <= largest)) /* Also true for a NaN */
            largest = difference;
    }
    return largest;
}

#endif
