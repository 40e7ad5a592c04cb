// Linear layers, layer norms and embeddings of hidden states. Included once for each instruction set.
#pragma once
#ifdef BFLOAT16
#include "bfloat16.h"
#else
#include "matmul.h"
#endif
#include "rows.h"
#include "translation.h"

// Initializes a panel's outputs, from `first` on, with the bias and the residual.
INLINE void init_outputs(const struct linear *layer, int64_t first, int64_t columns, int64_t rows,
                         const float *residual, float *y) {
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < columns; i += LANES) {
            int64_t index = row * layer->outputs + first + i;
            vec start = layer->bias ? masked_load(layer->bias, first + i, columns - i, 0) : (vec){0};
            if (residual) start += masked_load(residual, index, columns - i, 0);
            masked_store(y, index, columns - i, start, 0);
        }
}

// y = x W^T + b, plus `residual` unless NULL, which may be y itself; x is (rows, inputs), y and residual are (rows,
// outputs).
#ifdef BFLOAT16
static void apply_linear(const struct linear *layer, const float *x, int64_t rows, const float *residual, float *y) {
    int64_t pairs = pair_count(layer->inputs), stride = round_up(layer->inputs, 2 * LANES) / 2;
    int64_t rows_at_once = max_int(MAX_ROWS, ROUNDED_BYTES / (4 * stride));
    int32_t rounded[min_int(rows, rows_at_once) * stride] __attribute__((aligned(64)));
    for (int64_t row = 0; row < rows; row += rows_at_once) {
        int64_t count = min_int(rows_at_once, rows - row), from = row * layer->outputs;
        round_rows(x + row * layer->inputs, count, layer->inputs, stride, rounded);
        for (int64_t first = 0; first < layer->outputs; first += PANEL) {
            int64_t columns = min_int(PANEL, layer->outputs - first);
            init_outputs(layer, first, columns, count, residual ? residual + from : NULL, y + from);
            matmul_bfloat16(count, rounded, stride, layer->weight + first * pairs, pairs,
                            (struct result){y + from + first, layer->outputs, columns, 1, 1});
        }
    }
}
#else
static void apply_linear(const struct linear *layer, const float *x, int64_t rows, const float *residual, float *y) {
    for (int64_t first = 0; first < layer->outputs; first += PANEL) {
        int64_t columns = min_int(PANEL, layer->outputs - first);
        init_outputs(layer, first, columns, rows, residual, y);
        matmul(rows, layer->inputs, (struct matrix){x, layer->inputs, 1}, layer->weight + first * layer->inputs, PANEL,
               (struct result){y + first, layer->outputs, columns, 1, 1});
    }
}
#endif

// y = layer norm of x, both (rows, width), which may be the same; without a norm, y = x.
static void apply_norm(const struct norm *norm, int64_t width, int64_t rows, const float *x, float *y) {
    if (!norm->weight) {
        if (x != y) memcpy(y, x, 4 * rows * width);
        return;
    }
    for (int64_t row = 0; row < rows; row++, x += width, y += width) {
        vec sum = {0}, squares = {0};
        for (int64_t i = 0; i < width; i += LANES) sum += masked_load(x, i, width - i, 0);
        float mean = reduce_sum(sum) / width;
        for (int64_t i = 0; i < width; i += LANES) {
            vec difference = where(visible_keys(NULL, NULL, i, width), masked_load(x, i, width - i, 0) - mean);
            squares += difference * difference;
        }
        float scale = 1 / sqrtf(reduce_sum(squares) / width + (float)norm->eps);
        for (int64_t i = 0; i < width; i += LANES) {
            vec weight = masked_load(norm->weight, i, width - i, 0), bias = masked_load(norm->bias, i, width - i, 0);
            masked_store(y, i, width - i, (masked_load(x, i, width - i, 0) - mean) * scale * weight + bias, 0);
        }
    }
}

static void apply_relu(float *x, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) {
        vec values = masked_load(x, i, count - i, 0);
        masked_store(x, i, count - i, where(relu_passes(values), values), 0);
    }
}

// The sum of a token's embedding and that of its position, which counts from 0.
static void embed(const struct stack *stack, int64_t token, int64_t position, float *x) {
    const float *embedding = stack->embeddings + token * stack->width;
    const float *of_position = stack->positions ? stack->positions + position * stack->width : NULL;
    for (int64_t i = 0; i < stack->width; i += LANES) {
        vec sum = masked_load(embedding, i, stack->width - i, 0);
        if (of_position) sum += masked_load(of_position, i, stack->width - i, 0);
        masked_store(x, i, stack->width - i, sum, 0);
    }
}

// The residual stream x (rows, width), which sub-layers update, and a buffer for its layer norm.
struct hidden_states {
    int64_t rows, width;
    int normalize_before;
    float *x, *normalized;
};

// The input of a sub-layer: x, or its layer norm in a pre-norm model.
INLINE const float *sublayer_input(const struct hidden_states *states, const struct norm *norm) {
    if (!states->normalize_before) return states->x;
    apply_norm(norm, states->width, states->rows, states->x, states->normalized);
    return states->normalized;
}

// Adds the output of a sub-layer's last linear layer to x, and normalizes the sum in a post-norm model.
INLINE void add_sublayer_output(const struct hidden_states *states, const struct norm *norm, const struct linear *last,
                                const float *input) {
    apply_linear(last, input, states->rows, states->x, states->x);
    if (!states->normalize_before) apply_norm(norm, states->width, states->rows, states->x, states->x);
}

// The feed-forward network; `inner` is a buffer (rows, outputs of fc1).
static void feed_forward(const struct layer *layer, const struct hidden_states *states, float *inner) {
    apply_linear(&layer->fc1, sublayer_input(states, &layer->norm), states->rows, NULL, inner);
    apply_relu(inner, states->rows * layer->fc1.outputs);
    add_sublayer_output(states, &layer->norm, &layer->fc2, inner);
}
