// Translation: each thread takes sentences of a batch, and another one where one is done. Included once for each
// instruction set.
#pragma once
#include "decoder.h"

enum { ROWS = 120, GROUP_TOKENS = 120 };  // hypotheses of a thread's step, and tokens that are encoded side by side

// The memory of a thread that translates.
struct translator {
    const struct batch *batch;
    struct beam *beams;
    int64_t count;  // sentences
    struct candidate *candidates;
    float *x, *normalized, *attended, *inner, *words;  // rows of a step
};

// Takes sentences that no thread has begun; returns whether there was not enough memory.
static int take_sentences(struct translator *at) {
    const struct batch *batch = at->batch;
    const struct translation *a = batch->a;
    while (at->count < batch->most) {
        int64_t sentence = __atomic_fetch_add((int64_t *)&batch->next, 1, __ATOMIC_RELAXED);
        if (sentence >= a->sentences) break;
        struct beam *beam = &at->beams[at->count++];
        *beam = (struct beam){.sentence = sentence, .rows = 1};
        if (make_room(batch, beam, min_of(16, a->max_len + 1))) return 1;
        beam->tokens[0] = a->first;
    }
    return 0;
}

// The rows of the vocabulary's scores for the next word of all hypotheses; returns whether there was not enough memory.
static int step_layers(struct translator *at) {
    const struct batch *batch = at->batch;
    const struct translation *a = batch->a;
    const struct stack *decoder = &a->decoder;
    struct rows_of_layer rows = {0, decoder->width, decoder->normalize_before, at->x, at->normalized};
    for (struct beam *beam = at->beams; beam < at->beams + at->count; beam++) {
        int64_t room = min_of(beam->now + 2, a->max_len + 1);  // what follows this step is written, too
        if (room > beam->room && make_room(batch, beam, min_of(2 * beam->room, a->max_len + 1))) return 1;
        for (int64_t row = 0; row < beam->rows; row++, rows.rows++) {
            back_pointers_of(a, beam, row)[beam->now] = row;
            embed(decoder, beam->tokens[beam->now * a->beam + row], beam->now, at->x + rows.rows * rows.width);
        }
        beam->layer_cache = beam->cache;
    }
    apply_norm(&decoder->embedding_norm, rows.width, rows.rows, at->x, at->x);
    for (int64_t l = 0; l < decoder->layers; l++) {
        const struct layer *layer = &decoder->layer[l];
        for (int is_cross = 0; is_cross < 2; is_cross++) {
            const struct attention *attention = is_cross ? &layer->cross_attention : &layer->self_attention;
            const float *query = at->inner;
            float *attended = at->attended;
            apply_linear(&attention->input, before(&rows, &attention->norm), rows.rows, NULL, at->inner);
            for (struct beam *beam = at->beams; beam < at->beams + at->count; beam++) {
                if (attend_step(batch, beam, l, is_cross, query, attended)) return 1;
                query += beam->rows * attention->input.outputs;
                attended += beam->rows * rows.width;
            }
            after(&rows, &attention->norm, &attention->output, at->attended);
        }
        feed_forward(layer, &rows, at->inner);
        for (struct beam *beam = at->beams; beam < at->beams + at->count; beam++)
            beam->layer_cache += layer_size(layout_of(batch, layer, beam->sentence, beam->room));
    }
    apply_norm(&decoder->final_norm, rows.width, rows.rows, at->x, at->x);
    apply_linear(&a->vocabulary, at->x, rows.rows, NULL, at->words);
    return 0;
}

// Steps until no sentence is left. Returns 1 where there was not enough memory, 2 where words have no finite score.
static int translate_sentences(struct translator *at) {
    const struct translation *a = at->batch->a;
    for (;;) {
        if (take_sentences(at)) return 1;
        if (!at->count) return 0;
        if (step_layers(at)) return 1;
        float *words = at->words;
        int64_t kept = 0;
        for (int64_t i = 0; i < at->count; i++) {
            struct beam *beam = &at->beams[i];
            int64_t rows = beam->rows, count = best_candidates(a, beam, words, at->candidates);
            int done = advance(a, beam, at->candidates, count);
            if (done < 0) return 2;
            if (done) end_beam(beam);
            else if (kept++ < i) at->beams[kept - 1] = *beam, *beam = (struct beam){0};
            words += rows * a->vocabulary.outputs;
        }
        at->count = kept;
    }
}

// The task of a thread.
static int translate_task(const void *argument, int64_t task) {
    (void)task;
    struct batch *batch = (struct batch *)argument;
    const struct translation *a = batch->a;
    int64_t width = a->decoder.width, rows = batch->most * a->beam, inner = 3 * width;
    for (int64_t l = 0; l < a->decoder.layers; l++) inner = max_of(inner, a->decoder.layer[l].up.outputs);
    struct translator at = {.batch = batch, .beams = calloc(batch->most, sizeof *at.beams)};
    at.candidates = malloc(2 * a->beam * sizeof *at.candidates);
    at.x = malloc(4 * rows * (3 * width + inner + a->vocabulary.outputs));
    int failed = 1;
    if (at.beams && at.candidates && at.x) {
        at.normalized = at.x + rows * width;
        at.attended = at.normalized + rows * width;
        at.inner = at.attended + rows * width;
        at.words = at.inner + rows * inner;
        failed = translate_sentences(&at);
    }
    for (int64_t i = 0; at.beams && i < at.count; i++) end_beam(&at.beams[i]);
    free(at.beams), free(at.candidates), free(at.x);
    if (failed == 2) __atomic_store_n(&batch->not_finite, 1, __ATOMIC_RELAXED);
    return failed;
}

int NAMED(translate)(const struct translation *a) {
    struct batch batch = {.a = a};
    int64_t threads = min_of(a->pool.parallel ? a->pool.threads : 1, a->sentences), tokens = a->begins[a->sentences];
    batch.most = min_of(max_of(1, ROWS / a->beam), ceil_div(a->sentences, threads));
    batch.group = max_of(1, min_of(GROUP_TOKENS * a->sentences / max_of(1, tokens), ceil_div(a->sentences, threads)));
    batch.memory = malloc(4 * (2 * a->decoder.layers * tokens * a->decoder.width + LANES));
    batch.first_rows = calloc(a->beam, sizeof *batch.first_rows);
    int failed = !batch.memory || !batch.first_rows ||
                 share(&a->pool, ceil_div(a->sentences, batch.group), encode_group, &batch) ||
                 share(&a->pool, threads, translate_task, &batch);
    free(batch.memory), free(batch.first_rows);
    return batch.not_finite ? 2 : failed;
}
