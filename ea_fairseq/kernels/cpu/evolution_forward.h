// Forward pass from scores, or a whole attention's scaled ones, to logits and probabilities, by tiles. Included once
// for each instruction set.
#pragma once
#include <stdlib.h>

#include "tiles.h"

struct plan {
    const struct fused_arguments *a;
    const float *packed;  // weights, see pack_weights
    float *partial;       // (tasks, sums_of): what each task adds to the gradients of parameters, see struct sums
};

// Mixes rows of own and previous logits (EA eq. 4, the skip connection) into `map`, which, without scores, holds those
// that a whole attention has scaled.
INLINE void mix_rows(const struct fused_arguments *a, struct tile *tile, float *map, int bf16) {
    float scale = a->scale;
    int64_t first = tile->begin - a->above, last = min_of(tile->end + below_of(a), a->queries);
    for (int64_t row = max_of(first, 0); row < last; row++) {
        int64_t end = is_padded(a, tile, row) ? 0 : load_visibility(a, tile, row);
        for (int64_t head = 0; head < a->heads; head++) {
            float *to = map + head * tile->head_stride + (row - first) * tile->row_stride + tile->margin;
            int64_t index = map_index(a, tile, head, row);
            struct mix mix = a->previous ? mix_of(a->mix, a->heads, head) : (struct mix){0};
            for (int64_t s = 0; s < end; s += LANES) {
                vec x = a->scores ? masked_load(a->scores, index + s, a->keys - s, bf16) * scale : load(to + s);
                if (a->previous) x = mix_logits(x, masked_load(a->previous, index + s, a->keys - s, bf16), mix);
                store(to + s, to_dtype(where(visible(tile, s), x), bf16));
            }
            if (!a->scores) memset(to + end, 0, 4 * (tile->columns - end));
        }
    }
}

// Writes a row of a map: `row`, which holds `end` numbers, and zeros from there.
INLINE void write_row(const struct fused_arguments *a, void *map, int64_t index, const float *row, int64_t end,
                      int bf16) {
    for (int64_t s = 0; s < a->keys; s += LANES)
        masked_store(map, index + s, a->keys - s, s < end ? load(row + s) : (vec){0}, bf16);
}

// Softmax over the visible keys of the current row, in place, and over all where none is visible; returns the end of
// its vectors. Leaves the logsumexp of the visible keys where that is asked for.
INLINE int64_t softmax(const struct fused_arguments *a, const struct tile *tile, float *row, int64_t end,
                       float *logsumexp) {
    if (!end) {
        for (int64_t s = 0; s < tile->columns; s++) row[s] = 1.0f / a->keys;
        if (logsumexp) *logsumexp = -INFINITY;
        return tile->columns;
    }
    float shift, total = exponentiate(row, tile->visible, end, &shift);
    for (int64_t s = 0; s < end; s += LANES) store(row + s, load(row + s) * (1 / total));
    if (logsumexp) *logsumexp = shift + logf(total);
    return end;
}

// Convolves, applies the ReLU and mixes (EA eq. 4) `vectors` vectors of a row, of a block of heads.
INLINE void evolve_vectors(const struct plan *plan, const struct tile *tile, const float *map, int64_t first,
                           int64_t row, int64_t s, const int vectors, float *logits) {
    const struct fused_arguments *a = plan->a;
    vec total[HEAD_BLOCK][MAX_VECTORS];
    for (int out = 0; out < HEAD_BLOCK; out++)
        for (int v = 0; v < vectors; v++) total[out][v] = splat(first + out < a->heads ? a->bias[first + out] : 0);
    const float *at = map + (row - tile->begin) * tile->row_stride + tile->margin + s;
    convolve(a, tile, at - a->left, block_of(a, plan->packed, first), vectors, total);
    int64_t bytes = tile->columns / 8;
    FULLY_UNROLLED
    for (int out = 0; out < HEAD_BLOCK; out++) {
        if (first + out >= a->heads) break;
        const float *centre = at + (first + out) * tile->head_stride + a->above * tile->row_stride;
        int64_t mask_row = (tile->sentence * a->heads + first + out) * a->queries + row;
        uint8_t *relu_mask = a->relu_mask + mask_row * bytes + s / 8;
        float beta = a->beta[first + out];
        FULLY_UNROLLED
        for (int v = 0; v < vectors; v++) {
            ivec seen = visible(tile, s + v * LANES), active = relu_passes(total[out][v]) & seen;
            vec x = lerp(load(centre + v * LANES), where(active, total[out][v]), beta);
            store(logits + out * tile->columns + s + v * LANES, where(seen, x));
            store_bits(relu_mask + v * LANES / 8, active);
        }
    }
}

INLINE void evolve_row(const struct plan *plan, const struct tile *tile, const float *map, int64_t first, int64_t row,
                       int64_t end, float *logits) {
    int64_t s = 0, wide = MAX_VECTORS * LANES;
    for (; s + wide <= end; s += wide) evolve_vectors(plan, tile, map, first, row, s, MAX_VECTORS, logits);
    switch ((end - s) / LANES) {
    case 3: evolve_vectors(plan, tile, map, first, row, s, 3 % (MAX_VECTORS + 1), logits); break;
    case 2: evolve_vectors(plan, tile, map, first, row, s, 2, logits); break;
    case 1: evolve_vectors(plan, tile, map, first, row, s, 1, logits); break;
    }
}

// Computes the logits of a row of a block of heads into `logits`, and writes them and the convolution's input.
INLINE void forward_row(const struct plan *plan, const struct tile *tile, const float *map, int64_t first, int64_t row,
                        int64_t end, float *logits, int bf16) {
    const struct fused_arguments *a = plan->a;
    memset(logits, 0, 4 * HEAD_BLOCK * tile->columns);
    if (a->weight) evolve_row(plan, tile, map, first, row, end, logits);
    for (int64_t out = 0; out < HEAD_BLOCK && first + out < a->heads; out++) {
        int64_t index = map_index(a, tile, first + out, row), map_row = row - tile->begin + a->above;
        const float *mixed = map + (first + out) * tile->head_stride + map_row * tile->row_stride + tile->margin;
        float *of_head = logits + out * tile->columns;
        if (!a->weight) memcpy(of_head, mixed, 4 * tile->columns);
        if (a->conv_input) write_row(a, a->conv_input, index, mixed, end, bf16);
        write_row(a, a->logits, index, of_head, end, bf16);
    }
}

INLINE int forward_tile(const struct plan *plan, int64_t task, int bf16) {
    const struct fused_arguments *a = plan->a;
    struct tile tile = tile_of(a, task);
    int64_t size = map_size(a, &tile), rows_size = HEAD_BLOCK * tile.columns;
    float *map = scratch(size + rows_size + visibility_size(a)), *logits = map + size;
    if (!map) return 1;
    tile.visibility = (int32_t *)(logits + rows_size);
    move_tile(a, &tile, tile.begin);
    // The skip connection (EA eq. 4), in all rows that the convolution reads.
    memset(map, 0, 4 * size);
    mix_rows(a, &tile, map, bf16);
    // By rows and blocks of heads: the residual convolution (EA eq. 4) and the softmax (EA eq. 5).
    for (int64_t row = tile.begin; row < tile.end; row++) {
        int64_t end = load_visibility(a, &tile, row), logits_end = is_padded(a, &tile, row) ? 0 : end;
        for (int64_t first = 0; first < a->heads; first += HEAD_BLOCK) {
            forward_row(plan, &tile, map, first, row, logits_end, logits, bf16);
            for (int64_t out = 0; out < HEAD_BLOCK && first + out < a->heads; out++) {
                float *of_head = logits + out * tile.columns;
                int64_t index = map_index(a, &tile, first + out, row);
                write_row(a, a->probabilities, index, of_head, softmax(a, &tile, of_head, end, NULL), bf16);
            }
        }
    }
    return 0;
}

static int forward_float32(const void *plan, int64_t task) { return forward_tile(plan, task, 0); }
static int forward_bfloat16(const void *plan, int64_t task) { return forward_tile(plan, task, 1); }

// Shares a forward pass among the threads; returns whether it failed.
static int run_forward(const struct fused_arguments *a, int64_t tasks, task_t task) {
    float *packed = malloc(4 * packed_size(a));
    if (!packed) return 1;
    if (a->weight) pack_weights(a, 0, packed);
    int failed = share(&a->pool, tasks, task, &(struct plan){.a = a, .packed = packed});
    free(packed);
    return failed;
}

int NAMED(evolve)(const struct fused_arguments *a) {
    return run_forward(a, tiles_of(a), a->bf16 ? forward_bfloat16 : forward_float32);
}
