// Linear layers that multiply in bfloat16 with sums in float32, or in int8 with sums in int32. Inputs are stored side
// by side in groups of 4 bytes. Included once for each instruction set; INT8 and TILES say which it is.
#pragma once
#include "matmul.h"
#include "rows.h"
#include "translation.h"

#ifdef INT8
enum { GROUP = 4 };  // inputs
typedef ivec sums;
#else
enum { GROUP = 2 };
typedef vec sums;
#endif

enum { BLOCK = 16 };  // groups: the padded length of a row of inputs is a multiple of it
enum { ROUNDED_BYTES = 1 << 17 };  // rounded rows of this size stay in the processor's cache
enum { STACK_BYTES = 1 << 20 };    // of rounded rows, since a thread's stack may have 2 MiB

// Rows of rounded inputs, and a panel of outputs for which they are multiplied by the weights.
struct product {
    const struct linear *layer;
    int64_t stride;         // groups in a row
    const int32_t *groups;  // (rows, stride)
    const float *scales;    // (rows), of int8
    int64_t first;          // the panel's first output
    const float *residual;  // (rows, outputs), or NULL
    float *y;               // the same size
};

// Rounds rows of `in` elements to rows of `stride` groups, padded with zeros. In int8 these are round(x / scale) + 128,
// unsigned, with a scale for each row by which the largest |x| is 127.
static void round_rows(const float *x, int64_t rows, int64_t in, int64_t stride, int32_t *groups, float *scales) {
    for (int64_t row = 0; row < rows; row++, x += in, groups += stride) {
#ifdef INT8
        ivec bits = {0};
        for (int64_t i = 0; i < in; i += LANES)  // bits of positive floats are ordered as the numbers, NaN is the last
            bits = (ivec)_mm512_max_epi32((__m512i)bits, (__m512i)((ivec)masked_load(x, i, in - i, 0) & INT32_MAX));
        float largest = ((vec)((ivec){0} + _mm512_reduce_max_epi32((__m512i)bits)))[0];
        float inverse = largest > 1e-30f ? 127 / largest : 0;
        scales[row] = largest / 127;
        // Adding 1.5 * 2^23 rounds to an integer, whose lowest byte is that of the sum.
        for (int64_t i = 0; i < GROUP * stride; i += LANES) {
            vec shifted = masked_load(x, i, max_int(0, in - i), 0) * inverse + (12582912.0f + 128.0f);
            *(bvec *)((uint8_t *)groups + i) = __builtin_convertvector((ivec)shifted, bvec);
        }
#else
        (void)scales;
        for (int64_t i = 0; i < GROUP * stride; i += LANES)
            *(__m256bh *)(groups + i / GROUP) = _mm512_cvtneps_pbh((__m512)masked_load(x, i, max_int(0, in - i), 0));
#endif
    }
}

// Writes a row of a panel's outputs: the products, bias and residual.
INLINE void write_outputs(const struct product *product, int64_t row, const sums *total) {
    const struct linear *layer = product->layer;
    FULLY_UNROLLED
    for (int v = 0; v < MAX_VECTORS; v++) {
        int64_t first = product->first + v * LANES, room = max_int(0, layer->outputs - first);
        int64_t index = row * layer->outputs + first;
#ifdef INT8
        ivec centred = total[v] - load_ivec(layer->offsets + first);
        vec x = __builtin_convertvector(centred, vec) * (load(layer->scales + first) * product->scales[row]);
#else
        vec x = total[v];
#endif
        if (layer->bias) x += masked_load(layer->bias, first, room, 0);
        if (product->residual) x += masked_load(product->residual, index, room, 0);
        masked_store(product->y, index, room, x, 0);
    }
}

#ifdef TILES
#ifdef INT8
#define MULTIPLY_TILES(total, x, weight) _tile_dpbusd(total, x, weight)
#else
#define MULTIPLY_TILES(total, x, weight) _tile_dpbf16ps(total, x, weight)
#endif
enum { TILE_ROWS = 16 };

// All tiles have 16 rows of 64 bytes: 0 to 3 are sums of 16 rows and as many outputs, 4 inputs, 5 to 7 weights.
static void configure_tiles(void) {
    static const struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
}

// The outputs of a panel for all rows, whose buffer has room for a multiple of TILE_ROWS.
static void multiply_panel_by_tiles(const struct product *product, int64_t rows) {
    const int64_t panel_bytes = 4 * PANEL, row_bytes = 4 * product->stride;
    __asm__ volatile("" ::: "memory");  // the compiler does not know that tiles are loaded from memory
    for (int64_t row = 0; row < rows; row += TILE_ROWS) {
        const int32_t *x = product->groups + row * product->stride;
        const int32_t *weight = (const int32_t *)product->layer->weight + product->first * product->stride;
        int32_t total[TILE_ROWS][PANEL] __attribute__((aligned(64)));
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t i = 0; i < product->stride; i += BLOCK, x += BLOCK, weight += BLOCK * PANEL) {
            _tile_loadd(4, x, row_bytes);
            _tile_loadd(5, weight, panel_bytes);
            MULTIPLY_TILES(0, 4, 5);
            _tile_loadd(6, weight + LANES, panel_bytes);
            MULTIPLY_TILES(1, 4, 6);
            _tile_loadd(7, weight + 2 * LANES, panel_bytes);
            MULTIPLY_TILES(2, 4, 7);
            _tile_loadd(5, weight + 3 * LANES, panel_bytes);
            MULTIPLY_TILES(3, 4, 5);
        }
        _tile_stored(0, total[0], panel_bytes);
        _tile_stored(1, total[0] + LANES, panel_bytes);
        _tile_stored(2, total[0] + 2 * LANES, panel_bytes);
        _tile_stored(3, total[0] + 3 * LANES, panel_bytes);
        for (int64_t i = 0; i < min_int(TILE_ROWS, rows - row); i++)
            write_outputs(product, row + i, (const sums *)total[i]);
    }
}

// Whether rows fit, and tiles are faster, most of which are empty for a few rows.
INLINE int uses_tiles(int64_t rows, int64_t row_bytes) {
    return TILE_ROWS * row_bytes <= STACK_BYTES && (GROUP == 2 || rows > MAX_ROWS);
}
#endif

INLINE sums add_products(sums total, int32_t x, vec weight) {
#ifdef INT8
    return (sums)_mm512_dpbusd_epi32((__m512i)total, _mm512_set1_epi32(x), (__m512i)weight);
#else
    return (sums)_mm512_dpbf16_ps((__m512)total, (__m512bh)_mm512_set1_epi32(x), (__m512bh)weight);
#endif
}

INLINE void multiply_rows(const struct product *product, int64_t first, const int rows) {
    sums total[MAX_ROWS][MAX_VECTORS] = {{{0}}};
    const int32_t *groups = product->groups + first * product->stride;
    const float *weight = product->layer->weight + product->first * product->stride;
    for (int64_t i = 0; i < ceil_div(product->layer->inputs, GROUP); i++, weight += PANEL) {
        vec w[MAX_VECTORS];
        FULLY_UNROLLED
        for (int v = 0; v < MAX_VECTORS; v++) {
            w[v] = load(weight + v * LANES);
            keep_in_register(&w[v]);
        }
        FULLY_UNROLLED
        for (int row = 0; row < rows; row++)
            FULLY_UNROLLED
            for (int v = 0; v < MAX_VECTORS; v++)
                total[row][v] = add_products(total[row][v], groups[row * product->stride + i], w[v]);
    }
    FULLY_UNROLLED
    for (int row = 0; row < rows; row++) write_outputs(product, first + row, total[row]);
}

// The outputs of a panel for all rows.
static void multiply_panel(const struct product *product, int64_t rows) {
    int64_t row = 0;
    for (; row + MAX_ROWS <= rows; row += MAX_ROWS) multiply_rows(product, row, MAX_ROWS);
    switch (rows - row) {
    case 5: multiply_rows(product, row, 5); break;
    case 4: multiply_rows(product, row, 4); break;
    case 3: multiply_rows(product, row, 3); break;
    case 2: multiply_rows(product, row, 2); break;
    case 1: multiply_rows(product, row, 1); break;
    }
}

// y = x W^T + b, plus `residual` unless NULL, which may be y itself; x is (rows, inputs), y and residual are (rows,
// outputs). There are at most 1 << 17 inputs.
static void apply_linear(const struct linear *layer, const float *x, int64_t rows, const float *residual, float *y) {
    int64_t stride = round_up(layer->inputs, GROUP * BLOCK) / GROUP, row_bytes = 4 * stride, step = 1;
#ifdef TILES
    int by_tiles = uses_tiles(rows, row_bytes);
    if (by_tiles) configure_tiles(), step = TILE_ROWS;
#endif
    int64_t fitting = min_int(96, STACK_BYTES / row_bytes / step * step);
    int64_t rows_at_once = min_int(round_up(rows, step), max_int(fitting, ROUNDED_BYTES / row_bytes / 96 * 96));
    int32_t groups[rows_at_once * stride] __attribute__((aligned(64)));
    float scales[rows_at_once];
    for (int64_t row = 0; row < rows; row += rows_at_once) {
        int64_t count = min_int(rows_at_once, rows - row), from = row * layer->outputs;
        round_rows(x + row * layer->inputs, count, layer->inputs, stride, groups, scales);
        struct product product = {layer, stride, groups, scales, 0, residual ? residual + from : NULL, y + from};
        for (; product.first < layer->outputs; product.first += PANEL) {
#ifdef TILES
            if (by_tiles) {
                multiply_panel_by_tiles(&product, count);
                continue;
            }
#endif
            multiply_panel(&product, count);
        }
    }
#ifdef TILES
    if (by_tiles) _tile_release();
#endif
}
