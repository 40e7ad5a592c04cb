// Rows of one sentence's maps in memory of a thread, all heads, with margins of zeros where a tap reads beyond the map.
#pragma once
#include "evolution.h"
#include "vectors.h"

enum { HEADS = 4, BITS = 16, MOST_VECTORS = LANES == 16 ? 4 : 2, CACHE = 128 << 10 };

INLINE int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
INLINE int64_t lowest(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t highest(int64_t a, int64_t b) { return a > b ? a : b; }

struct tile {
    int64_t sentence, begin, end;  // the rows that the task writes
    int64_t columns, margin, width, plane;  // floats: of a row, of zeros before and behind it, from row to row and head to head
    int32_t *visible;  // (columns), -1 where the row at hand has a key to see
    int32_t *looks;  // the same of every row, each followed by the end of its last vector with such a key, or -1
};

INLINE int64_t columns_of(const struct evolution *e) { return round_up(e->keys, BITS); }
INLINE int64_t margin_of(const struct evolution *e) { return round_up(e->kernel - 1, BITS); }
INLINE int64_t width_of(const struct evolution *e) { return columns_of(e) + margin_of(e); }

// Rows of a task: as many as fit in a cache with all their heads, at least 16 lest margins cost more than the rows.
INLINE int64_t rows_of(const struct evolution *e) {
    return lowest(e->queries, highest(16, CACHE / (e->heads * width_of(e))));
}

INLINE int64_t tasks_of(const struct evolution *e) {
    return e->sentences * ((e->queries + rows_of(e) - 1) / rows_of(e));
}

INLINE struct tile tile_of(const struct evolution *e, int64_t task) {
    int64_t rows = rows_of(e), parts = (e->queries + rows - 1) / rows;
    struct tile tile = {.sentence = task / parts, .begin = task % parts * rows};
    tile.columns = columns_of(e);
    tile.margin = margin_of(e);
    tile.width = width_of(e);  // the zeros behind a row are those before the next
    tile.plane = (rows + e->kernel - 1) * tile.width;
    return tile;
}

// Rows that a tile reads at most: its own, and those that the taps of its own and of their gradients reach.
INLINE int64_t reach_of(const struct evolution *e) { return rows_of(e) + 2 * (e->kernel - 1); }
INLINE int64_t looks_size(const struct evolution *e) {
    return (e->later ? reach_of(e) : 1) * (columns_of(e) + BITS);
}

// Moves a tile to other rows of its sentence, of which nothing is known yet.
INLINE void move(const struct evolution *e, struct tile *tile, int64_t begin) {
    tile->begin = begin;
    tile->end = lowest(begin + rows_of(e), e->queries);
    for (int64_t i = tile->columns; i < looks_size(e); i += tile->columns + BITS) tile->looks[i] = -1;
}

INLINE int64_t map_size(const struct evolution *e, const struct tile *tile) {
    return e->heads * tile->plane + tile->margin;
}

INLINE int64_t map_index(const struct evolution *e, const struct tile *tile, int64_t head, int64_t row) {
    return ((tile->sentence * e->heads + head) * e->queries + row) * e->keys;
}

// Which of a vector's keys a row of mask hides, and those beyond the last.
INLINE ivec hidden(const uint8_t *mask, int64_t s, int64_t keys) {
    bvec bytes = (bvec){0} + 1;
    memcpy(&bytes, mask + s, lowest(LANES, keys - s));
    return __builtin_convertvector(bytes, ivec) != 0;
}

// Finds the keys that a row's query may see; returns the end of the last vector that has one.
INLINE int64_t look(const struct evolution *e, struct tile *tile, int64_t row) {
    int64_t place = e->later ? row - tile->begin + e->kernel - 1 : 0;
    tile->visible = tile->looks + place * (tile->columns + BITS);
    int32_t *end = tile->visible + tile->columns;
    if (*end >= 0) return *end;
    const ivec lanes = {0, 1, 2, 3, 4, 5, 6, 7,
#if LANES == 16
                        8, 9, 10, 11, 12, 13, 14, 15
#endif
    };
    *end = 0;
    for (int64_t s = 0; s < tile->columns; s += LANES) {
        ivec seen = lanes < (int32_t)(e->keys - s);
        if (s < e->keys && e->padded_keys) seen &= ~hidden(e->padded_keys + tile->sentence * e->keys, s, e->keys);
        if (s < e->keys && e->later) seen &= ~hidden(e->later + row * e->keys, s, e->keys);
        *(unaligned_ivec *)(tile->visible + s) = seen;
        if (bits_of(seen)) *end = s + LANES;
    }
    return *end;
}

INLINE ivec visible(const struct tile *tile, int64_t s) { return *(const unaligned_ivec *)(tile->visible + s); }

INLINE int is_padded(const struct evolution *e, const struct tile *tile, int64_t row) {
    return e->padded_queries && e->padded_queries[tile->sentence * e->queries + row];
}

// Sorts weights (out, in, i, j) by blocks of HEADS outputs: (block, in, i, j, HEADS), zero beyond the last output.
// Transposed, they are those of the gradient: in and out change places and the taps are turned around.
INLINE void sort_weights(const struct evolution *e, int transposed, float *sorted) {
    int64_t heads = e->heads, taps = e->kernel * e->kernel;
    for (int64_t first = 0; first < heads; first += HEADS)
        for (int64_t in = 0; in < heads; in++)
            for (int64_t tap = 0; tap < taps; tap++)
                for (int64_t out = first; out < first + HEADS; out++)
                    *sorted++ = out >= heads ? 0
                              : transposed ? e->weight[(in * heads + out) * taps + taps - 1 - tap]
                                           : e->weight[(out * heads + in) * taps + tap];
}

INLINE int64_t sorted_size(const struct evolution *e) {
    return round_up(e->heads, HEADS) * e->heads * e->kernel * e->kernel;
}

// Adds the convolution of a tile at `at` (of the first head's corner tap) for HEADS outputs and `vectors` vectors.
INLINE void convolve(const struct evolution *e, const struct tile *tile, const float *at, const float *sorted,
                     const int vectors, vec total[HEADS][MOST_VECTORS]) {
    for (int64_t in = 0; in < e->heads; in++, at += tile->plane)
        for (int64_t i = 0; i < e->kernel; i++) {
            const float *row = at + i * tile->width;
            for (int64_t j = 0; j < e->kernel; j++, row++, sorted += HEADS) {
                vec x[MOST_VECTORS];
                UNROLL
                for (int v = 0; v < vectors; v++) x[v] = load(row + v * LANES);
                UNROLL
                for (int out = 0; out < HEADS; out++) {
                    vec w = splat(sorted[out]);
                    UNROLL
                    for (int v = 0; v < vectors; v++) total[out][v] += w * x[v];
                }
            }
        }
}
