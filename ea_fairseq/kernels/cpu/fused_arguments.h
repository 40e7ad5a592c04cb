// The arguments of evolve, attend and their backward passes. structs.py reads this file.
#pragma once
#include "workers.h"

struct fused_arguments {
#include "evolution_fields.h"
    int64_t sentences, queries, keys;  // B, T, S; K is the number of heads
    int64_t bf16;                      // whether maps are bfloat16 instead of float32

    // Maps (B, K, T, S).
    const void *scores, *previous;  // scores: NULL in a whole attention; previous: NULL without a previous layer
    void *logits, *probabilities, *conv_input;
    uint8_t *relu_mask;  // (B, K, T, 2 * ceil(S / 16)): bits, 1 where the ReLU is active

    const uint8_t *padded_keys, *padded_queries, *future;  // (B, S), (B, T), (T, S); each may be NULL

    // Gradients of maps; those of logits and of previous logits may be NULL.
    const void *d_logits, *d_probabilities;
    void *d_scores, *d_previous;
    float *d_weight, *d_bias;
    float *d_mix, *d_beta;  // NULL for fixed weights; learned ones need `previous` and, in evolve_backward, `scores`

    // Of a whole attention, in float32: (T or S, B, K * head_dim), and the logsumexp (B, K, T) of each row's visible
    // keys. A stride is the number of elements between neighbouring tokens; key and value share one.
    int64_t head_dim, query_stride, key_stride;
    const float *query, *key, *value, *d_attended;
    float *attended, *logsumexp, *d_query, *d_key, *d_value;

    struct thread_pool pool;
};

// Each returns 0, or 1 if there was not enough memory.
#define DECLARE(set) \
    EXPORTED int evolve_##set(const struct fused_arguments *args); \
    EXPORTED int evolve_backward_##set(const struct fused_arguments *args); \
    EXPORTED int attend_##set(const struct fused_arguments *args); \
    EXPORTED int attend_backward_##set(const struct fused_arguments *args);
DECLARE(avx512)
DECLARE(avx2)
DECLARE(plain)
