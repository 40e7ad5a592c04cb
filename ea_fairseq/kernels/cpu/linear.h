// Linear layers, norms and embeddings of rows of numbers. Included once for each instruction set.
#pragma once
#ifdef BFLOAT16
#include "bfloat16.h"
#else
#include "matmul.h"
#endif
#include "rows.h"
#include "translation.h"

// Puts into some rows of a panel's outputs, from `first` on, what their products are added to.
INLINE void start_rows(const struct linear *layer, int64_t first, int64_t columns, int64_t rows, const float *residual,
                       float *y) {
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < columns; i += LANES) {
            int64_t index = row * layer->outputs + first + i;
            vec start = layer->bias ? masked_load(layer->bias, first + i, columns - i, 0) : (vec){0};
            if (residual) start += masked_load(residual, index, columns - i, 0);
            masked_store(y, index, columns - i, start, 0);
        }
}

// y = x W^T + b, and plus `residual` if there is one, which may be y itself; x is (rows, inputs), y and residual (rows,
// outputs).
#ifdef BFLOAT16
static void apply_linear(const struct linear *layer, const float *x, int64_t rows, const float *residual, float *y) {
    int64_t pairs = pairs_of(layer->inputs), stride = round_up(layer->inputs, 2 * LANES) / 2;
    int64_t at_once = max_of(MAX_ROWS, BYTES_AT_ONCE / (4 * stride));
    int32_t rounded[min_of(rows, at_once) * stride] __attribute__((aligned(64)));
    for (int64_t row = 0; row < rows; row += at_once) {
        int64_t count = min_of(at_once, rows - row), from = row * layer->outputs;
        round_rows(x + row * layer->inputs, count, layer->inputs, stride, rounded);
        for (int64_t first = 0; first < layer->outputs; first += PANEL) {
            int64_t columns = min_of(PANEL, layer->outputs - first);
            start_rows(layer, first, columns, count, residual ? residual + from : NULL, y + from);
            matmul_bfloat16(count, rounded, stride, layer->weight + first * pairs, pairs,
                            (struct result){y + from + first, layer->outputs, columns, 1, 1});
        }
    }
}
#else
static void apply_linear(const struct linear *layer, const float *x, int64_t rows, const float *residual, float *y) {
    for (int64_t first = 0; first < layer->outputs; first += PANEL) {
        int64_t columns = min_of(PANEL, layer->outputs - first);
        start_rows(layer, first, columns, rows, residual, y);
        matmul(rows, layer->inputs, (struct matrix){x, layer->inputs, 1}, layer->weight + first * layer->inputs, PANEL,
               (struct result){y + first, layer->outputs, columns, 1, 1});
    }
}
#endif

// Layer norm of rows of `width`, from x to y, which may be the same; without a norm, a copy.
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
        vec numbers = masked_load(x, i, count - i, 0);
        masked_store(x, i, count - i, where(relu_passes(numbers), numbers), 0);
    }
}

// The vector of a token at a position of its sentence, from 0, before the norm of embeddings.
static void embed(const struct stack *stack, int64_t token, int64_t position, float *x) {
    const float *embedding = stack->embeddings + token * stack->width;
    const float *of_position = stack->positions ? stack->positions + position * stack->width : NULL;
    for (int64_t i = 0; i < stack->width; i += LANES) {
        vec sum = masked_load(embedding, i, stack->width - i, 0);
        if (of_position) sum += masked_load(of_position, i, stack->width - i, 0);
        masked_store(x, i, stack->width - i, sum, 0);
    }
}

// The rows of a sub-layer: what it reads, (rows, width), and what it returns, which takes the place of x.
struct rows_of_layer {
    int64_t rows, width;
    int normalize_before;
    float *x, *normalized;
};

// What a sub-layer reads: x, or x normalized where norms come before.
INLINE const float *before(const struct rows_of_layer *at, const struct norm *norm) {
    if (!at->normalize_before) return at->x;
    apply_norm(norm, at->width, at->rows, at->x, at->normalized);
    return at->normalized;
}

// Adds the output of a sub-layer's last linear layer to x, and normalizes the sum where norms come after.
INLINE void after(const struct rows_of_layer *at, const struct norm *norm, const struct linear *last,
                  const float *input) {
    apply_linear(last, input, at->rows, at->x, at->x);
    if (!at->normalize_before) apply_norm(norm, at->width, at->rows, at->x, at->x);
}

// The feed-forward network; `inner` is (rows, floats of its inner layer).
static void feed_forward(const struct layer *layer, const struct rows_of_layer *at, float *inner) {
    apply_linear(&layer->up, before(at, &layer->norm), at->rows, NULL, inner);
    apply_relu(inner, at->rows * layer->up.outputs);
    after(at, &layer->norm, &layer->down, inner);
}
