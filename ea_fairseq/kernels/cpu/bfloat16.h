// Matrix products in bfloat16 with sums in float32; pairs of inputs are stored side by side.
#pragma once
#include "matmul.h"
#include "rows.h"
#include "translation.h"

enum { ROUNDED_BYTES = 1 << 17 };  // rounded rows of this size stay in the processor's cache

INLINE int64_t pair_count(int64_t in) { return ceil_div(in, 2); }

// Rounds rows of `in` elements to bfloat16, in rows of `stride` pairs that are padded with zeros.
static void round_rows(const float *x, int64_t rows, int64_t in, int64_t stride, int32_t *pairs) {
    for (int64_t row = 0; row < rows; row++, x += in, pairs += stride)
        for (int64_t i = 0; i < in; i += LANES)
            *(__m256bh *)(pairs + i / 2) = _mm512_cvtneps_pbh((__m512)masked_load(x, i, in - i, 0));
}

INLINE void matmul_pairs(const int32_t *pairs, int64_t stride, const float *panel, int64_t count, struct result c,
                         int64_t m, const int rows) {
    vec total[MAX_ROWS][MAX_VECTORS] = {{{0}}};
    pairs += m * stride;
    for (int64_t i = 0; i < count; i++, panel += PANEL) {
        vec x[MAX_VECTORS];
        FULLY_UNROLLED
        for (int v = 0; v < MAX_VECTORS; v++) {
            x[v] = load(panel + v * LANES);
            keep_in_register(&x[v]);
        }
        FULLY_UNROLLED
        for (int row = 0; row < rows; row++) {
            __m512bh y = (__m512bh)_mm512_set1_epi32(pairs[row * stride + i]);
            FULLY_UNROLLED
            for (int v = 0; v < MAX_VECTORS; v++)
                total[row][v] = (vec)_mm512_dpbf16_ps((__m512)total[row][v], y, (__m512bh)x[v]);
        }
    }
    FULLY_UNROLLED
    for (int row = 0; row < rows; row++)
        FULLY_UNROLLED
        for (int v = 0; v < MAX_VECTORS; v++) {
            int64_t index = (m + row) * c.row_stride + v * LANES, room = max_int(0, c.columns - v * LANES);
            masked_store(c.data, index, room, total[row][v] + masked_load(c.data, index, room, 0), 0);
        }
}

// Adds to c the products of m rows of pairs with a panel (count, PANEL, 2).
static void matmul_bfloat16(int64_t m, const int32_t *pairs, int64_t stride, const float *panel, int64_t count,
                            struct result c) {
    int64_t row = 0;
    for (; row + MAX_ROWS <= m; row += MAX_ROWS) matmul_pairs(pairs, stride, panel, count, c, row, MAX_ROWS);
    switch (m - row) {
    case 5: matmul_pairs(pairs, stride, panel, count, c, row, 5); break;
    case 4: matmul_pairs(pairs, stride, panel, count, c, row, 4); break;
    case 3: matmul_pairs(pairs, stride, panel, count, c, row, 3); break;
    case 2: matmul_pairs(pairs, stride, panel, count, c, row, 2); break;
    case 1: matmul_pairs(pairs, stride, panel, count, c, row, 1); break;
    }
}
