// Backward pass from the gradients of logits and probabilities, by tiles. Included once for each instruction set.
#pragma once
#include "evolution_forward.h"

// Gradients of a row's logits, all that reach them, into `d_logits`, and of its convolution, into `d_conv`. The latter
// lack the factor beta, which pack_weights and add_up multiply by. `p` and `d_p` hold the row's probabilities and their
// gradients from `at` on.
INLINE void logits_gradient(const struct fused_arguments *a, const struct tile *tile, int64_t head, int64_t row,
                            int64_t end, const void *p, const void *d_p, int64_t at, float *d_logits, float *d_conv,
                            int bf16) {
    int64_t index = map_index(a, tile, head, row);
    const uint8_t *relu_mask = d_conv ? a->relu_mask + index / a->keys * (tile->columns / 8) : NULL;
    vec total = {0};
    for (int64_t s = 0; s < end; s += LANES)
        total += where(visible(tile, s),
                       masked_load(p, at + s, a->keys - s, bf16) * masked_load(d_p, at + s, a->keys - s, bf16));
    float dot = reduce_sum(total);
    for (int64_t s = 0; s < end; s += LANES) {
        vec d = a->d_logits ? masked_load(a->d_logits, index + s, a->keys - s, bf16) : (vec){0};
        d += masked_load(p, at + s, a->keys - s, bf16) * (masked_load(d_p, at + s, a->keys - s, bf16) - dot);
        d = where(visible(tile, s), d);
        if (d_logits) store(d_logits + s, d);
        if (d_conv) store(d_conv + s, where(load_bits(relu_mask + s / 8), d));
    }
}

// Adds up the gradient of the weights: a block of outputs from `first`, input `in`, row `i` and `taps` taps from `j`.
INLINE void weight_gradient(const struct fused_arguments *a, const struct tile *tile, const float *d_conv,
                            const float *conv_input, int64_t first, int64_t in, int64_t i, int64_t j, const int taps,
                            float *d_weight) {
    vec total[HEAD_BLOCK][3] = {{{0}}};
    const float *x = conv_input + in * tile->head_stride + i * tile->row_stride + tile->margin - a->left + j;
    const float *own_rows = d_conv + below_of(a) * tile->row_stride + tile->margin, *d[HEAD_BLOCK];
    int outs = min_of(HEAD_BLOCK, a->heads - first);
    for (int out = 0; out < HEAD_BLOCK; out++)  // a head beyond the last reads the last one's, for nothing
        d[out] = own_rows + (first + min_of(out, outs - 1)) * tile->head_stride;
    for (int64_t row = 0; row < (tile->end - tile->begin) * tile->row_stride; row += tile->row_stride)
        for (int64_t s = 0; s < tile->columns; s += LANES) {
            vec shifted[3];
            FULLY_UNROLLED
            for (int tap = 0; tap < taps; tap++) shifted[tap] = load(x + row + s + tap);
            FULLY_UNROLLED
            for (int out = 0; out < HEAD_BLOCK; out++) {
                vec gradient = load(d[out] + row + s);
                keep_in_register(&gradient);
                FULLY_UNROLLED
                for (int tap = 0; tap < taps; tap++) total[out][tap] += gradient * shifted[tap];
            }
        }
    int64_t k = a->kernel;
    for (int out = 0; out < outs; out++)
        for (int tap = 0; tap < taps; tap++)
            d_weight[(((first + out) * a->heads + in) * k + i) * k + j + tap] += reduce_sum(total[out][tap]);
}

INLINE void weight_gradients(const struct fused_arguments *a, const struct tile *tile, const float *d_conv,
                             const float *conv_input, float *d_weight) {
    for (int64_t first = 0; first < a->heads; first += HEAD_BLOCK)
        for (int64_t in = 0; in < a->heads; in++)
            for (int64_t i = 0; i < a->kernel; i++)
                for (int64_t j = 0; j < a->kernel; j += 3)
                    switch (a->kernel - j) {
                    case 1: weight_gradient(a, tile, d_conv, conv_input, first, in, i, j, 1, d_weight); break;
                    case 2: weight_gradient(a, tile, d_conv, conv_input, first, in, i, j, 2, d_weight); break;
                    default: weight_gradient(a, tile, d_conv, conv_input, first, in, i, j, 3, d_weight);
                    }
}

// Turns gradients of logits into those of mixed logits, in `d_mixed`: `vectors` vectors of a row of a block of heads.
INLINE void mixed_gradient(const struct plan *plan, const struct tile *tile, const float *d_conv, int64_t first,
                           int64_t row, int64_t s, const int vectors, float *d_mixed) {
    const struct fused_arguments *a = plan->a;
    vec total[HEAD_BLOCK][MAX_VECTORS] = {{{0}}};
    int64_t right = a->kernel - 1 - a->left;
    const float *at = d_conv + (row - tile->begin) * tile->row_stride + tile->margin - right + s;
    convolve(a, tile, at, block_of(a, plan->packed, first), vectors, total);
    for (int out = 0; out < HEAD_BLOCK; out++) {
        if (first + out >= a->heads) break;
        float rest = 1 - a->beta[first + out];
        float *d = d_mixed + (first + out) * (tile->end - tile->begin) * tile->columns;
        d += (row - tile->begin) * tile->columns + s;
        for (int v = 0; v < vectors; v++) store(d + v * LANES, load(d + v * LANES) * rest + total[out][v]);
    }
}

INLINE void mixed_gradients(const struct plan *plan, const struct tile *tile, const float *d_conv, int64_t first,
                            int64_t row, int64_t end, float *d_mixed) {
    int64_t s = 0, wide = MAX_VECTORS * LANES;
    for (; s + wide <= end; s += wide) mixed_gradient(plan, tile, d_conv, first, row, s, MAX_VECTORS, d_mixed);
    switch ((end - s) / LANES) {
    case 3: mixed_gradient(plan, tile, d_conv, first, row, s, 3 % (MAX_VECTORS + 1), d_mixed); break;
    case 2: mixed_gradient(plan, tile, d_conv, first, row, s, 2, d_mixed); break;
    case 1: mixed_gradient(plan, tile, d_conv, first, row, s, 1, d_mixed); break;
    }
}

// Memory of a backward pass over a tile.
struct gradients {
    float *d_conv, *conv_input;  // with margins: gradients of the convolution's output; its input
    float *d_mixed;              // (K, rows, columns): gradients of logits, then of mixed logits
};

INLINE int64_t gradients_size(const struct fused_arguments *a, const struct tile *tile) {
    return 2 * map_size(a, tile) + a->heads * rows_of(a) * tile->columns;
}

INLINE struct gradients clear_gradients(const struct fused_arguments *a, const struct tile *tile, float *memory) {
    int64_t size = map_size(a, tile);
    memset(memory, 0, 4 * gradients_size(a, tile));
    return (struct gradients){memory, memory + size, memory + 2 * size};
}

INLINE float *mixed_at(const struct tile *tile, const struct gradients *d, int64_t head, int64_t row) {
    return d->d_mixed + (head * (tile->end - tile->begin) + row - tile->begin) * tile->columns;
}

INLINE float *conv_at(const struct fused_arguments *a, const struct tile *tile, const struct gradients *d, int64_t head,
                      int64_t row) {
    return d->d_conv + head * tile->head_stride + (row - tile->begin + below_of(a)) * tile->row_stride + tile->margin;
}

// What a task adds to the gradients of parameters.
struct sums {
    float *weight, *bias;         // (K, K, kernel, kernel), (K), of the convolution before its factor beta
    float *scores, *previous;     // (K), of the weights in `mix`
    float *mixed;                 // (K), of 1 - beta, which the convolution's input is multiplied by
};

INLINE int64_t taps_of(const struct fused_arguments *a) { return a->heads * a->heads * a->kernel * a->kernel; }
INLINE int64_t sums_of(const struct fused_arguments *a) { return taps_of(a) + 4 * a->heads; }

INLINE struct sums sums_at(const struct fused_arguments *a, float *sums) {
    float *by_head = sums + taps_of(a);
    return (struct sums){sums, by_head, by_head + a->heads, by_head + 2 * a->heads, by_head + 3 * a->heads};
}

INLINE struct sums sums_of_task(const struct plan *plan, int64_t task) {
    return sums_at(plan->a, plan->partial + task * sums_of(plan->a));
}

// The dot product of a row of gradients and the visible entries of a row of a map.
INLINE float dot_of_row(const struct fused_arguments *a, const struct tile *tile, const float *gradients,
                        const void *map, int64_t index, int64_t end, int bf16) {
    vec total = {0};
    for (int64_t s = 0; s < end; s += LANES)
        total += load(gradients + s) * where(visible(tile, s), masked_load(map, index + s, a->keys - s, bf16));
    return reduce_sum(total);
}

// From the gradients of logits and convolution: those of mixed logits, and what the tile adds to those of parameters.
INLINE void finish_gradients(const struct plan *plan, struct tile *tile, struct gradients *d, struct sums sums,
                             int bf16) {
    const struct fused_arguments *a = plan->a;
    int64_t rows = tile->end - tile->begin;
    if (a->weight) {
        weight_gradients(a, tile, d->d_conv, d->conv_input, sums.weight);
        for (int64_t head = 0; head < a->heads; head++) {
            const float *of_head = conv_at(a, tile, d, head, tile->begin);
            vec total = {0};
            for (int64_t row = 0; row < rows; row++)
                for (int64_t s = 0; s < tile->columns; s += LANES) total += load(of_head + row * tile->row_stride + s);
            sums.bias[head] += reduce_sum(total);
        }
    }
    for (int64_t row = tile->begin; row < tile->end; row++) {
        int64_t end = is_padded(a, tile, row) ? 0 : load_visibility(a, tile, row);
        for (int64_t head = 0; a->d_beta && head < a->heads; head++) {
            int64_t at = head * tile->head_stride + (row - tile->begin + a->above) * tile->row_stride + tile->margin;
            sums.mixed[head] += dot_of_row(a, tile, mixed_at(tile, d, head, row), d->conv_input, at, end, 0);
        }
        for (int64_t first = 0; a->weight && first < a->heads; first += HEAD_BLOCK)
            mixed_gradients(plan, tile, d->d_conv, first, row, end, d->d_mixed);
        for (int64_t head = 0; head < a->heads; head++) {
            float *of_head = mixed_at(tile, d, head, row);
            for (int64_t s = 0; s < end; s += LANES) store(of_head + s, where(visible(tile, s), load(of_head + s)));
            memset(of_head + end, 0, 4 * (tile->columns - end));
            if (!a->d_mix) continue;
            int64_t index = map_index(a, tile, head, row);
            sums.previous[head] += dot_of_row(a, tile, of_head, a->previous, index, end, bf16);
            if (a->scores) sums.scores[head] += a->scale * dot_of_row(a, tile, of_head, a->scores, index, end, bf16);
        }
    }
}

// Writes the tile's rows of a map, the gradients of mixed logits times `scale` and, if there are any, weights of heads.
INLINE void write_gradients(const struct fused_arguments *a, const struct tile *tile, const struct gradients *d,
                            void *map, double scale, const float *weights, int bf16) {
    for (int64_t head = 0; head < a->heads; head++) {
        float factor = scale * (weights ? weights[head] : 1);
        for (int64_t row = tile->begin; row < tile->end; row++) {
            const float *from = mixed_at(tile, d, head, row);
            int64_t index = map_index(a, tile, head, row);
            for (int64_t s = 0; s < a->keys; s += LANES)
                masked_store(map, index + s, a->keys - s, load(from + s) * factor, bf16);
        }
    }
}

INLINE int backward_tile(const struct plan *plan, int64_t task, int bf16) {
    const struct fused_arguments *a = plan->a;
    struct tile tile = tile_of(a, task);
    int64_t size = gradients_size(a, &tile), below = below_of(a);
    float *memory = scratch(size + visibility_size(a));
    if (!memory) return 1;
    tile.visibility = (int32_t *)(memory + size);
    move_tile(a, &tile, tile.begin);
    struct gradients d = clear_gradients(a, &tile, memory);
    // Through the softmax and the ReLU, in all rows whose taps reach the tile.
    for (int64_t row = max_of(tile.begin - below, 0); row < min_of(tile.end + a->above, a->queries); row++) {
        if (is_padded(a, &tile, row)) continue;
        int64_t end = load_visibility(a, &tile, row), own = row >= tile.begin && row < tile.end;
        for (int64_t head = 0; head < a->heads; head++)
            logits_gradient(a, &tile, head, row, end, a->probabilities, a->d_probabilities,
                            map_index(a, &tile, head, row), own ? mixed_at(&tile, &d, head, row) : NULL,
                            a->weight ? conv_at(a, &tile, &d, head, row) : NULL, bf16);
    }
    // What the convolution has read, for the gradient of its weight.
    if (a->weight) {
        int64_t first = tile.begin - a->above, last = min_of(tile.end + below, a->queries);
        for (int64_t head = 0; head < a->heads; head++)
            for (int64_t row = max_of(first, 0); row < last; row++) {
                float *x = d.conv_input + head * tile.head_stride + (row - first) * tile.row_stride + tile.margin;
                int64_t index = map_index(a, &tile, head, row);
                for (int64_t s = 0; s < a->keys; s += LANES)
                    store(x + s, masked_load(a->conv_input, index + s, a->keys - s, bf16));
            }
    }
    // Through the convolution and the skip connection.
    finish_gradients(plan, &tile, &d, sums_of_task(plan, task), bf16);
    write_gradients(a, &tile, &d, a->d_scores, a->scale, a->mix, bf16);
    if (a->d_previous) write_gradients(a, &tile, &d, a->d_previous, 1, a->mix + a->heads, bf16);
    return 0;
}

static int backward_float32(const void *plan, int64_t task) { return backward_tile(plan, task, 0); }
static int backward_bfloat16(const void *plan, int64_t task) { return backward_tile(plan, task, 1); }

// Adds up the parts of all tasks to the gradients of parameters. The convolution is linear in weight and bias: the
// product of its output and that output's gradient is that of weight and bias and theirs.
static void add_up(const struct plan *plan, int64_t tasks) {
    const struct fused_arguments *a = plan->a;
    int64_t count = sums_of(a), taps = taps_of(a) / a->heads;
    struct sums sums = sums_at(a, plan->partial);
    for (int64_t i = 0; i < count; i++) {
        double total = 0;
        for (int64_t task = 0; task < tasks; task++) total += plan->partial[task * count + i];
        plan->partial[i] = total;
    }
    for (int64_t head = 0; a->weight && head < a->heads; head++) {
        double products = (double)a->bias[head] * sums.bias[head];
        a->d_bias[head] = a->beta[head] * sums.bias[head];
        for (int64_t i = head * taps; i < (head + 1) * taps; i++) {
            products += (double)a->weight[i] * sums.weight[i];
            a->d_weight[i] = a->beta[head] * sums.weight[i];
        }
        if (a->d_beta) a->d_beta[head] = products - sums.mixed[head];
    }
    if (a->d_mix) memcpy(a->d_mix, sums.scores, 4 * 2 * a->heads);
}

// Shares a backward pass among the threads and adds up the gradients of parameters; returns whether it failed.
static int run_backward(const struct fused_arguments *a, int64_t tasks, task_t task) {
    float *packed = malloc(4 * packed_size(a)), *partial = calloc(tasks * sums_of(a), 4);
    struct plan plan = {.a = a, .packed = packed, .partial = partial};
    int failed = !packed || !partial;
    if (!failed) {
        if (a->weight) pack_weights(a, 1, packed);
        failed = share(&a->pool, tasks, task, &plan);
    }
    if (!failed && (a->weight || a->d_mix)) add_up(&plan, tasks);
    free(packed);
    free(partial);
    return failed;
}

int NAMED(evolve_backward)(const struct fused_arguments *a) {
    return run_backward(a, tiles_of(a), a->bf16 ? backward_bfloat16 : backward_float32);
}
