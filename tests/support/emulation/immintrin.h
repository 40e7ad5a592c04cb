// The instructions of AVX-512 that linear layers in bfloat16 are made of, as loops: for processors that have none.
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
