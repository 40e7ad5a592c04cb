// Linear layers, norms and embeddings of rows of numbers. Included once for each instruction set.
#pragma once
#include "matmul.h"
#include "rows.h"
#include "translation.h"

// y = x W^T + b, and plus `residual` if there is one, which may be y itself; x is (rows, in), y and residual (rows, out).
static void apply_linear(const struct linear *layer, const float *x, int64_t rows, const float *residual, float *y) {
    for (int64_t first = 0; first < layer->out; first += PANEL) {
        int64_t columns = min_of(PANEL, layer->out - first);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t i = 0; i < columns; i += LANES) {
                int64_t index = row * layer->out + first + i;
                vec start = layer->bias ? masked_load(layer->bias, first + i, columns - i, 0) : (vec){0};
                if (residual) start += masked_load(residual, index, columns - i, 0);
                masked_store(y, index, columns - i, start, 0);
            }
        matmul(rows, layer->in, (struct matrix){x, layer->in, 1}, layer->weight + first * layer->in, PANEL,
               (struct result){y + first, layer->out, columns, 1, 1});
    }
}

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
    apply_relu(inner, at->rows * layer->up.out);
    after(at, &layer->norm, &layer->down, inner);
}
