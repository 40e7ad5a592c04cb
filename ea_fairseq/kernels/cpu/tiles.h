// Tiles: some rows of one sentence's maps, all heads, in memory of a thread, with margins of zeros where a tap reads
// beyond the map.
#pragma once
#include "fused_arguments.h"
#include "rows.h"

enum {
    HEAD_BLOCK = 4,     // heads that are convolved side by side
    COLUMN_BLOCK = 16,  // columns of a row in memory are a multiple of it, and the bits of its ReLU mask
    CACHE_FLOATS = 128 << 10,
};

struct tile {
    int64_t sentence, begin, end;  // the rows that the task writes
    // Floats of a row, of the zeros before and behind it, from row to row and from head to head.
    int64_t columns, margin, row_stride, head_stride;
    int32_t *visible;     // (columns), -1 where the current row has a visible key
    int32_t *visibility;  // the same of each row, each followed by the end of its last vector with a visible key, or -1
};

INLINE int64_t columns_of(const struct fused_arguments *a) { return round_up(a->keys, COLUMN_BLOCK); }
INLINE int64_t margin_of(const struct fused_arguments *a) { return round_up(a->kernel - 1, COLUMN_BLOCK); }
INLINE int64_t row_stride_of(const struct fused_arguments *a) { return columns_of(a) + margin_of(a); }

// Rows below an entry that its taps reach.
INLINE int64_t below_of(const struct fused_arguments *a) { return a->kernel - 1 - a->above; }

// Rows of a task: as many as fit in a cache with all their heads, at least 16 lest margins cost more than the rows.
INLINE int64_t rows_of(const struct fused_arguments *a) {
    return min_of(a->queries, max_of(16, CACHE_FLOATS / (a->heads * row_stride_of(a))));
}

INLINE int64_t tiles_per_sentence(const struct fused_arguments *a) { return ceil_div(a->queries, rows_of(a)); }
INLINE int64_t tiles_of(const struct fused_arguments *a) { return a->sentences * tiles_per_sentence(a); }

INLINE struct tile tile_of(const struct fused_arguments *a, int64_t index) {
    int64_t rows = rows_of(a), count = tiles_per_sentence(a);
    struct tile tile = {.sentence = index / count, .begin = index % count * rows};
    tile.columns = columns_of(a);
    tile.margin = margin_of(a);
    tile.row_stride = row_stride_of(a);  // the zeros behind a row are those before the next
    tile.head_stride = (rows + a->kernel - 1) * tile.row_stride;
    return tile;
}

// Most rows that a tile reads: its own, and those that the taps of its own and of their gradients reach.
INLINE int64_t rows_read(const struct fused_arguments *a) { return rows_of(a) + 2 * (a->kernel - 1); }

// Floats of `visibility`: without a mask of future keys it is the same for all rows.
INLINE int64_t visibility_size(const struct fused_arguments *a) {
    return (a->future ? rows_read(a) : 1) * (columns_of(a) + COLUMN_BLOCK);
}

// Moves a tile to other rows of its sentence, whose visibility is not known yet.
INLINE void move_tile(const struct fused_arguments *a, struct tile *tile, int64_t begin) {
    tile->begin = begin;
    tile->end = min_of(begin + rows_of(a), a->queries);
    for (int64_t i = tile->columns; i < visibility_size(a); i += tile->columns + COLUMN_BLOCK) tile->visibility[i] = -1;
}

// Floats of a tile's map with its margins.
INLINE int64_t map_size(const struct fused_arguments *a, const struct tile *tile) {
    return a->heads * tile->head_stride + tile->margin;
}

// Where a row of a map (B, K, T, S) begins.
INLINE int64_t map_index(const struct fused_arguments *a, const struct tile *tile, int64_t head, int64_t row) {
    return ((tile->sentence * a->heads + head) * a->queries + row) * a->keys;
}

// Finds the visible keys of a row, which becomes the current one; returns the end of the last vector that has one.
INLINE int64_t load_visibility(const struct fused_arguments *a, struct tile *tile, int64_t row) {
    int64_t place = a->future ? row - tile->begin + a->kernel - 1 : 0;
    tile->visible = tile->visibility + place * (tile->columns + COLUMN_BLOCK);
    int32_t *end = tile->visible + tile->columns;
    if (*end >= 0) return *end;
    const uint8_t *padded = a->padded_keys ? a->padded_keys + tile->sentence * a->keys : NULL;
    const uint8_t *future = a->future ? a->future + row * a->keys : NULL;
    *end = 0;
    for (int64_t s = 0; s < tile->columns; s += LANES) {
        ivec visible = visible_keys(padded, future, s, a->keys);
        store_ivec(tile->visible + s, visible);
        if (mask_bits(visible)) *end = s + LANES;
    }
    return *end;
}

INLINE ivec visible(const struct tile *tile, int64_t s) { return load_ivec(tile->visible + s); }

INLINE int is_padded(const struct fused_arguments *a, const struct tile *tile, int64_t row) {
    return a->padded_queries && a->padded_queries[tile->sentence * a->queries + row];
}

// Packs weights (out, in, i, j) by blocks of outputs: (block, in, i, j, HEAD_BLOCK), zero beyond the last output.
// Transposed, they are those of the gradient: in and out are exchanged, the taps reversed, and beta is multiplied in.
INLINE void pack_weights(const struct fused_arguments *a, int transposed, float *packed) {
    int64_t heads = a->heads, taps = a->kernel * a->kernel;
    for (int64_t first = 0; first < heads; first += HEAD_BLOCK)
        for (int64_t in = 0; in < heads; in++)
            for (int64_t tap = 0; tap < taps; tap++)
                for (int64_t out = first; out < first + HEAD_BLOCK; out++)
                    *packed++ = out >= heads ? 0
                              : transposed ? a->weight[(in * heads + out) * taps + taps - 1 - tap] * a->beta[in]
                                           : a->weight[(out * heads + in) * taps + tap];
}

INLINE int64_t packed_size(const struct fused_arguments *a) {
    return round_up(a->heads, HEAD_BLOCK) * a->heads * a->kernel * a->kernel;
}

// The packed weights of the block of outputs that begins with head `first`.
INLINE const float *block_of(const struct fused_arguments *a, const float *packed, int64_t first) {
    return packed + first * a->heads * a->kernel * a->kernel;
}

// Adds the convolution of a tile at `at` (of the first head's corner tap) for a block of outputs and `vectors` vectors.
INLINE void convolve(const struct fused_arguments *a, const struct tile *tile, const float *at, const float *block,
                     const int vectors, vec total[HEAD_BLOCK][MAX_VECTORS]) {
    for (int64_t in = 0; in < a->heads; in++, at += tile->head_stride)
        for (int64_t i = 0; i < a->kernel; i++) {
            const float *row = at + i * tile->row_stride;
            for (int64_t j = 0; j < a->kernel; j++, row++, block += HEAD_BLOCK) {
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
