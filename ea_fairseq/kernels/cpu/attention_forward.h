// Forward pass of a whole attention in float32: its maps stay in the cache. Included once for each instruction set.
#pragma once
#include "evolution_forward.h"
#include "matmul.h"

// Floats of a token, of all its heads.
INLINE int64_t channels(const struct fused_arguments *a) { return a->heads * a->head_dim; }

// Tokens (T or S, B, K * head_dim) in a tensor with `stride` floats of each.
struct tokens {
    float *data;
    int64_t stride;
};

// Where a token of the tile's sentence begins.
INLINE float *token_at(const struct fused_arguments *a, const struct tile *tile, struct tokens tokens, int64_t token) {
    return tokens.data + (token * a->sentences + tile->sentence) * tokens.stride;
}

// Copies `count` tokens of the tile's sentence side by side; whole vectors may be read beyond the last. In memory the
// tokens of a sentence are far apart, so those ahead are prefetched.
enum { AHEAD = 8, CACHE_LINE = 16 };
INLINE int64_t tokens_size(const struct fused_arguments *a, int64_t count) { return count * channels(a) + LANES; }
INLINE void gather(const struct fused_arguments *a, const struct tile *tile, struct tokens from, int64_t first,
                   int64_t count, float *to) {
    for (int64_t token = 0; token < count; token++) {
        const float *ahead = token_at(a, tile, from, first + min_of(token + AHEAD, count - 1));
        for (int64_t i = 0; i < channels(a); i += CACHE_LINE) __builtin_prefetch(ahead + i, 0);
        memcpy(to + token * channels(a), token_at(a, tile, from, first + token), 4 * channels(a));
    }
}

// The reverse of `gather`.
INLINE void scatter(const struct fused_arguments *a, const struct tile *tile, const float *from, int64_t first,
                    int64_t count, struct tokens to) {
    for (int64_t token = 0; token < count; token++) {
        const float *ahead = token_at(a, tile, to, first + min_of(token + AHEAD, count - 1));
        for (int64_t i = 0; i < channels(a); i += CACHE_LINE) __builtin_prefetch(ahead + i, 1);
        memcpy(token_at(a, tile, to, first + token), from + token * channels(a), 4 * channels(a));
    }
}

INLINE struct tokens of_query(const struct fused_arguments *a, const float *data) {
    return (struct tokens){(float *)data, a->query_stride};
}
INLINE struct tokens of_key(const struct fused_arguments *a, const float *data) {
    return (struct tokens){(float *)data, a->key_stride};
}
INLINE struct tokens of_attended(const struct fused_arguments *a, const float *data) {
    return (struct tokens){(float *)data, channels(a)};
}

// Writes scaled scores (EA eq. 1) of the rows from `first` on, whose queries begin at `query`, into maps with margins.
INLINE void score_rows(const struct fused_arguments *a, const struct tile *tile, const float *query, const float *key,
                       int64_t first, int64_t rows, float *map, float *transposed) {
    for (int64_t head = 0; head < a->heads; head++) {
        float *to = map + head * tile->head_stride + (first - tile->begin + a->above) * tile->row_stride + tile->margin;
        pack_transposed(key + head * a->head_dim, channels(a), a->keys, a->head_dim, transposed, tile->columns);
        matmul(rows, a->head_dim, (struct matrix){query + head * a->head_dim, channels(a), 1}, transposed,
               tile->columns, (struct result){to, tile->row_stride, tile->columns, a->scale, 0});
    }
}

static int attend_tile(const void *argument, int64_t task) {
    const struct plan *plan = argument;
    const struct fused_arguments *a = plan->a;
    struct tile tile = tile_of(a, task);
    int64_t size = map_size(a, &tile), rows_size = rows_of(a) * tile.columns, block_size = HEAD_BLOCK * tile.columns;
    int64_t transposed_size = a->head_dim * tile.columns, keys_size = tokens_size(a, a->keys);
    int64_t queries_size = tokens_size(a, rows_read(a));
    float *map = scratch(size + HEAD_BLOCK * rows_size + block_size + transposed_size + 2 * keys_size + queries_size +
                         visibility_size(a));
    float *probabilities = map + size, *logits = probabilities + HEAD_BLOCK * rows_size;
    float *transposed = logits + block_size, *keys = transposed + transposed_size, *values = keys + keys_size;
    float *queries = values + keys_size;
    if (!map) return 1;
    tile.visibility = (int32_t *)(queries + queries_size);
    // Queries of the rows that the convolution reads, all keys and values of the sentence.
    move_tile(a, &tile, tile.begin);
    memset(map, 0, 4 * size);
    int64_t from = max_of(tile.begin - a->above, 0);
    int64_t rows = min_of(tile.end + below_of(a), a->queries) - from;
    gather(a, &tile, of_query(a, a->query), from, rows, queries);
    gather(a, &tile, of_key(a, a->key), 0, a->keys, keys);
    gather(a, &tile, of_key(a, a->value), 0, a->keys, values);
    // Scores (EA eq. 1), mixed with previous logits (EA eq. 4, the skip connection).
    score_rows(a, &tile, queries, keys, from, rows, map, transposed);
    mix_rows(a, &tile, map, 0);
    // By blocks of heads: the residual convolution (EA eq. 4), the softmax and the sums of values (EA eq. 5).
    for (int64_t first = 0; first < a->heads; first += HEAD_BLOCK) {
        int64_t outs = min_of(HEAD_BLOCK, a->heads - first);
        for (int64_t row = tile.begin; row < tile.end; row++) {
            int64_t end = load_visibility(a, &tile, row);
            forward_row(plan, &tile, map, first, row, is_padded(a, &tile, row) ? 0 : end, logits, 0);
            for (int64_t out = 0; out < outs; out++) {
                float *of_head = logits + out * tile.columns;
                softmax(a, &tile, of_head, end, a->logsumexp + map_index(a, &tile, first + out, row) / a->keys);
                memcpy(probabilities + out * rows_size + (row - tile.begin) * tile.columns, of_head, 4 * tile.columns);
            }
        }
        for (int64_t out = 0; out < outs; out++)  // in place of the queries, which have been read
            matmul(tile.end - tile.begin, a->keys, (struct matrix){probabilities + out * rows_size, tile.columns, 1},
                   values + (first + out) * a->head_dim, channels(a),
                   (struct result){queries + (first + out) * a->head_dim, channels(a), a->head_dim, 1, 0});
    }
    scatter(a, &tile, queries, tile.begin, tile.end - tile.begin, of_attended(a, a->attended));
    return 0;
}

int NAMED(attend)(const struct fused_arguments *a) { return run_forward(a, tiles_of(a), attend_tile); }
