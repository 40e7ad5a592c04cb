// What one decoding step of an attention reads and writes; read by structs.py.
#pragma once
#include "workers.h"

struct step {
#include "evolution_fields.h"
    int64_t rows, head_dim, keys;      // hypotheses, floats of one head, S; K is the number of heads

    int64_t stride;                    // floats from a row's query to the next one's; keys and values alike
    const float *query;                // (rows, K * head_dim)
    const float *new_key, *new_value;  // the same of this step; NULL: keys of source tokens, which stay
    float *key, *value;                // (S, slots, K * head_dim): the KV cache, of earlier steps or of the source
    int64_t slots;

    // The slot in which hypothesis b has the key of step t is back_pointers[b * steps + t].
    const int32_t *back_pointers;
    int64_t steps, now;                // how many the table has room for, and this one
    const int32_t *sentence;           // (rows): the slot of the source's keys; NULL: keys are of earlier steps
    const uint8_t *padded_keys;        // (rows, steps) or (sentences, S); may be NULL
    const uint8_t *padded_queries;     // (rows), may be NULL

    float *conv_input;                 // (above + 1, conv_slots, K, room): rows of the last steps, by step modulo
    int64_t conv_slots, room;

    const float *previous;             // (rows, K, S), may be NULL, and so may logits and probabilities
    float *logits, *probabilities;
    float *output;                     // (rows, K * head_dim)

    struct pool pool;
};

// Each returns 0, or 1 where there was not enough memory.
EXPORTED int decode_avx512(const struct step *step);
EXPORTED int decode_avx2(const struct step *step);
EXPORTED int decode_plain(const struct step *step);
