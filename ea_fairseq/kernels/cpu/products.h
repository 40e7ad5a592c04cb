// Products of small matrices, and what lays them out for that.
#pragma once
#include "tiles.h"

enum { MOST_ROWS = 6 };

// Lane i of the result is lane `lanes[i]` of a and b side by side; `lanes` is known to the compiler.
INLINE vec pick(vec a, vec b, ivec lanes) {
#ifdef __clang__  // it has no such function, and makes one instruction of this
    vec picked;
    for (int i = 0; i < LANES; i++) picked[i] = lanes[i] < LANES ? a[lanes[i]] : b[lanes[i] - LANES];
    return picked;
#else
    return __builtin_shuffle(a, b, lanes);
#endif
}

// Turns a square of LANES vectors around its diagonal.
INLINE void turn(vec square[LANES]) {
    UNROLL
    for (int step = 1; step < LANES; step *= 2) {
        ivec upper, lower;
        for (int lane = 0; lane < LANES; lane++) {
            upper[lane] = lane & step ? lane - step + LANES : lane;
            lower[lane] = lane & step ? lane + LANES : lane + step;
        }
        UNROLL
        for (int row = 0; row < LANES; row++)
            if (!(row & step)) {
                vec a = square[row], b = square[row + step];
                square[row] = pick(a, b, upper);
                square[row + step] = pick(a, b, lower);
            }
    }
}

// Copies a matrix (rows, columns), whose rows are `stride` apart, with rows and columns exchanged: rows of `width`,
// filled up with zeros.
INLINE void pack_turned(const float *from, int64_t stride, int64_t rows, int64_t columns, float *to, int64_t width) {
    for (int64_t row = 0; row < width; row += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            vec square[LANES];
            UNROLL
            for (int i = 0; i < LANES; i++)
                square[i] = row + i < rows ? get(from, (row + i) * stride + c, columns - c, 0) : (vec){0};
            turn(square);
            UNROLL
            for (int i = 0; i < LANES; i++)
                if (c + i < columns) store(to + (c + i) * width + row, square[i]);
        }
}

// A matrix (rows, inner) whose element (m, i) is at m * row + i * column.
struct left {
    const float *numbers;
    int64_t row, column;
};

// Where a product of `columns` columns goes, times `scale`, and onto what is there if `add`.
struct result {
    float *numbers;
    int64_t row, columns;
    float scale;
    int add;
};

INLINE void product_block(struct left a, const float *b, int64_t b_row, int64_t inner, struct result c, int64_t m,
                          int64_t n, const int rows, const int vectors) {
    vec total[MOST_ROWS][MOST_VECTORS] = {{{0}}};
    const float *from = a.numbers + m * a.row;
    b += n;
    for (int64_t i = 0; i < inner; i++, from += a.column, b += b_row) {
        vec x[MOST_VECTORS];
        UNROLL
        for (int v = 0; v < vectors; v++) {
            x[v] = load(b + v * LANES);
            hold(&x[v]);
        }
        UNROLL
        for (int row = 0; row < rows; row++) {
            vec y = splat(from[row * a.row]);
            UNROLL
            for (int v = 0; v < vectors; v++) total[row][v] += y * x[v];
        }
    }
    UNROLL
    for (int row = 0; row < rows; row++)
        UNROLL
        for (int v = 0; v < vectors; v++) {
            int64_t index = (m + row) * c.row + n + v * LANES, count = c.columns - n - v * LANES;
            vec x = total[row][v] * c.scale;
            if (c.add) x += get(c.numbers, index, count, 0);
            put(c.numbers, index, count, x, 0);
        }
}

INLINE void product_rows(struct left a, const float *b, int64_t b_row, int64_t inner, struct result c, int64_t m,
                         const int rows) {
    int64_t n = 0, vectors = (c.columns + LANES - 1) / LANES;
    for (; vectors >= MOST_VECTORS; vectors -= MOST_VECTORS, n += MOST_VECTORS * LANES)
        product_block(a, b, b_row, inner, c, m, n, rows, MOST_VECTORS);
    switch (vectors) {
    case 3: product_block(a, b, b_row, inner, c, m, n, rows, 3 % MOST_VECTORS); break;
    case 2: product_block(a, b, b_row, inner, c, m, n, rows, 2 % MOST_VECTORS); break;
    case 1: product_block(a, b, b_row, inner, c, m, n, rows, 1); break;
    }
}

// c = a b, of a (m, inner) and b (inner, columns of c), whose rows are `b_row` apart; reads whole vectors of b.
static void product(int64_t m, int64_t inner, struct left a, const float *b, int64_t b_row, struct result c) {
    int64_t row = 0;
    for (; row + MOST_ROWS <= m; row += MOST_ROWS) product_rows(a, b, b_row, inner, c, row, MOST_ROWS);
    switch (m - row) {
    case 5: product_rows(a, b, b_row, inner, c, row, 5); break;
    case 4: product_rows(a, b, b_row, inner, c, row, 4); break;
    case 3: product_rows(a, b, b_row, inner, c, row, 3); break;
    case 2: product_rows(a, b, b_row, inner, c, row, 2); break;
    case 1: product_rows(a, b, b_row, inner, c, row, 1); break;
    }
}
