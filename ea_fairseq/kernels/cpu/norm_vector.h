// The root mean square norm and the rotation of one vector, and the gradient of the norm. Included once for each
// instruction set.
#pragma once
#include "rows.h"

// Rotates the pairs (i, i + width / 2) of x by their angles, or back if `sign` is -1; y may be x.
INLINE void rotate(const float *rotation, int64_t width, float sign, const float *x, float *y) {
    int64_t half = width / 2;
    for (int64_t i = 0; i < half; i += LANES) {
        vec first = masked_load(x, i, half - i, 0), second = masked_load(x, half + i, half - i, 0);
        vec cosine = masked_load(rotation, i, half - i, 0), sine = sign * masked_load(rotation, half + i, half - i, 0);
        masked_store(y, i, half - i, first * cosine - second * sine, 0);
        masked_store(y, half + i, half - i, second * cosine + first * sine, 0);
    }
}

// The sum of the products of two vectors.
INLINE float dot(const float *x, const float *y, int64_t width) {
    vec sum = {0};
    for (int64_t i = 0; i < width; i += LANES) sum += masked_load(x, i, width - i, 0) * masked_load(y, i, width - i, 0);
    return reduce_sum(sum);
}

// 1 / the root mean square of x.
INLINE float rms_scale(const float *x, int64_t width, double eps) {
    return 1 / sqrtf(dot(x, x, width) / width + (float)eps);
}

// y = x, normalized by its root mean square, times the weight; y may be x.
INLINE void normalize(const float *weight, double eps, int64_t width, const float *x, float *y) {
    float scale = rms_scale(x, width, eps);
    for (int64_t i = 0; i < width; i += LANES) {
        vec normalized = masked_load(x, i, width - i, 0) * scale;
        masked_store(y, i, width - i, normalized * masked_load(weight, i, width - i, 0), 0);
    }
}

// d_x from d_y, which may be the same, and its part of the gradient of the weight.
INLINE void normalize_backward(const float *weight, double eps, int64_t width, const float *x, const float *d_y,
                               float *d_x, float *d_weight) {
    float scale = rms_scale(x, width, eps);
    vec sum = {0};
    for (int64_t i = 0; i < width; i += LANES) {
        vec gradient = masked_load(d_y, i, width - i, 0), value = masked_load(x, i, width - i, 0);
        masked_store(d_weight, i, width - i, masked_load(d_weight, i, width - i, 0) + gradient * value * scale, 0);
        sum += gradient * masked_load(weight, i, width - i, 0) * value;
    }
    float along = reduce_sum(sum) / width * scale * scale;
    for (int64_t i = 0; i < width; i += LANES) {
        vec gradient = masked_load(d_y, i, width - i, 0) * masked_load(weight, i, width - i, 0);
        masked_store(d_x, i, width - i, (gradient - masked_load(x, i, width - i, 0) * along) * scale, 0);
    }
}
