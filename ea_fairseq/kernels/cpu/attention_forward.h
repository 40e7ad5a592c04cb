// The forward pass of a whole attention in float32, whose maps stay in the processor's cache. Included once for each
// instruction set.
#pragma once
#include "evolution_forward.h"
#include "matmul.h"

// The number of elements of a token, over all heads.
INLINE int64_t channels(const struct fused_arguments *args) { return args->heads * args->head_dim; }

// A view of tokens (T or S, B, K * head_dim) in a tensor with `stride` elements per token.
struct token_view {
    float *data;
    int64_t stride;
};

// The address of a token of the tile's sentence.
INLINE float *token_at(const struct fused_arguments *args, const struct tile *tile, struct token_view tokens,
                       int64_t token) {
    return tokens.data + (token * args->sentences + tile->sentence) * tokens.stride;
}

// Copies `count` tokens of the tile's sentence into a contiguous buffer, which has room for a whole vector after the
// last. The tokens of a sentence are far apart in memory, so the next ones are prefetched.
enum { AHEAD = 8, CACHE_LINE = 16 };
INLINE int64_t tokens_size(const struct fused_arguments *args, int64_t count) { return count * channels(args) + LANES; }
INLINE void gather(const struct fused_arguments *args, const struct tile *tile, struct token_view from, int64_t first,
                   int64_t count, float *to) {
    for (int64_t token = 0; token < count; token++) {
        const float *ahead = token_at(args, tile, from, first + min_int(token + AHEAD, count - 1));
        for (int64_t i = 0; i < channels(args); i += CACHE_LINE) __builtin_prefetch(ahead + i, 0);
        memcpy(to + token * channels(args), token_at(args, tile, from, first + token), 4 * channels(args));
    }
}

// Copies a contiguous buffer back to the tokens of the tile's sentence.
INLINE void scatter(const struct fused_arguments *args, const struct tile *tile, const float *from, int64_t first,
                    int64_t count, struct token_view to) {
    for (int64_t token = 0; token < count; token++) {
        const float *ahead = token_at(args, tile, to, first + min_int(token + AHEAD, count - 1));
        for (int64_t i = 0; i < channels(args); i += CACHE_LINE) __builtin_prefetch(ahead + i, 1);
        memcpy(token_at(args, tile, to, first + token), from + token * channels(args), 4 * channels(args));
    }
}

INLINE struct token_view query_view(const struct fused_arguments *args, const float *data) {
    return (struct token_view){(float *)data, args->query_stride};
}
INLINE struct token_view key_view(const struct fused_arguments *args, const float *data) {
    return (struct token_view){(float *)data, args->key_stride};
}
INLINE struct token_view attended_view(const struct fused_arguments *args, const float *data) {
    return (struct token_view){(float *)data, channels(args)};
}

// Writes scaled scores Q K^T (EA eq. 1) of rows from `first` on, whose queries are at `query`, into a padded map.
INLINE void scaled_scores(const struct fused_arguments *args, const struct tile *tile, const float *query,
                          const float *key, int64_t first, int64_t rows, float *map, float *transposed) {
    for (int64_t head = 0; head < args->heads; head++) {
        float *to = map + centre_index(args, tile, head, first);
        pack_transposed(key + head * args->head_dim, channels(args), args->keys, args->head_dim, transposed,
                        tile->columns);
        matmul(rows, args->head_dim, (struct matrix){query + head * args->head_dim, channels(args), 1}, transposed,
               tile->columns, (struct result){to, tile->row_stride, tile->columns, args->scale, 0});
    }
}

static int attend_tile(const void *argument, int64_t task) {
    const struct pass *pass = argument;
    const struct fused_arguments *args = pass->args;
    struct tile tile = make_tile(args, task);
    int64_t size = map_size(args, &tile), rows_size = rows_per_tile(args) * tile.columns,
            block_size = HEAD_BLOCK * tile.columns;
    int64_t transposed_size = args->head_dim * tile.columns, keys_size = tokens_size(args, args->keys);
    int64_t queries_size = tokens_size(args, max_rows_read(args));
    float *map = thread_scratch(size + HEAD_BLOCK * rows_size + block_size + transposed_size + 2 * keys_size +
                                queries_size + key_masks_size(args));
    float *probabilities = map + size, *logits = probabilities + HEAD_BLOCK * rows_size;
    float *transposed = logits + block_size, *keys = transposed + transposed_size, *values = keys + keys_size;
    float *queries = values + keys_size;
    if (!map) return 1;
    tile.key_masks = (int32_t *)(queries + queries_size);
    // Gather the queries of the rows that the convolution reads, and all keys and values of the sentence.
    move_tile(args, &tile, tile.begin);
    memset(map, 0, 4 * size);
    int64_t from = max_int(tile.begin - args->above, 0);
    int64_t rows = min_int(tile.end + rows_below(args), args->queries) - from;
    gather(args, &tile, query_view(args, args->query), from, rows, queries);
    gather(args, &tile, key_view(args, args->key), 0, args->keys, keys);
    gather(args, &tile, key_view(args, args->value), 0, args->keys, values);
    // Compute the scores (EA eq. 1) and mix them with the previous logits (EA eq. 4, the skip connection).
    scaled_scores(args, &tile, queries, keys, from, rows, map, transposed);
    mix_previous_logits(args, &tile, map, 0);
    // For each block of heads: the residual convolution (EA eq. 4), softmax and weighted sum of values (EA eq. 5).
    for (int64_t first = 0; first < args->heads; first += HEAD_BLOCK) {
        int64_t block_heads = min_int(HEAD_BLOCK, args->heads - first);
        for (int64_t row = tile.begin; row < tile.end; row++) {
            int64_t end = load_key_mask(args, &tile, row);
            compute_logits(pass, &tile, map, first, row, is_padded(args, &tile, row) ? 0 : end, logits, 0);
            for (int64_t out = 0; out < block_heads; out++) {
                float *head_row = logits + out * tile.columns;
                softmax(args, &tile, first + out, head_row, end,
                        args->logsumexp + row_index(args, &tile, first + out, row));
                memcpy(probabilities + out * rows_size + (row - tile.begin) * tile.columns, head_row, 4 * tile.columns);
            }
        }
        for (int64_t out = 0; out < block_heads; out++)  // overwrites the queries, which are not read again
            matmul(tile.end - tile.begin, args->keys, (struct matrix){probabilities + out * rows_size, tile.columns, 1},
                   values + (first + out) * args->head_dim, channels(args),
                   (struct result){queries + (first + out) * args->head_dim, channels(args), args->head_dim, 1, 0});
    }
    scatter(args, &tile, queries, tile.begin, tile.end - tile.begin, attended_view(args, args->attended));
    return 0;
}

int NAMED(attend)(const struct fused_arguments *args) { return run_forward(args, tile_count(args), attend_tile); }
