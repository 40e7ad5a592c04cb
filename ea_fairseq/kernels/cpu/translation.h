// What a call of translate reads and writes: a model, source sentences, and the hypotheses that beam search ends with;
// read by structs.py.
#pragma once
#include "workers.h"

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 10)
#define BFLOAT16_COMPILES
#endif

enum { PANEL = 64 };  // outputs of a linear layer that lie side by side

// y = x W^T + b.
struct linear {
    int64_t inputs, outputs;
    // Panels of PANEL outputs, (ceil(outputs / PANEL), inputs, PANEL), zero beyond the last output; for
    // translate_avx512_bf16 pairs of inputs in bfloat16, (ceil(outputs / PANEL), ceil(inputs / 2), PANEL, 2), zero
    // beyond the last input, too.
    const float *weight;
    const float *bias;  // (outputs); NULL: none
};

struct norm {
    const float *weight, *bias;  // (width); NULL: no norm
    double eps;
};

struct attention {
#include "evolution_fields.h"
    struct linear input;        // queries, keys and values side by side; in encoder-decoder attention queries
    struct linear key, value;   // of the encoder's output, in encoder-decoder attention
    struct linear output;
    struct norm norm;
};

struct layer {
    struct attention self_attention, cross_attention;  // the latter in a decoder
    struct linear up, down;
    struct norm norm;  // of the feed-forward network
};

struct stack {
    int64_t layers, width, normalize_before;
    const struct layer *layer;
    const float *embeddings, *positions;  // (symbols, width), scaled; (longest sentence, width) or NULL
    struct norm embedding_norm, final_norm;
};

struct translation {
    struct stack encoder, decoder;
    struct linear vocabulary;

    int64_t sentences;
    const int32_t *source;  // tokens of all sentences, one after the other, without padding
    const int64_t *begins;  // (sentences + 1): where each sentence begins

    int64_t beam, min_len, max_len;  // of a hypothesis, without the end of sentence
    double unk_penalty, temperature;
    int64_t first, eos, pad, unk;
    int64_t ngram;              // tokens of which a hypothesis does not have the same twice; below 2: it may
    int64_t prefix_length, suppressed_words;
    const int32_t *prefix;      // (sentences, prefix_length): words that hypotheses begin with; padding: any
    const int32_t *suppressed;  // (suppressed_words): what no hypothesis has after the prefix

    // Of each sentence the hypotheses that ended, in the order in which they did.
    int32_t *tokens;  // (sentences, beam, max_len + 1)
    float *scores;    // the same: log-probability of a hypothesis up to and with each token
    int64_t *lengths; // (sentences, beam): tokens with the end of sentence; 0: no hypothesis
    struct pool pool;
};

// Each returns 0; 1 where there was not enough memory; 2 where no word has a finite score.
#define DECLARE_TRANSLATE(set) EXPORTED int translate_##set(const struct translation *a);
DECLARE_TRANSLATE(avx512_bf16)
DECLARE_TRANSLATE(avx512)
DECLARE_TRANSLATE(avx2)
DECLARE_TRANSLATE(plain)
