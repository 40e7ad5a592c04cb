// A row of an attention map: its visible keys, how its logits are mixed, its softmax. Included once for each
// instruction set.
#pragma once
#include <math.h>

#include "vectors.h"

INLINE int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }
INLINE int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

// Which of a vector's keys a row of mask hides, and those from `keys` on.
INLINE ivec load_mask(const uint8_t *mask, int64_t s, int64_t keys) {
    bvec bytes = (bvec){0} + 1;
    memcpy(&bytes, mask + s, min_of(LANES, keys - s));
    return __builtin_convertvector(bytes, ivec) != 0;
}

// Which keys of the vector at `s` are visible: neither padding nor future, nor from `keys` on; each mask may be NULL.
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

// A head's weights of scores and of previous logits.
struct mix {
    float own_weight, previous_weight;
    int is_lerp;  // they add up to 1, as float32 rounds it
};

INLINE struct mix mix_of(const float *mix, int64_t heads, int64_t head) {
    float own_weight = mix[head], previous_weight = mix[heads + head];
    return (struct mix){own_weight, previous_weight, fabsf(own_weight + previous_weight - 1) < 1.2e-7f};
}

INLINE vec mix_logits(vec own, vec previous, struct mix mix) {
    if (mix.is_lerp) return lerp(own, previous, mix.previous_weight);
    return mix.own_weight * own + mix.previous_weight * previous;
}

// The numerators of a row's softmax, in place: e^(x - shift) where `visible`, `shift` being the largest x there, and 0
// elsewhere. Returns their sum, which is 0 only where nothing is visible.
INLINE float exponentiate(float *row, const int32_t *visible, int64_t end, float *shift) {
    vec most = splat(-INFINITY), total = {0};
    for (int64_t s = 0; s < end; s += LANES)
        most = vec_max(most, blend(load_ivec(visible + s), load(row + s), most));
    *shift = reduce_max(most);
    for (int64_t s = 0; s < end; s += LANES) {
        vec x = where(load_ivec(visible + s), exponential(load(row + s) - *shift));
        total += x;
        store(row + s, x);
    }
    return reduce_sum(total);
}
