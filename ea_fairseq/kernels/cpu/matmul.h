// Products of small matrices, and the transposition that they need.
#pragma once
#include "vectors.h"

enum { MAX_ROWS = 6 };

// Lane i of the result is lane `lanes[i]` of the concatenation of a and b; `lanes` is a compile-time constant.
INLINE vec shuffle(vec a, vec b, ivec lanes) {
#ifdef __clang__  // clang has no such function, but compiles the loop to one instruction
    vec picked;
    for (int i = 0; i < LANES; i++) picked[i] = lanes[i] < LANES ? a[lanes[i]] : b[lanes[i] - LANES];
    return picked;
#else
    return __builtin_shuffle(a, b, lanes);
#endif
}

// Transposes a square of LANES vectors.
INLINE void transpose(vec square[LANES]) {
    FULLY_UNROLLED
    for (int step = 1; step < LANES; step *= 2) {
        ivec upper, lower;
        for (int lane = 0; lane < LANES; lane++) {
            upper[lane] = lane & step ? lane - step + LANES : lane;
            lower[lane] = lane & step ? lane + LANES : lane + step;
        }
        FULLY_UNROLLED
        for (int row = 0; row < LANES; row++)
            if (!(row & step)) {
                vec a = square[row], b = square[row + step];
                square[row] = shuffle(a, b, upper);
                square[row + step] = shuffle(a, b, lower);
            }
    }
}

// Writes the transpose of a matrix (rows, columns) with row stride `stride` as rows of `width` with zeros at the end.
INLINE void pack_transposed(const float *from, int64_t stride, int64_t rows, int64_t columns, float *to,
                            int64_t width) {
    for (int64_t row = 0; row < width; row += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            vec square[LANES];
            FULLY_UNROLLED
            for (int i = 0; i < LANES; i++)
                square[i] = row + i < rows ? masked_load(from, (row + i) * stride + c, columns - c, 0) : (vec){0};
            transpose(square);
            FULLY_UNROLLED
            for (int i = 0; i < LANES; i++)
                if (c + i < columns) store(to + (c + i) * width + row, square[i]);
        }
}

// A matrix whose element (m, i) is at m * row_stride + i * column_stride.
struct matrix {
    const float *data;
    int64_t row_stride, column_stride;
};

// The destination of a product of `columns` columns: data = scale * product, or data += scale * product if `add`.
struct result {
    float *data;
    int64_t row_stride, columns;
    float scale;
    int add;
};

INLINE void matmul_block(struct matrix a, const float *b, int64_t b_stride, int64_t inner, struct result c, int64_t m,
                         int64_t n, const int rows, const int vectors) {
    vec total[MAX_ROWS][MAX_VECTORS] = {{{0}}};
    const float *from = a.data + m * a.row_stride;
    b += n;
    for (int64_t i = 0; i < inner; i++, from += a.column_stride, b += b_stride) {
        vec x[MAX_VECTORS];
        FULLY_UNROLLED
        for (int v = 0; v < vectors; v++) {
            x[v] = load(b + v * LANES);
            keep_in_register(&x[v]);
        }
        FULLY_UNROLLED
        for (int row = 0; row < rows; row++) {
            vec y = splat(from[row * a.row_stride]);
            FULLY_UNROLLED
            for (int v = 0; v < vectors; v++) total[row][v] += y * x[v];
        }
    }
    FULLY_UNROLLED
    for (int row = 0; row < rows; row++)
        FULLY_UNROLLED
        for (int v = 0; v < vectors; v++) {
            int64_t index = (m + row) * c.row_stride + n + v * LANES, count = c.columns - n - v * LANES;
            vec x = total[row][v] * c.scale;
            if (c.add) x += masked_load(c.data, index, count, 0);
            masked_store(c.data, index, count, x, 0);
        }
}

INLINE void matmul_rows(struct matrix a, const float *b, int64_t b_stride, int64_t inner, struct result c, int64_t m,
                        const int rows) {
    int64_t n = 0, vectors = (c.columns + LANES - 1) / LANES;
    for (; vectors >= MAX_VECTORS; vectors -= MAX_VECTORS, n += MAX_VECTORS * LANES)
        matmul_block(a, b, b_stride, inner, c, m, n, rows, MAX_VECTORS);
    switch (vectors) {
    case 3: matmul_block(a, b, b_stride, inner, c, m, n, rows, 3 % MAX_VECTORS); break;
    case 2: matmul_block(a, b, b_stride, inner, c, m, n, rows, 2 % MAX_VECTORS); break;
    case 1: matmul_block(a, b, b_stride, inner, c, m, n, rows, 1); break;
    }
}

// c = a b, of a (m, inner) and b (inner, columns of c), whose rows are `b_stride` apart; reads whole vectors of b.
static void matmul(int64_t m, int64_t inner, struct matrix a, const float *b, int64_t b_stride, struct result c) {
    int64_t row = 0;
    for (; row + MAX_ROWS <= m; row += MAX_ROWS) matmul_rows(a, b, b_stride, inner, c, row, MAX_ROWS);
    switch (m - row) {
    case 5: matmul_rows(a, b, b_stride, inner, c, row, 5); break;
    case 4: matmul_rows(a, b, b_stride, inner, c, row, 4); break;
    case 3: matmul_rows(a, b, b_stride, inner, c, row, 3); break;
    case 2: matmul_rows(a, b, b_stride, inner, c, row, 2); break;
    case 1: matmul_rows(a, b, b_stride, inner, c, row, 1); break;
    }
}
