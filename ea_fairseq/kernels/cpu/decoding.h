// What one decoding step of an attention reads and writes; mirrored by interface.py.
#include "workers.h"

struct step {
    int64_t rows, heads, width, keys;  // hypotheses, K, numbers of one head, S
    int64_t kernel, above, left;       // tap (i, j) of entry (t, s) reads (t - above + i, s - left + j)
    double scale, alpha, beta;

    int64_t apart;                      // numbers from a row's query to the next one's; keys and values alike
    const float *query;                 // (rows, K * width)
    const float *new_key, *new_value;   // the same of this step; NULL: keys of source words, which stay
    float *key, *value;                 // (S, slots, K * width): each step's, or the source's
    int64_t slots;

    // The row of a step t's slot that hypothesis b continues is ancestors[b * steps + t].
    const int32_t *ancestors;
    int64_t steps, now;                 // how many the table has room for, and this one
    const int32_t *sentence;            // (rows): the slot of the source's keys; NULL: keys are of earlier steps
    const uint8_t *padded;              // (rows, steps) or (sentences, S); may be NULL
    const uint8_t *padded_queries;      // (rows), may be NULL

    const float *weight, *bias;         // (K, K, kernel, kernel), (K); NULL: no convolution
    float *mixed;                       // (above + 1, slots', K, room): the last steps' rows that are convolved
    int64_t mixed_slots, room;

    const float *previous;              // (rows, K, S), may be NULL, and so may logits and probabilities
    float *logits, *probabilities;
    float *output;                      // (rows, K * width)

    struct pool pool;
};

// Each returns 0, or 1 where there was not enough memory.
EXPORTED int decode_avx512(const struct step *step);
EXPORTED int decode_avx2(const struct step *step);
EXPORTED int decode_plain(const struct step *step);
