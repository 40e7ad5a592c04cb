// The arguments of one decoding step of an attention. structs.py reads this file.
#pragma once
#include "workers.h"

struct step {
#include "evolution_fields.h"
    int64_t rows, head_dim, keys;      // hypotheses, elements per head, S; K is the number of heads

    int64_t token_stride;                    // elements between the queries, keys and values of neighbouring rows
    const float *query;                // (rows, K * head_dim)
    const float *new_key, *new_value;  // the same, of this step's tokens; NULL if keys are of source tokens
    float *key, *value;                // (S, cache_slots, K * head_dim): the KV cache
    int64_t cache_slots;

    // The slot in which hypothesis b has the key of step t is back_pointers[b * max_steps + t].
    const int32_t *back_pointers;
    int64_t max_steps, current_step;                // capacity of the table of back-pointers, and this step
    const int32_t *sentence;           // (rows): the slot of the source's keys; NULL if keys are of earlier steps
    const uint8_t *padded_keys;        // (rows, max_steps) or (sentences, S); may be NULL
    const uint8_t *padded_queries;     // (rows), may be NULL

    float *conv_input;                 // (above + 1, conv_slots, K, capacity): rows of steps t, at t % (above + 1)
    int64_t conv_slots, capacity;

    const float *previous;             // (rows, K, S), may be NULL, and so may logits and probabilities
    float *logits, *probabilities;
    float *output;                     // (rows, K * head_dim)

    struct thread_pool pool;
};

// Each returns 0, or 1 if there was not enough memory.
EXPORTED int decode_avx512(const struct step *args);
EXPORTED int decode_avx2(const struct step *args);
EXPORTED int decode_plain(const struct step *args);
