// What a call of evolve, attend or one of their backward passes reads and writes; read by structs.py.
#pragma once
#include "workers.h"

struct fused_arguments {
#include "evolution_fields.h"
    int64_t sentences, queries, keys;  // B, T, S; K is the number of heads
    int64_t bf16;                      // maps are bfloat16, not float32

    // Maps (B, K, T, S).
    const void *scores, *previous;  // scores: NULL in a whole attention; previous: NULL without a previous layer
    void *logits, *probabilities, *conv_input;
    uint8_t *relu_mask;  // (B, K, T, 2 * ceil(S / 16)): bits, where the ReLU passes the convolution's output on

    const uint8_t *padded_keys, *padded_queries, *future;  // (B, S), (B, T), (T, S); each may be NULL

    // Gradients of maps; those of logits and of previous logits may be NULL.
    const void *d_logits, *d_probabilities;
    void *d_scores, *d_previous;
    float *d_weight, *d_bias;
    float *d_mix, *d_beta;  // NULL where weights are fixed; else `previous` is given and, of given scores, `scores`

    // Of a whole attention, in float32: (T or S, B, K * head_dim), and the logsumexp of a row's visible keys (B, K, T).
    // Strides are floats from a sentence's token to the same token of the next sentence; keys and values have one.
    int64_t head_dim, query_stride, key_stride;
    const float *query, *key, *value, *d_attended;
    float *attended, *logsumexp, *d_query, *d_key, *d_value;

    struct pool pool;
};

// Each returns 0, or 1 where there was not enough memory.
#define DECLARE(set) \
    EXPORTED int evolve_##set(const struct fused_arguments *a); \
    EXPORTED int evolve_backward_##set(const struct fused_arguments *a); \
    EXPORTED int attend_##set(const struct fused_arguments *a); \
    EXPORTED int attend_backward_##set(const struct fused_arguments *a);
DECLARE(avx512)
DECLARE(avx2)
DECLARE(plain)
