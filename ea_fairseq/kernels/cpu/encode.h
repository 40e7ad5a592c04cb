// The encoder: source sentences to the keys and values of all encoder-decoder attentions. Included once for each
// instruction set.
#pragma once
#include <stdlib.h>

#include "attention_forward.h"
#include "linear.h"

// The state that is shared by the threads that translate a batch.
struct batch {
    const struct translation *args;
    float *memory;          // (decoder's layers, keys or values, tokens of all sentences, width)
    int32_t *zero_slots;    // (beam): zeros, the slot of a sentence's keys in its memory
    int64_t next_sentence;           // the next sentence to translate
    int64_t max_sentences;           // sentences that a thread translates at the same time
    int64_t sentences_per_group;          // sentences that are encoded by one task
    int64_t has_no_finite_score;     // whether no token had a finite score
};

INLINE int64_t source_length(const struct translation *args, int64_t sentence) {
    return args->source_offsets[sentence + 1] - args->source_offsets[sentence];
}

// Keys (part 0) or values (part 1) of a sentence's tokens, (S, width), for a layer of the decoder.
INLINE float *cross_memory(const struct batch *batch, int64_t layer, int64_t part, int64_t sentence) {
    const struct translation *args = batch->args;
    int64_t tokens = args->source_offsets[args->sentences];
    return batch->memory + ((2 * layer + part) * tokens + args->source_offsets[sentence]) * args->decoder.width;
}

// Bytes of a ReLU mask of maps (K, S, S).
INLINE int64_t relu_mask_size(int64_t heads, int64_t tokens) {
    return heads * tokens * round_up(tokens, COLUMN_BLOCK) / 8;
}

// Outputs of an attention that only a backward pass would read.
struct discarded {
    float *logsumexp;    // (K, S)
    uint8_t *relu_mask;  // of maps (K, S, S)
};

// Self-attention of one sentence: projected queries, keys and values (S, 3 width) to values (S, width). `weights` are
// those of its words, see weigh_words.
static int attend_sentence(const struct attention *attention, int64_t tokens, int64_t width, const float *projected,
                           const float *previous, const float *weights, float *logits, struct discarded discarded,
                           float *attended) {
    struct fused_arguments args = {
        .sentences = 1,
        .heads = attention->heads,
        .queries = tokens,
        .keys = tokens,
        .kernel = attention->kernel,
        .above = attention->above,
        .left = attention->left,
        .scale = attention->scale,
        .weight = attention->weight,
        .bias = attention->bias,
        .beta = attention->beta,
        .sinks = attention->sinks,
        .logits = logits,
        .head_dim = width / attention->heads,
        .query_stride = 3 * width,
        .key_stride = 3 * width,
        .query = projected,
        .key = projected + width,
        .value = projected + 2 * width,
        .attended = attended,
        .logsumexp = discarded.logsumexp,
        .relu_mask = discarded.relu_mask,
        .pool = {NULL, 1},
    };
    args.by_word = has_word_weights(attention);
    if (args.by_word) args.beta = weights + 2 * attention->heads * tokens;
    if (attention->mix && previous) args.mix = args.by_word ? weights : attention->mix, args.previous = previous;
    return NAMED(attend)(&args);
}

// Normalizes and rotates a token's query and key in self-attention, the first 2 width of its projections.
INLINE void turn_query_and_key(const struct stack *stack, const struct attention *attention, int64_t position,
                               float *projected) {
    int64_t heads = attention->heads, head_dim = stack->width / heads;
    const float *rotation = stack->rotations ? stack->rotations + position * head_dim : NULL;
    turn_heads(&attention->query_norm, rotation, heads, head_dim, projected);
    turn_heads(&attention->key_norm, rotation, heads, head_dim, projected + stack->width);
}

// Encodes the sentences first..end-1; `maps` has two maps (K, S, S) for each of them.
static int encode_sentences(const struct batch *batch, int64_t first, int64_t end, float *x, float *maps,
                            float *weights, struct discarded discarded) {
    const struct translation *args = batch->args;
    const struct stack *encoder = &args->encoder;
    int64_t width = encoder->width, from = args->source_offsets[first], tokens = args->source_offsets[end] - from;
    float *normalized = x + tokens * width, *attended = normalized + tokens * width;
    float *first_values = attended + tokens * width, *inner = first_values + tokens * width;
    for (int64_t sentence = first; sentence < end; sentence++)
        for (int64_t i = args->source_offsets[sentence]; i < args->source_offsets[sentence + 1]; i++)
            embed(encoder, args->source_tokens[i], i - args->source_offsets[sentence], x + (i - from) * width);
    struct hidden_states states = {tokens, width, encoder->normalize_before, x, normalized};
    apply_norm(&encoder->embedding_norm, width, tokens, x, x);
    for (int64_t l = 0; l < encoder->layers; l++) {
        const struct layer *layer = &encoder->layer[l];
        const struct attention *self = &layer->self_attention;
        const float *input = sublayer_input(&states, &self->norm);
        apply_linear(&self->in_proj, input, tokens, NULL, inner);
        mix_values(self, !l, tokens, width, 3 * width, inner + 2 * width, first_values);
        float *map = maps;
        for (int64_t sentence = first; sentence < end; sentence++) {
            int64_t count = source_length(args, sentence), begin = args->source_offsets[sentence] - from;
            for (int64_t i = 0; i < count; i++) turn_query_and_key(encoder, self, i, inner + (begin + i) * 3 * width);
            int64_t size = self->heads * count * count;
            const float *previous = map + (l + 1) % 2 * size;
            if (has_word_weights(self)) weigh_words(self, 1, count, input + begin * width, weights);
            if (attend_sentence(self, count, width, inner + begin * 3 * width, l ? previous : NULL, weights,
                                map + l % 2 * size, discarded, attended + begin * width))
                return 1;
            map += 2 * size;
        }
        adjust_outputs(self, tokens, width, input, inner + 2 * width, 3 * width, inner, attended);
        add_sublayer_output(&states, &self->norm, &self->out_proj, attended);
        feed_forward(layer, &states, inner);
    }
    apply_norm(&encoder->final_norm, width, tokens, x, x);
    int64_t memory_width = args->decoder.width;
    for (int64_t l = 0; l < args->decoder.layers; l++) {
        const struct attention *cross = &args->decoder.layer[l].cross_attention;
        float *keys = cross_memory(batch, l, 0, first), *values = cross_memory(batch, l, 1, first);
        apply_linear(&cross->k_proj, x, tokens, NULL, keys);
        turn_heads(&cross->key_norm, NULL, tokens * cross->heads, memory_width / cross->heads, keys);
        apply_linear(&cross->v_proj, x, tokens, NULL, values);
        mix_values(cross, 0, tokens, memory_width, memory_width, values, cross_memory(batch, 0, 1, first));
    }
    return 0;
}

// The task that encodes a group of sentences.
static int encode_group(const void *argument, int64_t task) {
    const struct batch *batch = argument;
    const struct translation *args = batch->args;
    int64_t first = task * batch->sentences_per_group,
            end = min_int(first + batch->sentences_per_group, args->sentences);
    int64_t width = args->encoder.width, tokens = args->source_offsets[end] - args->source_offsets[first], heads = 0,
            inner = 3 * width;
    for (int64_t l = 0; l < args->encoder.layers; l++) {
        heads = max_int(heads, args->encoder.layer[l].self_attention.heads);
        inner = max_int(inner, args->encoder.layer[l].fc1.outputs);
    }
    int64_t maps = 0, longest = 0;
    for (int64_t sentence = first; sentence < end; sentence++) {
        int64_t count = source_length(args, sentence);
        maps += 2 * heads * count * count;
        longest = max_int(longest, count);
    }
    int64_t size = tokens * (4 * width + inner), rows = heads * longest;
    float *memory = malloc(4 * (size + maps + 5 * rows) + relu_mask_size(heads, longest));
    if (!memory) return 1;
    float *weights = memory + size + maps, *logsumexp = weights + 4 * rows;
    int failed = encode_sentences(batch, first, end, memory, memory + size, weights,
                                  (struct discarded){logsumexp, (uint8_t *)(logsumexp + rows)});
    free(memory);
    return failed;
}
