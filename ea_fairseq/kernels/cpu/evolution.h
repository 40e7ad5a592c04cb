// What a call of the evolution's forward or backward pass reads and writes; mirrored by interface.py.
#pragma once
#include "workers.h"

struct evolution {
    int64_t sentences, heads, queries, keys;  // B, K, T, S
    int64_t kernel, above, left;              // tap (i, j) of entry (t, s) reads (t - above + i, s - left + j)
    double scale, alpha, beta;
    int64_t bf16;  // maps are bfloat16, not float32

    // Maps (B, K, T, S).
    const void *scores, *previous;  // previous may be NULL
    void *logits, *probabilities, *mixed;
    uint8_t *active;  // (B, K, T, 2 * ceil(S / 16)): bits, where the ReLU lets the convolution through

    const float *weight, *bias;  // (K, K, kernel, kernel), (K); NULL: no convolution
    const uint8_t *padded_keys, *padded_queries, *later;  // (B, S), (B, T), (T, S), each may be NULL

    // Gradients of maps; those of logits and for previous may be NULL.
    const void *d_logits, *d_probabilities;
    void *d_scores, *d_previous;
    float *d_weight, *d_bias;

    // Of a whole attention, in float32: (T or S, B, K * width), and the logarithm of the softmax's sum (B, K, T). Numbers
    // of queries, and of keys and values, are so many apart from a sentence's word to the next sentence's.
    int64_t width, query_step, key_step;
    const float *query, *key, *value, *d_attended;
    float *attended, *sums, *d_query, *d_key, *d_value;

    struct pool pool;
};

// Each returns 0, or 1 where there was not enough memory.
#define EVOLUTION(set) \
    EXPORTED int evolve_##set(const struct evolution *e); \
    EXPORTED int evolve_backward_##set(const struct evolution *e); \
    EXPORTED int attend_##set(const struct evolution *e); \
    EXPORTED int attend_backward_##set(const struct evolution *e);
EVOLUTION(avx512)
EVOLUTION(avx2)
EVOLUTION(plain)
