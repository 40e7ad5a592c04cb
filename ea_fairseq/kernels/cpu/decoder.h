// The decoder's KV caches, and one step of all its layers for the hypotheses of several sentences. Included once for
// each instruction set.
#pragma once
#include "decode.h"
#include "encode.h"
#include "search.h"

// Floats of a layer's part of a cache.
struct cache_layout {
    int64_t keys;                      // keys, and as many of values, (room, beam, width)
    int64_t self_rows, cross_rows;     // rows that convolutions read again, (above + 1, beam, K, room or S)
};

INLINE struct cache_layout layout_of(const struct batch *batch, const struct layer *layer, int64_t sentence,
                                     int64_t room) {
    const struct translation *a = batch->a;
    const struct attention *self = &layer->self_attention, *cross = &layer->cross_attention;
    return (struct cache_layout){
        .keys = room * a->beam * a->decoder.width,
        .self_rows = self->weight ? (self->above + 1) * a->beam * self->heads * room : 0,
        .cross_rows = cross->weight ? (cross->above + 1) * a->beam * cross->heads * tokens_in(a, sentence) : 0,
    };
}

INLINE int64_t layer_size(struct cache_layout layout) {
    return 2 * layout.keys + layout.self_rows + layout.cross_rows;
}

// Floats of the maps that layers hand on, (beam, K, room or S).
INLINE int64_t map_floats(const struct batch *batch, int64_t sentence, int64_t room) {
    const struct translation *a = batch->a;
    int64_t heads = 0;
    for (int64_t l = 0; l < a->decoder.layers; l++)
        heads = max_of(heads, max_of(a->decoder.layer[l].self_attention.heads,
                                     a->decoder.layer[l].cross_attention.heads));
    return a->beam * heads * max_of(room, tokens_in(a, sentence));
}

// Copies rows of `from_length` floats into rows of `to_length`.
INLINE void widen(const float *from, int64_t rows, int64_t from_length, int64_t to_length, float *to) {
    for (int64_t row = 0; row < rows; row++) memcpy(to + row * to_length, from + row * from_length, 4 * from_length);
}

// Makes room for more steps of a sentence.
static int make_room(const struct batch *batch, struct beam *beam, int64_t room) {
    const struct translation *a = batch->a;
    int64_t size = 2 * map_floats(batch, beam->sentence, room), old = beam->room;
    for (int64_t l = 0; l < a->decoder.layers; l++)
        size += layer_size(layout_of(batch, &a->decoder.layer[l], beam->sentence, room));
    float *cache = malloc(4 * size), *scores = malloc(4 * room * a->beam);
    int32_t *tokens = malloc(4 * room * a->beam), *back_pointers = malloc(8 * room * a->beam);
    if (!cache || !scores || !tokens || !back_pointers) {
        free(cache), free(scores), free(tokens), free(back_pointers);
        return 1;
    }
    if (old) {
        float *from = beam->cache, *to = cache;
        for (int64_t l = 0; l < a->decoder.layers; l++) {
            const struct layer *layer = &a->decoder.layer[l];
            struct cache_layout before = layout_of(batch, layer, beam->sentence, old);
            struct cache_layout after = layout_of(batch, layer, beam->sentence, room);
            widen(from, 2, before.keys, after.keys, to);
            if (before.self_rows)
                widen(from + 2 * before.keys, before.self_rows / old, old, room, to + 2 * after.keys);
            memcpy(to + 2 * after.keys + after.self_rows, from + 2 * before.keys + before.self_rows,
                   4 * before.cross_rows);
            from += layer_size(before);
            to += layer_size(after);
        }
        memcpy(tokens, beam->tokens, 4 * old * a->beam);
        memcpy(scores, beam->scores, 4 * old * a->beam);
        for (int64_t row = 0; row < 2 * a->beam; row++)
            memcpy(back_pointers + row * room, beam->back_pointers + row * old, 4 * old);
    }
    free(beam->cache), free(beam->scores), free(beam->tokens), free(beam->back_pointers);
    beam->cache = cache, beam->scores = scores, beam->tokens = tokens, beam->back_pointers = back_pointers;
    beam->room = room;
    for (int i = 0; i < 2; i++) beam->maps[i] = cache + size - (2 - i) * map_floats(batch, beam->sentence, room);
    return 0;
}

static void end_beam(struct beam *beam) {
    free(beam->cache), free(beam->scores), free(beam->tokens), free(beam->back_pointers);
    *beam = (struct beam){0};
}

// A step of one sentence's hypotheses in an attention; `query` is what its first linear layer makes of them.
static int attend_step(const struct batch *batch, struct beam *beam, int64_t l, int is_cross, const float *query,
                       float *attended) {
    const struct translation *a = batch->a;
    const struct layer *layer = &a->decoder.layer[l];
    const struct attention *attention = is_cross ? &layer->cross_attention : &layer->self_attention;
    struct cache_layout layout = layout_of(batch, layer, beam->sentence, beam->room);
    int64_t width = a->decoder.width;
    float *cache = beam->layer_cache, *map = beam->maps[is_cross];
    struct step step = {
        .rows = beam->rows, .heads = attention->heads, .head_dim = width / attention->heads,
        .keys = is_cross ? tokens_in(a, beam->sentence) : beam->now + 1,
        .kernel = attention->kernel, .above = attention->above, .left = attention->left,
        .scale = attention->scale,
        .stride = is_cross ? width : 3 * width, .query = query,
        .new_key = is_cross ? NULL : query + width, .new_value = is_cross ? NULL : query + 2 * width,
        .key = is_cross ? memory_of(batch, l, 0, beam->sentence) : cache,
        .value = is_cross ? memory_of(batch, l, 1, beam->sentence) : cache + layout.keys,
        .slots = is_cross ? 1 : a->beam,
        .back_pointers = back_pointers_of(a, beam, 0), .steps = beam->room, .now = beam->now,
        .sentence = is_cross ? batch->first_rows : NULL,
        .weight = attention->weight, .bias = attention->bias, .beta = attention->beta,
        .conv_input = cache + 2 * layout.keys + (is_cross ? layout.self_rows : 0), .conv_slots = a->beam,
        .room = is_cross ? tokens_in(a, beam->sentence) : beam->room,
        .output = attended, .pool = {NULL, 1},
    };
    if (attention->mix && l) step.mix = attention->mix, step.previous = map;
    if (attention->mix) step.logits = map;  // in place of what has been read
    return NAMED(decode)(&step);
}
