// The encoder: source sentences to the keys and values of all encoder-decoder attentions. Included once for each
// instruction set.
#pragma once
#include <stdlib.h>

#include "attention_forward.h"
#include "linear.h"

// What the threads that translate a batch share.
struct batch {
    const struct translation *a;
    float *memory;          // (decoder's layers, keys or values, tokens of all sentences, width)
    int32_t *first_rows;    // (beam): zeros, the row of the memory of a sentence
    int64_t next;           // sentence that no thread has begun
    int64_t most;           // sentences that a thread translates side by side
    int64_t group;          // sentences that are encoded side by side
    int64_t not_finite;     // whether no word had a finite score
};

INLINE int64_t tokens_in(const struct translation *a, int64_t sentence) {
    return a->begins[sentence + 1] - a->begins[sentence];
}

// Keys (part 0) or values (part 1) of a sentence's tokens, (S, width), for a layer of the decoder.
INLINE float *memory_of(const struct batch *batch, int64_t layer, int64_t part, int64_t sentence) {
    const struct translation *a = batch->a;
    int64_t tokens = a->begins[a->sentences];
    return batch->memory + ((2 * layer + part) * tokens + a->begins[sentence]) * a->decoder.width;
}

// Bytes of a ReLU mask of maps (K, S, S).
INLINE int64_t relu_mask_bytes(int64_t heads, int64_t tokens) {
    return heads * tokens * round_up(tokens, COLUMN_BLOCK) / 8;
}

// What an attention writes for its backward pass, which there is none of.
struct unread {
    float *logsumexp;    // (K, S)
    uint8_t *relu_mask;  // of maps (K, S, S)
};

// Self-attention of one sentence: projected queries, keys and values (S, 3 width) to values (S, width).
static int attend_sentence(const struct attention *attention, int64_t tokens, int64_t width, const float *projected,
                           const float *previous, float *logits, struct unread unread, float *attended) {
    struct fused_arguments a = {
        .sentences = 1, .heads = attention->heads, .queries = tokens, .keys = tokens,
        .kernel = attention->kernel, .above = attention->above, .left = attention->left, .scale = attention->scale,
        .weight = attention->weight, .bias = attention->bias, .beta = attention->beta, .logits = logits,
        .head_dim = width / attention->heads, .query_stride = 3 * width, .key_stride = 3 * width,
        .query = projected, .key = projected + width, .value = projected + 2 * width,
        .attended = attended, .logsumexp = unread.logsumexp, .relu_mask = unread.relu_mask, .pool = {NULL, 1},
    };
    if (attention->mix && previous) a.mix = attention->mix, a.previous = previous;
    return NAMED(attend)(&a);
}

// Encodes sentences first..end-1, of `tokens` tokens in all; `maps` is two maps (K, S, S) for each of them.
static int encode_rows(const struct batch *batch, int64_t first, int64_t end, float *x, float *maps,
                       struct unread unread) {
    const struct translation *a = batch->a;
    const struct stack *encoder = &a->encoder;
    int64_t width = encoder->width, from = a->begins[first], tokens = a->begins[end] - from;
    float *normalized = x + tokens * width, *attended = normalized + tokens * width;
    float *inner = attended + tokens * width;
    for (int64_t sentence = first; sentence < end; sentence++)
        for (int64_t i = a->begins[sentence]; i < a->begins[sentence + 1]; i++)
            embed(encoder, a->source[i], i - a->begins[sentence], x + (i - from) * width);
    struct rows_of_layer at = {tokens, width, encoder->normalize_before, x, normalized};
    apply_norm(&encoder->embedding_norm, width, tokens, x, x);
    for (int64_t l = 0; l < encoder->layers; l++) {
        const struct layer *layer = &encoder->layer[l];
        const struct attention *self = &layer->self_attention;
        apply_linear(&self->input, before(&at, &self->norm), tokens, NULL, inner);
        float *map = maps;
        for (int64_t sentence = first; sentence < end; sentence++) {
            int64_t count = tokens_in(a, sentence), begin = a->begins[sentence] - from;
            int64_t size = self->heads * count * count;
            const float *previous = map + (l + 1) % 2 * size;
            if (attend_sentence(self, count, width, inner + begin * 3 * width, l ? previous : NULL, map + l % 2 * size,
                                unread, attended + begin * width))
                return 1;
            map += 2 * size;
        }
        after(&at, &self->norm, &self->output, attended);
        feed_forward(layer, &at, inner);
    }
    apply_norm(&encoder->final_norm, width, tokens, x, x);
    for (int64_t l = 0; l < a->decoder.layers; l++) {
        const struct attention *cross = &a->decoder.layer[l].cross_attention;
        apply_linear(&cross->key, x, tokens, NULL, memory_of(batch, l, 0, first));
        apply_linear(&cross->value, x, tokens, NULL, memory_of(batch, l, 1, first));
    }
    return 0;
}

// The task of a group of sentences.
static int encode_group(const void *argument, int64_t group) {
    const struct batch *batch = argument;
    const struct translation *a = batch->a;
    int64_t first = group * batch->group, end = min_of(first + batch->group, a->sentences);
    int64_t width = a->encoder.width, tokens = a->begins[end] - a->begins[first], heads = 0, inner = 3 * width;
    for (int64_t l = 0; l < a->encoder.layers; l++) {
        heads = max_of(heads, a->encoder.layer[l].self_attention.heads);
        inner = max_of(inner, a->encoder.layer[l].up.outputs);
    }
    int64_t maps = 0, longest = 0;
    for (int64_t sentence = first; sentence < end; sentence++) {
        int64_t count = tokens_in(a, sentence);
        maps += 2 * heads * count * count;
        longest = max_of(longest, count);
    }
    int64_t size = tokens * (3 * width + inner), unread = heads * longest;
    float *memory = malloc(4 * (size + maps + unread) + relu_mask_bytes(heads, longest));
    if (!memory) return 1;
    float *logsumexp = memory + size + maps;
    int failed = encode_rows(batch, first, end, memory, memory + size,
                             (struct unread){logsumexp, (uint8_t *)(logsumexp + unread)});
    free(memory);
    return failed;
}
