// The forward pass from scores to logits and probabilities, one task per tile. Included once for each instruction set.
#pragma once
#include <stdlib.h>

#include "tiles.h"

struct pass {
    const struct fused_arguments *args;
    const float *packed, *transposed;  // the convolution's weight, see pack_weights; the second only for backward
    float *task_gradients;  // (tasks, parameter_gradients_size): each task's struct parameter_gradients
};

// Writes mixed logits (EA eq. 4, the skip connection) into `map`, in all rows that the tile's convolution reads. In a
// whole attention, `scores` is NULL and `map` contains the scaled scores.
INLINE void mix_previous_logits(const struct fused_arguments *args, struct tile *tile, float *map, int bf16) {
    float scale = args->scale;
    int64_t first = tile->begin - args->above, last = min_int(tile->end + rows_below(args), args->queries);
    for (int64_t row = max_int(first, 0); row < last; row++) {
        int64_t end = is_padded(args, tile, row) ? 0 : load_key_mask(args, tile, row);
        for (int64_t head = 0; head < args->heads; head++) {
            float *to = map + centre_index(args, tile, head, row);
            int64_t index = map_index(args, tile, head, row);
            struct mix mix = {0};
            if (args->previous)
                mix = mix_weights(args->mix, weight_count(args), weight_index(args, tile, head, row));
            for (int64_t s = 0; s < end; s += LANES) {
                vec x =
                    args->scores ? masked_load(args->scores, index + s, args->keys - s, bf16) * scale : load(to + s);
                if (args->previous)
                    x = mix_logits(x, masked_load(args->previous, index + s, args->keys - s, bf16), mix);
                store(to + s, to_dtype(where(visible(tile, s), x), bf16));
            }
            if (!args->scores) memset(to + end, 0, 4 * (tile->columns - end));
        }
    }
}

// Stores the first `end` elements of `row`, followed by zeros, in a row of a map.
INLINE void store_row(const struct fused_arguments *args, void *map, int64_t index, const float *row, int64_t end,
                      int bf16) {
    for (int64_t s = 0; s < args->keys; s += LANES)
        masked_store(map, index + s, args->keys - s, s < end ? load(row + s) : (vec){0}, bf16);
}

// Replaces a row of logits by its softmax over visible keys (EA eq. 5); uniform over all keys if none is visible.
// Returns the end of the last vector that is not zero, and writes the row's logsumexp unless that is NULL.
INLINE int64_t softmax(const struct fused_arguments *args, const struct tile *tile, int64_t head, float *row,
                       int64_t end, float *logsumexp) {
    if (!end) {
        for (int64_t s = 0; s < tile->columns; s++) row[s] = 1.0f / args->keys;
        if (logsumexp) *logsumexp = -INFINITY;
        return tile->columns;
    }
    const float *sink = args->sinks ? args->sinks + head : NULL;
    float shift, total = softmax_numerators(row, tile->visible, end, sink, &shift);
    for (int64_t s = 0; s < end; s += LANES) store(row + s, load(row + s) * (1 / total));
    if (logsumexp) *logsumexp = shift + logf(total);
    return end;
}

// The convolution with its bias of `vectors` vectors of a row, for a block of heads from `first` on.
INLINE void biased_convolution(const struct pass *pass, const struct tile *tile, const float *map, int64_t first,
                               int64_t row, int64_t s, const int vectors, vec total[HEAD_BLOCK][MAX_VECTORS]) {
    const struct fused_arguments *args = pass->args;
    for (int out = 0; out < HEAD_BLOCK; out++)
        for (int v = 0; v < vectors; v++)
            total[out][v] = splat(first + out < args->heads ? args->bias[first + out] : 0);
    const float *at = map + (row - tile->begin) * tile->row_stride + tile->padding - args->left + s;
    convolve(args, tile, at, packed_block(args, pass->packed, first), vectors, total);
}

// The residual convolution (EA eq. 4) of `vectors` vectors of a row, for a block of heads from `first` on.
INLINE void residual_convolution(const struct pass *pass, const struct tile *tile, const float *map, int64_t first,
                                 int64_t row, int64_t s, const int vectors, float *logits) {
    const struct fused_arguments *args = pass->args;
    vec total[HEAD_BLOCK][MAX_VECTORS];
    biased_convolution(pass, tile, map, first, row, s, vectors, total);
    int64_t bytes = tile->columns / 8;
    FULLY_UNROLLED
    for (int out = 0; out < HEAD_BLOCK; out++) {
        if (first + out >= args->heads) break;
        const float *centre = map + centre_index(args, tile, first + out, row) + s;
        uint8_t *relu_mask = args->relu_mask + row_index(args, tile, first + out, row) * bytes + s / 8;
        float beta = args->beta[weight_index(args, tile, first + out, row)];
        FULLY_UNROLLED
        for (int v = 0; v < vectors; v++) {
            ivec seen = visible(tile, s + v * LANES), active = relu_passes(total[out][v]) & seen;
            vec x = lerp(load(centre + v * LANES), where(active, total[out][v]), beta);
            store(logits + out * tile->columns + s + v * LANES, where(seen, x));
            store_bits(relu_mask + v * LANES / 8, active);
        }
    }
}

// What is computed of `vectors` vectors of a row at `s`, for a block of heads from `first` on.
typedef void (*convolution_t)(const struct pass *pass, const struct tile *tile, const float *map, int64_t first,
                              int64_t row, int64_t s, const int vectors, float *to);

// Computes a whole row, as many vectors at the same time as registers hold.
INLINE void convolve_row(const struct pass *pass, const struct tile *tile, const float *map, int64_t first, int64_t row,
                         int64_t end, float *to, convolution_t convolution) {
    int64_t s = 0, wide = MAX_VECTORS * LANES;
    for (; s + wide <= end; s += wide) convolution(pass, tile, map, first, row, s, MAX_VECTORS, to);
    switch ((end - s) / LANES) {
    case 3: convolution(pass, tile, map, first, row, s, 3 % (MAX_VECTORS + 1), to); break;
    case 2: convolution(pass, tile, map, first, row, s, 2, to); break;
    case 1: convolution(pass, tile, map, first, row, s, 1, to); break;
    }
}

// Computes the logits of a row for a block of heads, and stores them and the convolution's input.
INLINE void compute_logits(const struct pass *pass, const struct tile *tile, const float *map, int64_t first,
                           int64_t row, int64_t end, float *logits, int bf16) {
    const struct fused_arguments *args = pass->args;
    memset(logits, 0, 4 * HEAD_BLOCK * tile->columns);
    if (args->weight) convolve_row(pass, tile, map, first, row, end, logits, residual_convolution);
    for (int64_t out = 0; out < HEAD_BLOCK && first + out < args->heads; out++) {
        int64_t index = map_index(args, tile, first + out, row);
        const float *mixed = map + centre_index(args, tile, first + out, row);
        float *head_row = logits + out * tile->columns;
        if (!args->weight) memcpy(head_row, mixed, 4 * tile->columns);
        if (args->conv_input) store_row(args, args->conv_input, index, mixed, end, bf16);
        store_row(args, args->logits, index, head_row, end, bf16);
    }
}

INLINE int forward_tile(const struct pass *pass, int64_t task, int bf16) {
    const struct fused_arguments *args = pass->args;
    struct tile tile = make_tile(args, task);
    int64_t size = map_size(args, &tile), rows_size = HEAD_BLOCK * tile.columns;
    float *map = thread_scratch(size + rows_size + key_masks_size(args)), *logits = map + size;
    if (!map) return 1;
    tile.key_masks = (int32_t *)(logits + rows_size);
    move_tile(args, &tile, tile.begin);
    // The skip connection (EA eq. 4), in all rows that the convolution reads.
    memset(map, 0, 4 * size);
    mix_previous_logits(args, &tile, map, bf16);
    // For each row and block of heads: the residual convolution (EA eq. 4) and the softmax (EA eq. 5).
    for (int64_t row = tile.begin; row < tile.end; row++) {
        int64_t end = load_key_mask(args, &tile, row), logits_end = is_padded(args, &tile, row) ? 0 : end;
        for (int64_t first = 0; first < args->heads; first += HEAD_BLOCK) {
            compute_logits(pass, &tile, map, first, row, logits_end, logits, bf16);
            for (int64_t out = 0; out < HEAD_BLOCK && first + out < args->heads; out++) {
                float *head_row = logits + out * tile.columns;
                int64_t index = map_index(args, &tile, first + out, row);
                int64_t stored = softmax(args, &tile, first + out, head_row, end, NULL);
                store_row(args, args->probabilities, index, head_row, stored, bf16);
            }
        }
    }
    return 0;
}

static int forward_float32(const void *pass, int64_t task) { return forward_tile(pass, task, 0); }
static int forward_bfloat16(const void *pass, int64_t task) { return forward_tile(pass, task, 1); }

// Runs the tasks of a forward pass on all threads; returns whether it failed.
static int run_forward(const struct fused_arguments *args, int64_t tasks, task_t task) {
    float *packed = malloc(4 * packed_size(args));
    if (!packed) return 1;
    if (args->weight) pack_weights(args, 0, packed);
    int failed = parallel_for(&args->pool, tasks, task, &(struct pass){.args = args, .packed = packed});
    free(packed);
    return failed;
}

int NAMED(evolve)(const struct fused_arguments *args) {
    return run_forward(args, tile_count(args), args->bf16 ? forward_bfloat16 : forward_float32);
}
