// Operations on a row of an attention map: visible keys, mixing of logits, softmax. Included once for each instruction
// set.
#pragma once
#include <math.h>

#include "vectors.h"

INLINE int64_t min_int(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max_int(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
INLINE int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

// The keys of the vector at `s` that a row of a mask hides, including those from `keys` on.
INLINE ivec load_mask(const uint8_t *mask, int64_t s, int64_t keys) {
    bvec bytes = (bvec){0} + 1;
    memcpy(&bytes, mask + s, min_int(LANES, keys - s));
    return __builtin_convertvector(bytes, ivec) != 0;
}

// The visible keys of the vector at `s`: not padding, not in the future, and before `keys`; each mask may be NULL.
INLINE ivec visible_keys(const uint8_t *padded, const uint8_t *future, int64_t s, int64_t keys) {
    const ivec lanes = {0, 1, 2, 3, 4, 5, 6, 7,
#if LANES == 16
                        8, 9, 10, 11, 12, 13, 14, 15
#endif
    };
    ivec visible = lanes < (int32_t)(keys - s);
    if (s < keys && padded) visible &= ~load_mask(padded, s, keys);
    if (s < keys && future) visible &= ~load_mask(future, s, keys);
    return visible;
}

INLINE ivec load_ivec(const int32_t *from) { return *(const unaligned_ivec *)from; }
INLINE void store_ivec(int32_t *to, ivec x) { *(unaligned_ivec *)to = x; }

// A row's weights of scores and of previous logits (EA eq. 4: 1 - alpha and alpha).
struct mix {
    float own_weight, previous_weight;
    int is_lerp;  // they add up to 1, as float32 rounds it
};

// The weights at `index` of the `count` of scores, which those of previous logits follow.
INLINE struct mix mix_weights(const float *mix, int64_t count, int64_t index) {
    float own_weight = mix[index], previous_weight = mix[count + index];
    return (struct mix){own_weight, previous_weight, fabsf(own_weight + previous_weight - 1) < 1.2e-7f};
}

INLINE vec mix_logits(vec own, vec previous, struct mix mix) {
    if (mix.is_lerp) return lerp(own, previous, mix.previous_weight);
    return mix.own_weight * own + mix.previous_weight * previous;
}

// Replaces a row by the numerators of its softmax: e^(x - shift) for visible keys and 0 for others; `shift` is the
// largest visible x. Returns their sum, with the numerator of the sink unless that is NULL. Without a sink it is 0 only
// if no key is visible.
INLINE float softmax_numerators(float *row, const int32_t *visible, int64_t end, const float *sink, float *shift) {
    vec largest = splat(-INFINITY), total = {0};
    for (int64_t s = 0; s < end; s += LANES)
        largest = vec_max(largest, blend(load_ivec(visible + s), load(row + s), largest));
    *shift = reduce_max(largest);
    for (int64_t s = 0; s < end; s += LANES) {
        vec x = where(load_ivec(visible + s), exponential(load(row + s) - *shift));
        total += x;
        store(row + s, x);
    }
    return reduce_sum(total) + (sink ? expf(*sink - *shift) : 0);
}
