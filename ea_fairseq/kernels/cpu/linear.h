// Linear layers, layer norms and embeddings of hidden states. Included once for each instruction set.
#pragma once
#include "matmul.h"
#include "norm_vector.h"
#include "rows.h"
#include "translation.h"

#ifdef REDUCED
#include "reduced.h"
#else
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
static void apply_linear(const struct linear *layer, const float *x, int64_t rows, const float *residual, float *y) {
    for (int64_t first = 0; first < layer->outputs; first += PANEL) {
        int64_t columns = min_int(PANEL, layer->outputs - first);
        init_outputs(layer, first, columns, rows, residual, y);
        matmul(rows, layer->inputs, (struct matrix){x, layer->inputs, 1}, layer->weight + first * layer->inputs, PANEL,
               (struct result){y + first, layer->outputs, columns, 1, 1});
    }
}
#endif

// y = norm of x, both (rows, width), which may be the same; without a norm, y = x.
static void apply_norm(const struct norm *norm, int64_t width, int64_t rows, const float *x, float *y) {
    if (!norm->weight) {
        if (x != y) memcpy(y, x, 4 * rows * width);
        return;
    }
    for (int64_t row = 0; row < rows; row++, x += width, y += width) {
        if (norm->is_rms) {
            normalize(norm->weight, norm->eps, width, x, y);
            continue;
        }
        vec sum = {0}, squares = {0};
        for (int64_t i = 0; i < width; i += LANES) sum += masked_load(x, i, width - i, 0);
        float mean = reduce_sum(sum) / width;
        for (int64_t i = 0; i < width; i += LANES) {
            vec difference = where(visible_keys(NULL, NULL, i, width), masked_load(x, i, width - i, 0) - mean);
            squares += difference * difference;
        }
        float scale = 1 / sqrtf(reduce_sum(squares) / width + (float)norm->eps);
        for (int64_t i = 0; i < width; i += LANES) {
            vec weight = masked_load(norm->weight, i, width - i, 0);
            vec bias = norm->bias ? masked_load(norm->bias, i, width - i, 0) : (vec){0};
            masked_store(y, i, width - i, (masked_load(x, i, width - i, 0) - mean) * scale * weight + bias, 0);
        }
    }
}

// Normalizes each head of a query or key x (heads, width), and rotates its pairs (i, i + width / 2) by their angles, of
// which `rotation` has cosines and sines, (2, width / 2), or is NULL.
static void turn_heads(const struct norm *norm, const float *rotation, int64_t heads, int64_t width, float *x) {
    for (int64_t head = 0; head < heads; head++, x += width) {
        if (norm->weight) normalize(norm->weight, norm->eps, width, x, x);
        if (rotation) rotate(rotation, width, 1, x, x);
    }
}

static void apply_relu(float *x, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) {
        vec values = masked_load(x, i, count - i, 0);
        masked_store(x, i, count - i, where(relu_passes(values), values), 0);
    }
}

INLINE vec sigmoid(vec x) {
    vec power = exponential(blend(x > 0, -x, x));
    return blend(x > 0, splat(1.0f), power) / (power + 1.0f);
}

// Of x (rows, gates or units, width) remain the units (rows, width), times the activation of their gates.
static void apply_gates(enum activation activation, int64_t rows, int64_t width, float *x) {
    const float *gates = x;
    for (int64_t row = 0; row < rows; row++, gates += 2 * width, x += width)
        for (int64_t i = 0; i < width; i += LANES) {
            vec gate = masked_load(gates, i, width - i, 0), units = masked_load(gates, width + i, width - i, 0);
            // The tanh form of GELU, x / 2 (1 + tanh(z / 2)), is x times the sigmoid of z.
            vec z = activation == GEGLU ? 1.59576912f * (gate + 0.044715f * gate * gate * gate) : gate;
            masked_store(x, i, width - i, gate * sigmoid(z) * units, 0);
        }
}

// Mixes a layer's values, which lie `stride` floats apart, with those of the first layer, (rows, width), or stores
// them if this is the first layer.
static void mix_values(const struct attention *attention, int is_first, int64_t rows, int64_t width, int64_t stride,
                       float *values, float *of_first) {
    const float *weights = attention->value_weights;
    for (int64_t row = 0; row < rows; row++, values += stride, of_first += width) {
        if (is_first) memcpy(of_first, values, 4 * width);
        for (int64_t i = 0; weights && i < width; i++) values[i] = weights[0] * of_first[i] + weights[1] * values[i];
    }
}

// Gates outputs of attention y (rows, width) by the tokens x that queries are projected from, or removes their part
// along their own values, which lie `stride` floats apart. `buffer` is (rows, outputs of the gates); it may be where
// the values are, because no attention does both.
static void adjust_outputs(const struct attention *attention, int64_t rows, int64_t width, const float *x,
                           const float *values, int64_t stride, float *buffer, float *y) {
    int64_t heads = attention->heads, each = width / heads, gates = attention->gates.outputs;
    if (attention->gates.weight) {
        apply_linear(&attention->gates, x, rows, NULL, buffer);
        for (int64_t head = 0; head < rows * heads; head++)
            for (int64_t i = 0; i < each; i += LANES) {
                const float *gate = buffer + head * (gates / heads);
                vec weight = sigmoid(gates == heads ? splat(*gate) : masked_load(gate, i, each - i, 0));
                int64_t index = head * each + i;
                masked_store(y, index, each - i, masked_load(y, index, each - i, 0) * weight, 0);
            }
    }
    for (int64_t row = 0; attention->is_exclusive && row < rows; row++)
        for (int64_t head = 0; head < heads; head++) {
            const float *value = values + row * stride + head * each;
            float *output = y + row * width + head * each, square = dot(value, value, each);
            float along = dot(output, value, each) / (square > 1e-8f ? square : 1e-8f);
            for (int64_t i = 0; i < each; i++) output[i] -= along * value[i];
        }
}

INLINE int has_word_weights(const struct attention *attention) {
    return attention->word_alpha.weight || attention->word_beta.weight;
}

// Weights of scores, of previous logits and of the convolution's output, (3, sentences, heads, tokens), from the tokens
// x (sentences * tokens, width) that queries are projected from. After the weights there is room for logits,
// (sentences * tokens, heads).
static void weigh_words(const struct attention *attention, int64_t sentences, int64_t tokens, const float *x,
                        float *weights) {
    int64_t heads = attention->heads, rows = sentences * tokens, count = rows * heads;
    for (int is_beta = 0; is_beta < 2; is_beta++) {
        const struct linear *linear = is_beta ? &attention->word_beta : &attention->word_alpha;
        const float *logits = weights + 3 * count;
        if (!linear->weight) continue;
        apply_linear(linear, x, rows, NULL, weights + 3 * count);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t head = 0; head < heads; head++) {
                float *to = weights + (row / tokens * heads + head) * tokens + row % tokens;
                float weight = 1 / (1 + expf(-*logits++));
                if (is_beta)
                    to[2 * count] = weight;
                else
                    to[0] = 1 - weight, to[count] = weight;
            }
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
    if (layer->activation == RELU)
        apply_relu(inner, states->rows * layer->fc1.outputs);
    else
        apply_gates(layer->activation, states->rows, layer->fc2.inputs, inner);
    add_sublayer_output(states, &layer->norm, &layer->fc2, inner);
}
