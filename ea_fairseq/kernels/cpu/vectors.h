// Vectors of LANES floats and the operations on them. Included once for each instruction set, which defines LANES and
// SET.
#pragma once
#include <stdint.h>
#include <string.h>
#if LANES == 16 || defined(__AVX2__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

// The name of an exported function for this instruction set.
#define PASTE(name, set) name##_##set
#define EXPAND(name, set) PASTE(name, set)
#define NAMED(name) EXPAND(name, SET)

// Unrolls the loop that follows, which has a constant number of at most 16 iterations.
#ifdef __clang__
#define FULLY_UNROLLED _Pragma("clang loop unroll(full)")
#else
#define FULLY_UNROLLED _Pragma("GCC unroll 16")
#endif

enum { MAX_VECTORS = LANES == 16 ? 4 : 2 };  // vectors that a kernel computes at the same time

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
typedef uint8_t bvec __attribute__((vector_size(LANES)));
typedef uint16_t hvec __attribute__((vector_size(2 * LANES)));
typedef vec unaligned_vec __attribute__((aligned(4)));
typedef ivec unaligned_ivec __attribute__((aligned(4)));

INLINE vec splat(float x) { return x - (vec){0}; }
INLINE vec load(const float *from) { return *(const unaligned_vec *)from; }
INLINE void store(float *to, vec x) { *(unaligned_vec *)to = x; }
// x in lanes where the mask is set, else 0.
INLINE vec where(ivec mask, vec x) { return (vec)(mask & (ivec)x); }
INLINE vec blend(ivec mask, vec x, vec y) { return (vec)((mask & (ivec)x) | (~mask & (ivec)y)); }
INLINE vec vec_max(vec x, vec y) { return blend(x > y, x, y); }  // y if either is NaN

// x + weight * (y - x), in torch.lerp's order of operations, which matters for values that are not finite.
INLINE vec lerp(vec x, vec y, float weight) {
    ivec is_small = splat(weight) < 0.5f;  // without a branch, because learned weights differ by head
    return blend(is_small, x, y) + (weight < 0.5f ? weight : weight - 1) * (y - x);
}

// The lanes in which a ReLU is active, which includes NaN, as in PyTorch.
INLINE ivec relu_passes(vec x) { return ~(x <= 0); }

// Makes the compiler keep x in a register instead of loading it again at each use.
INLINE void keep_in_register(vec *x) {
#if LANES == 16
    __asm__("" : "+v"(*x));
#elif defined(__AVX2__)
    __asm__("" : "+x"(*x));
#else
    (void)x;
#endif
}

INLINE float reduce_sum(vec x) {
#if LANES == 16
    return _mm512_reduce_add_ps((__m512)x);
#else
    float total = 0;
    for (int lane = 0; lane < LANES; lane++) total += x[lane];
    return total;
#endif
}

INLINE float reduce_max(vec x) {
#if LANES == 16
    return _mm512_reduce_max_ps((__m512)x);
#else
    float largest = x[0];
    for (int lane = 1; lane < LANES; lane++) largest = x[lane] > largest ? x[lane] : largest;
    return largest;
#endif
}

// e^x for x <= 0, relative error below 2e-7; 1e-38 instead of anything smaller, and NaN for NaN.
INLINE vec exponential(vec x) {
    // Adding 1.5 * 2^23 rounds to an integer; 127 is the exponent's bias.
    const float shift = 12582912.0f + 127.0f;
    x = vec_max(splat(-87.0f), x);
    vec shifted = x * 1.44269504f + shift;
    vec power = shifted - shift;
    x = x - power * 0.693145752f;
    x = x - power * 1.42860677e-6f;
    vec y = splat(1.3888889e-3f);
    y = y * x + 8.3333333e-3f;
    y = y * x + 4.1666667e-2f;
    y = y * x + 1.6666667e-1f;
    y = y * x + 0.5f;
    y = y * x + 1.0f;
    y = y * x + 1.0f;
    return y * (vec)((ivec)shifted << 23);
}

// The bits of a comparison's result, the first lane the lowest.
INLINE uint32_t mask_bits(ivec mask) {
#if LANES == 16
    return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)mask);
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < LANES; lane++) bits |= (mask[lane] & 1u) << lane;
    return bits;
#endif
}

INLINE void store_bits(uint8_t *to, ivec mask) {
    uint32_t bits = mask_bits(mask);
    memcpy(to, &bits, LANES / 8);
}

INLINE ivec load_bits(const uint8_t *from) {
#if LANES == 16
    uint16_t bits;
    memcpy(&bits, from, 2);
    return (ivec)_mm512_movm_epi32(bits);
#else
    const ivec lanes = {1, 2, 4, 8, 16, 32, 64, 128};
    return (((ivec){0} + *from) & lanes) != 0;
#endif
}

// The first `count` elements at `index` of a tensor of float32 or bfloat16; zero in the lanes beyond.
INLINE vec masked_load(const void *tensor, int64_t index, int64_t count, int bf16) {
    if (bf16) {
        hvec half = {0};
        const uint16_t *from = (const uint16_t *)tensor + index;
#if LANES == 16
        half = (hvec)_mm256_maskz_loadu_epi16(count < LANES ? (1u << count) - 1 : 0xffff, from);
#else
        if (count >= LANES) memcpy(&half, from, sizeof half);
        else memcpy(&half, from, 2 * count);
#endif
        return (vec)(__builtin_convertvector(half, ivec) << 16);
    }
    const float *from = (const float *)tensor + index;
#if LANES == 16
    return (vec)_mm512_maskz_loadu_ps(count < LANES ? (1u << count) - 1 : 0xffff, from);
#else
    if (count >= LANES) return load(from);
    vec x = {0};
    memcpy(&x, from, 4 * count);
    return x;
#endif
}

// The nearest bfloat16, ties to even, in the upper half of each lane; the lower half is not cleared.
INLINE ivec bf16_bits(vec x) {
    ivec bits = (ivec)x, number = x == x;
    return ((bits + 0x7fff + ((bits >> 16) & 1)) & number) | (0x7fc00000 & ~number);
}

// x rounded as a tensor of bfloat16 or float32 stores it.
INLINE vec to_dtype(vec x, int bf16) { return bf16 ? (vec)(bf16_bits(x) & (int32_t)0xffff0000) : x; }

// Writes the first `count` lanes to `index` of such a tensor.
INLINE void masked_store(void *tensor, int64_t index, int64_t count, vec x, int bf16) {
    if (bf16) {
        hvec half = __builtin_convertvector(bf16_bits(x) >> 16, hvec);
        uint16_t *to = (uint16_t *)tensor + index;
#if LANES == 16
        _mm256_mask_storeu_epi16(to, count < LANES ? (1u << count) - 1 : 0xffff, (__m256i)half);
#else
        if (count >= LANES) memcpy(to, &half, sizeof half);
        else memcpy(to, &half, 2 * count);
#endif
        return;
    }
    float *to = (float *)tensor + index;
#if LANES == 16
    _mm512_mask_storeu_ps(to, count < LANES ? (1u << count) - 1 : 0xffff, (__m512)x);
#else
    if (count >= LANES) store(to, x);
    else memcpy(to, &x, 4 * count);
#endif
}
