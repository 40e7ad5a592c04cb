// The arguments of translate: a model, source sentences, and the hypotheses of beam search. structs.py reads this file.
#pragma once
#include "workers.h"

// Whether the compiler knows the instructions for bfloat16 and int8, of vectors and of tiles.
#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 10)
#define REDUCED_COMPILES
#if defined(__linux__) && (defined(__clang__) || __GNUC__ >= 11)
#define TILES_COMPILE
#endif
#endif

enum { PANEL = 64 };  // outputs of a linear layer that are stored side by side

// y = x W^T + b.
struct linear {
    int64_t inputs, outputs;
    // Panels of PANEL outputs, (ceil(outputs / PANEL), inputs, PANEL), zero beyond the last output. In bfloat16 or int8
    // groups of 2 or 4 inputs, (ceil(outputs / PANEL), groups, PANEL, 2 or 4), zero beyond the last input, too; the
    // number of groups is a multiple of 16.
    const float *weight;
    const float *bias;       // (outputs), or NULL
    const float *scales;     // of int8, of a multiple of PANEL outputs
    const int32_t *offsets;  // the same size: 128 times the sum of an output's weights
};

// Layer norm, or root mean square norm, which has no mean.
struct norm {
    const float *weight, *bias;  // (width); no weight: no norm
    int64_t is_rms;
    double eps;
};

enum activation { RELU, SWIGLU, GEGLU };  // of a feed-forward network; the last two gate its hidden units

struct attention {
#include "evolution_fields.h"
    struct linear word_alpha, word_beta;  // to the logits of weights that depend on a query's token; no weight: none
    struct linear in_proj;      // to queries, keys and values; in encoder-decoder attention to queries
    struct linear k_proj, v_proj;  // of the encoder's output; only in encoder-decoder attention
    const float *value_weights;  // (2): of the first layer's values and of its own, which are mixed; or NULL
    struct linear gates;        // of each head or channel of the output; no weight: none
    int64_t is_exclusive;       // whether outputs have no part along the token's own value
    struct linear out_proj;
    struct norm query_norm, key_norm;  // of each head
    struct norm norm;
};

struct layer {
    struct attention self_attention, cross_attention;  // the second only in a decoder
    int64_t activation;
    struct linear fc1, fc2;  // with gates, fc1 has those first, then as many hidden units
    struct norm norm;  // of the feed-forward network
};

struct stack {
    int64_t layers, width, normalize_before;
    const struct layer *layer;
    const float *embeddings, *positions;  // (symbols, width), scaled; (longest sentence, width) or NULL
    const float *rotations;  // of pairs in a head, (longest sentence, cosine or sine, head_dim / 2), or NULL
    struct norm embedding_norm, final_norm;
};

struct translation {
    struct stack encoder, decoder;
    struct linear output_projection;

    int64_t sentences;
    const int32_t *source_tokens;  // tokens of all sentences, concatenated without padding
    const int64_t *source_offsets;  // (sentences + 1): the index of each sentence's first token

    int64_t beam_size, min_len, max_len;  // lengths do not count the end of sentence
    double unk_penalty, temperature;
    int64_t bos, eos, pad, unk;
    int64_t no_repeat_ngram_size;              // no n-gram of this size occurs twice; less than 2: no limit
    int64_t prefix_length, suppressed_count;
    const int32_t *prefix;      // (sentences, prefix_length): first tokens of hypotheses; padding: any
    const int32_t *suppressed;  // (suppressed_count): tokens that are not allowed after the prefix

    // The finished hypotheses of each sentence, in the order in which they were finished.
    int32_t *tokens;  // (sentences, beam, max_len + 1)
    float *scores;    // the same size: log-probability of a hypothesis up to and including each token
    int64_t *lengths; // (sentences, beam): tokens including the end of sentence; 0: no hypothesis
    struct thread_pool pool;
};

// Each returns 0; 1 if there was not enough memory; 2 if no token has a finite score.
#define DECLARE_TRANSLATE(set) EXPORTED int translate_##set(const struct translation *args);
DECLARE_TRANSLATE(amx_int8)
DECLARE_TRANSLATE(amx_bf16)
DECLARE_TRANSLATE(avx512_int8)
DECLARE_TRANSLATE(avx512_bf16)
DECLARE_TRANSLATE(avx512)
DECLARE_TRANSLATE(avx2)
DECLARE_TRANSLATE(plain)
