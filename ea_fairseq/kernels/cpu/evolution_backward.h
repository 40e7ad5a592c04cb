// Backward pass from the gradients of logits and probabilities, by tiles. Included once for each instruction set.
#pragma once
#include "evolution_forward.h"

// Gradients of a row's logits, all that reach them, into `d_logits`, and of its convolution, into `d_conv`. `p` and
// `d_p` hold the row's probabilities and their gradients from `at` on.
INLINE void logits_gradient(const struct fused_arguments *a, const struct tile *tile, int64_t head, int64_t row,
                            int64_t end, const void *p, const void *d_p, int64_t at, float *d_logits, float *d_conv,
                            int bf16) {
    int64_t index = map_index(a, tile, head, row);
    const uint8_t *relu_mask = d_conv ? a->relu_mask + index / a->keys * (tile->columns / 8) : NULL;
    vec total = {0};
    for (int64_t s = 0; s < end; s += LANES)
        total += where(visible(tile, s),
                       masked_load(p, at + s, a->keys - s, bf16) * masked_load(d_p, at + s, a->keys - s, bf16));
    float dot = reduce_sum(total), beta = a->beta;
    for (int64_t s = 0; s < end; s += LANES) {
        vec d = a->d_logits ? masked_load(a->d_logits, index + s, a->keys - s, bf16) : (vec){0};
        d += masked_load(p, at + s, a->keys - s, bf16) * (masked_load(d_p, at + s, a->keys - s, bf16) - dot);
        d = where(visible(tile, s), d);
        if (d_logits) store(d_logits + s, d);
        if (d_conv) store(d_conv + s, where(load_bits(relu_mask + s / 8), d) * beta);
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
    float rest = 1 - a->beta;
    for (int out = 0; out < HEAD_BLOCK; out++) {
        if (first + out >= a->heads) break;
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

// From the gradients of logits and convolution: those of mixed logits, and what the tile adds to those of weight and
// bias.
INLINE void finish_gradients(const struct plan *plan, struct tile *tile, struct gradients *d, float *partial) {
    const struct fused_arguments *a = plan->a;
    int64_t taps = a->heads * a->heads * a->kernel * a->kernel, rows = tile->end - tile->begin;
    if (a->weight) {
        weight_gradients(a, tile, d->d_conv, d->conv_input, partial);
        for (int64_t head = 0; head < a->heads; head++) {
            const float *of_head = conv_at(a, tile, d, head, tile->begin);
            vec total = {0};
            for (int64_t row = 0; row < rows; row++)
                for (int64_t s = 0; s < tile->columns; s += LANES) total += load(of_head + row * tile->row_stride + s);
            partial[taps + head] += reduce_sum(total);
        }
    }
    for (int64_t row = tile->begin; row < tile->end; row++) {
        int64_t end = is_padded(a, tile, row) ? 0 : load_visibility(a, tile, row);
        for (int64_t first = 0; a->weight && first < a->heads; first += HEAD_BLOCK)
            mixed_gradients(plan, tile, d->d_conv, first, row, end, d->d_mixed);
        for (int64_t head = 0; head < a->heads; head++) {
            float *of_head = mixed_at(tile, d, head, row);
            for (int64_t s = 0; s < end; s += LANES) store(of_head + s, where(visible(tile, s), load(of_head + s)));
            memset(of_head + end, 0, 4 * (tile->columns - end));
        }
    }
}

// Writes the tile's rows of a map, `factor` times the gradients of mixed logits.
INLINE void write_gradients(const struct fused_arguments *a, const struct tile *tile, const struct gradients *d,
                            void *map, float factor, int bf16) {
    for (int64_t head = 0; head < a->heads; head++)
        for (int64_t row = tile->begin; row < tile->end; row++) {
            const float *from = mixed_at(tile, d, head, row);
            int64_t index = map_index(a, tile, head, row);
            for (int64_t s = 0; s < a->keys; s += LANES)
                masked_store(map, index + s, a->keys - s, load(from + s) * factor, bf16);
        }
}

INLINE int64_t parameters_of(const struct fused_arguments *a) {
    return a->heads * a->heads * a->kernel * a->kernel + a->heads;
}

INLINE float *partial_of(const struct plan *plan, int64_t task) {
    return plan->partial + task * parameters_of(plan->a);
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
    for (int64_t row = max_of(tile.begin - below, 0); row < min_of(tile.end + a->above, a->queries); row++) {
        if (is_padded(a, &tile, row)) continue;
        int64_t end = load_visibility(a, &tile, row), own = row >= tile.begin && row < tile.end;
        for (int64_t head = 0; head < a->heads; head++)
            logits_gradient(a, &tile, head, row, end, a->probabilities, a->d_probabilities,
                            map_index(a, &tile, head, row), own ? mixed_at(&tile, &d, head, row) : NULL,
                            a->weight ? conv_at(a, &tile, &d, head, row) : NULL, bf16);
    }
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
    finish_gradients(plan, &tile, &d, partial_of(plan, task));
    write_gradients(a, &tile, &d, a->d_scores, a->scale * a->own_weight, bf16);
    if (a->d_previous) write_gradients(a, &tile, &d, a->d_previous, a->previous_weight, bf16);
    return 0;
}

static int backward_float32(const void *plan, int64_t task) { return backward_tile(plan, task, 0); }
static int backward_bfloat16(const void *plan, int64_t task) { return backward_tile(plan, task, 1); }

// Shares a backward pass among the threads and adds up the gradients of weight and bias; returns whether it failed.
static int run_backward(const struct fused_arguments *a, int64_t tasks, task_t task) {
    int64_t parameters = parameters_of(a), weights = parameters - a->heads;
    float *packed = malloc(4 * packed_size(a)), *partial = calloc(tasks * parameters, 4);
    int failed = !packed || !partial;
    if (!failed) {
        if (a->weight) pack_weights(a, 1, packed);
        failed = share(&a->pool, tasks, task, &(struct plan){.a = a, .packed = packed, .partial = partial});
    }
    for (int64_t i = 0; a->weight && !failed && i < parameters; i++) {
        double total = 0;
        for (int64_t part = 0; part < tasks; part++) total += partial[part * parameters + i];
        *(i < weights ? a->d_weight + i : a->d_bias + i - weights) = total;
    }
    free(packed);
    free(partial);
    return failed;
}

int NAMED(evolve_backward)(const struct fused_arguments *a) {
    return run_backward(a, tiles_of(a), a->bf16 ? backward_bfloat16 : backward_float32);
}
