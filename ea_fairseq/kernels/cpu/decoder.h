// The decoder's KV caches, and one step of all its layers for the hypotheses of several sentences. Included once for
// each instruction set.
#pragma once
#include "decode.h"
#include "encode.h"
#include "search.h"

// Number of elements of a layer's part of a sentence's cache.
struct layer_cache {
    int64_t keys;                      // of keys, and also of values, (capacity, beam, width)
    int64_t self_rows, cross_rows;     // of rows that convolutions read again, (above + 1, beam, K, capacity or S)
};

INLINE struct layer_cache layer_cache_layout(const struct batch *batch, const struct layer *layer, int64_t sentence,
                                             int64_t capacity) {
    const struct translation *args = batch->args;
    const struct attention *self = &layer->self_attention, *cross = &layer->cross_attention;
    return (struct layer_cache){
        .keys = capacity * args->beam_size * args->decoder.width,
        .self_rows = self->weight ? (self->above + 1) * args->beam_size * self->heads * capacity : 0,
        .cross_rows =
            cross->weight ? (cross->above + 1) * args->beam_size * cross->heads * source_length(args, sentence) : 0,
    };
}

INLINE int64_t layer_cache_size(struct layer_cache layout) {
    return 2 * layout.keys + layout.self_rows + layout.cross_rows;
}

// Number of elements of the logits (beam, K, capacity or S) that one layer passes to the next.
INLINE int64_t map_size_of_beam(const struct batch *batch, int64_t sentence, int64_t capacity) {
    const struct translation *args = batch->args;
    int64_t heads = 0;
    for (int64_t l = 0; l < args->decoder.layers; l++)
        heads = max_int(
            heads, max_int(args->decoder.layer[l].self_attention.heads, args->decoder.layer[l].cross_attention.heads));
    return args->beam_size * heads * max_int(capacity, source_length(args, sentence));
}

// Copies rows of `from_length` floats into rows of `to_length`.
INLINE void copy_rows(const float *from, int64_t rows, int64_t from_length, int64_t to_length, float *to) {
    for (int64_t row = 0; row < rows; row++) memcpy(to + row * to_length, from + row * from_length, 4 * from_length);
}

// Reallocates the caches of a sentence for `capacity` steps; returns whether there was not enough memory.
static int grow_beam(const struct batch *batch, struct beam *beam, int64_t capacity) {
    const struct translation *args = batch->args;
    int64_t size = 2 * map_size_of_beam(batch, beam->sentence, capacity), old = beam->capacity;
    for (int64_t l = 0; l < args->decoder.layers; l++)
        size += layer_cache_size(layer_cache_layout(batch, &args->decoder.layer[l], beam->sentence, capacity));
    float *cache = malloc(4 * size), *scores = malloc(4 * capacity * args->beam_size);
    int32_t *tokens = malloc(4 * capacity * args->beam_size), *back_pointers = malloc(8 * capacity * args->beam_size);
    if (!cache || !scores || !tokens || !back_pointers) {
        free(cache), free(scores), free(tokens), free(back_pointers);
        return 1;
    }
    if (old) {
        float *from = beam->cache, *to = cache;
        for (int64_t l = 0; l < args->decoder.layers; l++) {
            const struct layer *layer = &args->decoder.layer[l];
            struct layer_cache old_layout = layer_cache_layout(batch, layer, beam->sentence, old);
            struct layer_cache new_layout = layer_cache_layout(batch, layer, beam->sentence, capacity);
            copy_rows(from, 2, old_layout.keys, new_layout.keys, to);
            if (old_layout.self_rows)
                copy_rows(from + 2 * old_layout.keys, old_layout.self_rows / old, old, capacity,
                          to + 2 * new_layout.keys);
            memcpy(to + 2 * new_layout.keys + new_layout.self_rows, from + 2 * old_layout.keys + old_layout.self_rows,
                   4 * old_layout.cross_rows);
            from += layer_cache_size(old_layout);
            to += layer_cache_size(new_layout);
        }
        memcpy(tokens, beam->tokens, 4 * old * args->beam_size);
        memcpy(scores, beam->scores, 4 * old * args->beam_size);
        for (int64_t row = 0; row < 2 * args->beam_size; row++)
            memcpy(back_pointers + row * capacity, beam->back_pointers + row * old, 4 * old);
    }
    free(beam->cache), free(beam->scores), free(beam->tokens), free(beam->back_pointers);
    beam->cache = cache, beam->scores = scores, beam->tokens = tokens, beam->back_pointers = back_pointers;
    beam->capacity = capacity;
    for (int i = 0; i < 2; i++)
        beam->maps[i] = cache + size - (2 - i) * map_size_of_beam(batch, beam->sentence, capacity);
    return 0;
}

static void free_beam(struct beam *beam) {
    free(beam->cache), free(beam->scores), free(beam->tokens), free(beam->back_pointers);
    *beam = (struct beam){0};
}

// One attention of a decoding step for the hypotheses of a sentence, given the output of its input projection, and the
// weights of its words, see weigh_words.
static int attend_in_step(const struct batch *batch, struct beam *beam, int64_t l, int is_cross, const float *query,
                          const float *weights, float *attended) {
    const struct translation *args = batch->args;
    const struct layer *layer = &args->decoder.layer[l];
    const struct attention *attention = is_cross ? &layer->cross_attention : &layer->self_attention;
    struct layer_cache layout = layer_cache_layout(batch, layer, beam->sentence, beam->capacity);
    int64_t width = args->decoder.width;
    float *cache = beam->layer_cache, *map = beam->maps[is_cross];
    struct step step = {
        .rows = beam->rows,
        .heads = attention->heads,
        .head_dim = width / attention->heads,
        .keys = is_cross ? source_length(args, beam->sentence) : beam->step + 1,
        .kernel = attention->kernel,
        .above = attention->above,
        .left = attention->left,
        .scale = attention->scale,
        .token_stride = is_cross ? width : 3 * width,
        .query = query,
        .new_key = is_cross ? NULL : query + width,
        .new_value = is_cross ? NULL : query + 2 * width,
        .key = is_cross ? cross_memory(batch, l, 0, beam->sentence) : cache,
        .value = is_cross ? cross_memory(batch, l, 1, beam->sentence) : cache + layout.keys,
        .cache_slots = is_cross ? 1 : args->beam_size,
        .back_pointers = back_pointers_of(args, beam, 0),
        .max_steps = beam->capacity,
        .current_step = beam->step,
        .sentence = is_cross ? batch->zero_slots : NULL,
        .weight = attention->weight,
        .bias = attention->bias,
        .beta = attention->beta,
        .sinks = attention->sinks,
        .conv_input = cache + 2 * layout.keys + (is_cross ? layout.self_rows : 0),
        .conv_slots = args->beam_size,
        .capacity = is_cross ? source_length(args, beam->sentence) : beam->capacity,
        .output = attended,
        .pool = {NULL, 1},
    };
    step.by_word = has_word_weights(attention);
    if (step.by_word) step.beta = weights + 2 * beam->rows * attention->heads;
    if (attention->mix && l) step.mix = step.by_word ? weights : attention->mix, step.previous = map;
    if (attention->mix) step.logits = map;  // overwrites the previous layer's logits
    return NAMED(decode)(&step);
}
