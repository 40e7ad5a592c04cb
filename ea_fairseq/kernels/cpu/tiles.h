// A tile is a thread's copy of some rows of one sentence's maps, for all heads, with zero padding for the convolution.
#pragma once
#include "fused_arguments.h"
#include "rows.h"

enum {
    HEAD_BLOCK = 4,     // output heads that are convolved at the same time
    COLUMN_BLOCK = 16,  // the padded length of a row, and of its ReLU mask in bits, is a multiple of it
    CACHE_FLOATS = 128 << 10,
};

struct tile {
    int64_t sentence, begin, end;  // the task writes rows begin..end-1
    // Padded length of a row, number of zeros between rows, and distances between rows and between heads.
    int64_t columns, padding, row_stride, head_stride;
    int32_t *visible;     // (columns): -1 for the visible keys of the current row, else 0
    int32_t *key_masks;  // the same for each row, and the end of its last visible vector, -1 if unknown
};

INLINE int64_t padded_columns(const struct fused_arguments *args) { return round_up(args->keys, COLUMN_BLOCK); }
INLINE int64_t column_padding(const struct fused_arguments *args) { return round_up(args->kernel - 1, COLUMN_BLOCK); }
INLINE int64_t row_stride(const struct fused_arguments *args) { return padded_columns(args) + column_padding(args); }

// The number of rows below an entry that the convolution reads.
INLINE int64_t rows_below(const struct fused_arguments *args) { return args->kernel - 1 - args->above; }

// Rows per task: as many as fit into the processor's cache with all heads, but at least 16, so that most rows are not
// padding.
INLINE int64_t rows_per_tile(const struct fused_arguments *args) {
    return min_int(args->queries, max_int(16, CACHE_FLOATS / (args->heads * row_stride(args))));
}

INLINE int64_t tiles_per_sentence(const struct fused_arguments *args) {
    return ceil_div(args->queries, rows_per_tile(args));
}
INLINE int64_t tile_count(const struct fused_arguments *args) { return args->sentences * tiles_per_sentence(args); }

INLINE struct tile make_tile(const struct fused_arguments *args, int64_t index) {
    int64_t rows = rows_per_tile(args), count = tiles_per_sentence(args);
    struct tile tile = {.sentence = index / count, .begin = index % count * rows};
    tile.columns = padded_columns(args);
    tile.padding = column_padding(args);
    tile.row_stride = row_stride(args);  // the zeros after a row are those before the next
    tile.head_stride = (rows + args->kernel - 1) * tile.row_stride;
    return tile;
}

// The maximum number of rows that a tile reads: its own, and those that the convolution and its gradient reach.
INLINE int64_t max_rows_read(const struct fused_arguments *args) {
    return rows_per_tile(args) + 2 * (args->kernel - 1);
}

// The size of `key_masks`: without a mask of future keys, all rows share one.
INLINE int64_t key_masks_size(const struct fused_arguments *args) {
    return (args->future ? max_rows_read(args) : 1) * (padded_columns(args) + COLUMN_BLOCK);
}

// Moves a tile to other rows of its sentence and resets their key masks.
INLINE void move_tile(const struct fused_arguments *args, struct tile *tile, int64_t begin) {
    tile->begin = begin;
    tile->end = min_int(begin + rows_per_tile(args), args->queries);
    for (int64_t i = tile->columns; i < key_masks_size(args); i += tile->columns + COLUMN_BLOCK)
        tile->key_masks[i] = -1;
}

// The number of elements of a tile's padded map.
INLINE int64_t map_size(const struct fused_arguments *args, const struct tile *tile) {
    return args->heads * tile->head_stride + tile->padding;
}

// The index of a row in maps (B, K, T, S), and that of its first entry.
INLINE int64_t row_index(const struct fused_arguments *args, const struct tile *tile, int64_t head, int64_t row) {
    return (tile->sentence * args->heads + head) * args->queries + row;
}
INLINE int64_t map_index(const struct fused_arguments *args, const struct tile *tile, int64_t head, int64_t row) {
    return row_index(args, tile, head, row) * args->keys;
}

// The index of a row's first entry in a tile's padded map.
INLINE int64_t centre_index(const struct fused_arguments *args, const struct tile *tile, int64_t head, int64_t row) {
    return head * tile->head_stride + (row - tile->begin + args->above) * tile->row_stride + tile->padding;
}

// The number of weights in `beta`, and the index of a row's.
INLINE int64_t weight_count(const struct fused_arguments *args) {
    return args->by_word ? args->sentences * args->heads * args->queries : args->heads;
}
INLINE int64_t weight_index(const struct fused_arguments *args, const struct tile *tile, int64_t head, int64_t row) {
    return args->by_word ? row_index(args, tile, head, row) : head;
}

// Makes a row the current one and computes its visible keys once; returns the end of the last visible vector.
INLINE int64_t load_key_mask(const struct fused_arguments *args, struct tile *tile, int64_t row) {
    int64_t place = args->future ? row - tile->begin + args->kernel - 1 : 0;
    tile->visible = tile->key_masks + place * (tile->columns + COLUMN_BLOCK);
    int32_t *end = tile->visible + tile->columns;
    if (*end >= 0) return *end;
    const uint8_t *padded = args->padded_keys ? args->padded_keys + tile->sentence * args->keys : NULL;
    const uint8_t *future = args->future ? args->future + row * args->keys : NULL;
    *end = 0;
    for (int64_t s = 0; s < tile->columns; s += LANES) {
        ivec visible = visible_keys(padded, future, s, args->keys);
        store_ivec(tile->visible + s, visible);
        if (mask_bits(visible)) *end = s + LANES;
    }
    return *end;
}

INLINE ivec visible(const struct tile *tile, int64_t s) { return load_ivec(tile->visible + s); }

INLINE int is_padded(const struct fused_arguments *args, const struct tile *tile, int64_t row) {
    return args->padded_queries && args->padded_queries[tile->sentence * args->queries + row];
}

// Packs weights (out, in, i, j) by blocks of outputs: (block, in, i, j, HEAD_BLOCK), zero beyond the last output.
// For the transposed convolution of the backward pass, in and out are swapped, the kernel is flipped and multiplied by
// a head's beta.
INLINE void pack_weights(const struct fused_arguments *args, int transposed, float *packed) {
    int64_t heads = args->heads, taps = args->kernel * args->kernel;
    for (int64_t first = 0; first < heads; first += HEAD_BLOCK)
        for (int64_t in = 0; in < heads; in++)
            for (int64_t tap = 0; tap < taps; tap++)
                for (int64_t out = first; out < first + HEAD_BLOCK; out++)
                    *packed++ = out >= heads ? 0
                              : transposed   ? args->weight[(in * heads + out) * taps + taps - 1 - tap] *
                                                 (args->by_word ? 1 : args->beta[in])
                                             : args->weight[(out * heads + in) * taps + tap];
}

INLINE int64_t packed_size(const struct fused_arguments *args) {
    return round_up(args->heads, HEAD_BLOCK) * args->heads * args->kernel * args->kernel;
}

// The packed weights of the block of outputs that begins with head `first`.
INLINE const float *packed_block(const struct fused_arguments *args, const float *packed, int64_t first) {
    return packed + first * args->heads * args->kernel * args->kernel;
}

// Adds the convolution (EA eq. 4) of `vectors` vectors to `total`, for a block of output heads; `at` is the entry that
// the kernel's first element reads in the first input head.
INLINE void convolve(const struct fused_arguments *args, const struct tile *tile, const float *at, const float *block,
                     const int vectors, vec total[HEAD_BLOCK][MAX_VECTORS]) {
    for (int64_t in = 0; in < args->heads; in++, at += tile->head_stride)
        for (int64_t i = 0; i < args->kernel; i++) {
            const float *row = at + i * tile->row_stride;
            for (int64_t j = 0; j < args->kernel; j++, row++, block += HEAD_BLOCK) {
                vec x[MAX_VECTORS];
                FULLY_UNROLLED
                for (int v = 0; v < vectors; v++) x[v] = load(row + v * LANES);
                FULLY_UNROLLED
                for (int out = 0; out < HEAD_BLOCK; out++) {
                    vec w = splat(block[out]);
                    FULLY_UNROLLED
                    for (int v = 0; v < vectors; v++) total[out][v] += w * x[v];
                }
            }
        }
}
