// The instructions of AVX-512 and AMX that linear layers in bfloat16 and int8 are made of, as loops: for processors that
// have none.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __asm__(...)  // what hints at registers, of which there are none here

typedef float __m512 __attribute__((vector_size(64)));
typedef int32_t __m512i __attribute__((vector_size(64)));
typedef uint16_t __m512bh __attribute__((vector_size(64)));
typedef uint16_t __m256i __attribute__((vector_size(32)));
typedef uint16_t __m256bh __attribute__((vector_size(32)));

#define EACH_LANE for (int lane = 0; lane < 16; lane++)

static inline float widened(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline __m512 _mm512_maskz_loadu_ps(uint16_t mask, const float *from) {
    __m512 x = {0};
    EACH_LANE if (mask >> lane & 1) x[lane] = from[lane];
    return x;
}

static inline void _mm512_mask_storeu_ps(float *to, uint16_t mask, __m512 x) {
    EACH_LANE if (mask >> lane & 1) to[lane] = x[lane];
}

static inline __m256i _mm256_maskz_loadu_epi16(uint16_t mask, const uint16_t *from) {
    __m256i x = {0};
    EACH_LANE if (mask >> lane & 1) x[lane] = from[lane];
    return x;
}

static inline void _mm256_mask_storeu_epi16(uint16_t *to, uint16_t mask, __m256i x) {
    EACH_LANE if (mask >> lane & 1) to[lane] = x[lane];
}

static inline float _mm512_reduce_add_ps(__m512 x) {
    float sum = 0;
    EACH_LANE sum += x[lane];
    return sum;
}

static inline float _mm512_reduce_max_ps(__m512 x) {
    float largest = x[0];
    EACH_LANE largest = x[lane] > largest ? x[lane] : largest;
    return largest;
}

static inline uint16_t _mm512_movepi32_mask(__m512i x) {
    uint16_t mask = 0;
    EACH_LANE mask |= (x[lane] < 0) << lane;
    return mask;
}

static inline __m512i _mm512_movm_epi32(uint16_t mask) {
    __m512i x;
    EACH_LANE x[lane] = -(mask >> lane & 1);
    return x;
}

static inline __m512i _mm512_set1_epi32(int32_t number) { return (__m512i){0} + number; }

// The nearest bfloat16 of each number, ties to even.
static inline __m256bh _mm512_cvtneps_pbh(__m512 x) {
    __m256bh halves;
    EACH_LANE {
        uint32_t bits;
        memcpy(&bits, (char *)&x + 4 * lane, 4);
        halves[lane] = x[lane] != x[lane] ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
    return halves;
}

// sum + the products of each lane's pair.
static inline __m512 _mm512_dpbf16_ps(__m512 sum, __m512bh a, __m512bh b) {
    EACH_LANE for (int half = 1; half >= 0; half--)
        sum[lane] += widened(a[2 * lane + half]) * widened(b[2 * lane + half]);
    return sum;
}

static inline __m512i _mm512_max_epi32(__m512i a, __m512i b) {
    EACH_LANE a[lane] = a[lane] > b[lane] ? a[lane] : b[lane];
    return a;
}

static inline int32_t _mm512_reduce_max_epi32(__m512i x) {
    int32_t largest = x[0];
    EACH_LANE largest = x[lane] > largest ? x[lane] : largest;
    return largest;
}

// sum + the products of each lane's four bytes, unsigned of a and signed of b.
static inline __m512i _mm512_dpbusd_epi32(__m512i sum, __m512i a, __m512i b) {
    EACH_LANE for (int byte = 0; byte < 32; byte += 8)
        sum[lane] += (uint8_t)(a[lane] >> byte) * (int8_t)(b[lane] >> byte);
    return sum;
}

static __m512i tiles[8][16];

static inline void _tile_loadconfig(const void *config) { (void)config; }
static inline void _tile_release(void) {}
static inline void _tile_zero(int tile) { memset(tiles[tile], 0, sizeof tiles[tile]); }

static inline void _tile_loadd(int tile, const void *from, int64_t stride) {
    for (int row = 0; row < 16; row++) memcpy(&tiles[tile][row], (const char *)from + row * stride, 64);
}

static inline void _tile_stored(int tile, void *to, int64_t stride) {
    for (int row = 0; row < 16; row++) memcpy((char *)to + row * stride, &tiles[tile][row], 64);
}

static inline void _tile_dpbusd(int sum, int a, int b) {
    for (int row = 0; row < 16; row++)
        for (int i = 0; i < 16; i++)
            tiles[sum][row] = _mm512_dpbusd_epi32(tiles[sum][row], _mm512_set1_epi32(tiles[a][row][i]), tiles[b][i]);
}

static inline void _tile_dpbf16ps(int sum, int a, int b) {
    for (int row = 0; row < 16; row++)
        for (int i = 0; i < 16; i++) {
            __m512bh x = (__m512bh)_mm512_set1_epi32(tiles[a][row][i]), weight = (__m512bh)tiles[b][i];
            tiles[sum][row] = (__m512i)_mm512_dpbf16_ps((__m512)tiles[sum][row], x, weight);
        }
}
